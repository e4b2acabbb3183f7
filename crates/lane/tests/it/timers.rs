//! Slow and silent clients. Timers are short here; assertions are on what happens, not on when.

use crate::support::{Server, big_json, request, result, rpc};
use prestate_lane::LaneConfig;
use std::{
    io::{ErrorKind, Read, Write},
    sync::atomic::Ordering::SeqCst,
    time::Duration,
};

const SHORT: Duration = Duration::from_millis(300);
/// Long enough to be over last.
const LONG: Duration = Duration::from_secs(3600);

fn config() -> LaneConfig {
    LaneConfig {
        header_timeout: LONG,
        body_timeout: LONG,
        idle_timeout: LONG,
        write_timeout: LONG,
        ..Default::default()
    }
}

/// B58 (hyper#2675): headers that do not end, first and later ones.
#[test]
fn unfinished_headers_are_cut_off() {
    let server = Server::with(LaneConfig { header_timeout: SHORT, ..config() });
    for silent in ["", "POST / HTTP/1.1\r\nhost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut client = server.connect();
        client.write(silent);
        assert!(client.at_end(), "{silent:?}");
    }
    let mut client = server.connect();
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").status, 200);
    client.write("POST / HTTP/1.1\r\n");
    assert!(client.at_end());
    assert_eq!(server.stats().connections_timed_out, 4);
}

/// B58 (lighthouse#4439): idle connections outlive the header timer and end by their own.
#[test]
fn idle_connections_are_kept_and_then_closed() {
    let server = Server::with(LaneConfig { header_timeout: SHORT, ..config() });
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").status, 200);
        std::thread::sleep(2 * SHORT);
    }
    let server = Server::with(LaneConfig { idle_timeout: SHORT, ..config() });
    let mut client = server.connect();
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").status, 200);
    assert!(client.at_end());
    assert_eq!(server.stats().connections_timed_out, 1);
}

/// A call that runs longer than the idle timer is not idle.
#[test]
fn running_calls_are_not_idle() {
    let server =
        Server::with(LaneConfig { idle_timeout: SHORT, header_timeout: SHORT, ..config() });
    assert_eq!(server.call(&rpc("test_sleep", "[1500]")), result("1500"));
}

/// In the laboratory an unfinished body stayed open for ever.
#[test]
fn unfinished_bodies_are_cut_off() {
    let server = Server::with(LaneConfig { body_timeout: SHORT, ..config() });
    let mut client = server.connect();
    client.write(request(&rpc("eth_chainId", "[]"), "").trim_end_matches('}'));
    let response = client.read();
    assert_eq!(response.status, 408);
    assert_eq!(response.json()["error"]["code"], -32002);
    assert!(client.at_end());
    assert_eq!(server.stats().request_bytes_in_flight, 0);
    assert_eq!(server.seen.calls.load(SeqCst), 0);
}

/// In the laboratory six clients that never read held 4.9 MB each.
#[test]
fn readers_that_stop_do_not_pin_their_replies() {
    let server = Server::with(LaneConfig { write_timeout: SHORT, ..config() });
    let stopped: Vec<_> = (0..6)
        .map(|_| {
            let mut client = server.connect();
            client.write(request(&rpc("test_big", "[30000000]"), ""));
            client
        })
        .collect();
    server.until("replies are held", |server| server.stats().hits == 6);
    server.until("replies are let go", |server| {
        let stats = server.stats();
        stats.response_bytes_in_flight == 0 && stats.connections_open == 0
    });
    for mut client in stopped {
        let mut all = Vec::new();
        match client.stream.read_to_end(&mut all) {
            Ok(len) => assert!(len < 30_000_000),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

/// The same over HTTP/2, where the socket flows on and a window is what stops.
#[test]
fn http2_readers_that_stop_do_not_pin_their_replies() {
    let server = Server::with(LaneConfig { write_timeout: SHORT, ..config() });
    let mut client = server.connect();
    // Preface, empty SETTINGS; HEADERS for GET of a resource-free path would be small, so a POST:
    // literal fields without indexing (RFC 7541 §6.2.2).
    let body = rpc("test_big", "[30000000]");
    client.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.write(frame(4, 0, 0, b""));
    let mut block = vec![0x83, 0x84, 0x86]; // POST, "/", http
    literal(&mut block, ":authority", "localhost");
    literal(&mut block, "content-type", "application/json");
    client.write(frame(1, 4, 1, &block));
    client.write(frame(0, 1, 1, body.as_bytes()));
    server.until("the reply is held", |server| server.stats().hits == 1);
    // The client keeps the connection busy with pings and never grants a window.
    let mut pinger = client.stream.try_clone().unwrap();
    let pinging = std::thread::spawn(move || {
        while pinger.write_all(&frame(6, 0, 0, b"pingpong")).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut received = Vec::new();
    let _ = client.stream.read_to_end(&mut received);
    assert!(received.len() < 1_000_000, "{}", received.len());
    server.until("the reply is let go", |server| {
        let stats = server.stats();
        stats.response_bytes_in_flight == 0 && stats.connections_open == 0
    });
    pinging.join().unwrap();
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        block.push(text.len() as u8);
        block.extend_from_slice(text.as_bytes());
    }
}

/// A reader that is slow but reads gets it all, past any timer.
#[test]
fn slow_readers_finish() {
    let server = Server::with(LaneConfig {
        write_timeout: 2 * SHORT,
        idle_timeout: 2 * SHORT,
        header_timeout: 2 * SHORT,
        ..config()
    });
    let mut client = server.connect();
    client.write(request(&rpc("test_big", "[30000000]"), ""));
    let mut len = 0;
    let mut bytes = vec![0; 1 << 20];
    let expected = result(&big_json(30_000_000)).len();
    while len < expected {
        let read = client.stream.read(&mut bytes).unwrap();
        assert!(read > 0, "cut off after {len}");
        len += read;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Requests begun are finished, no new connections, then everything is gone.
#[test]
fn shutdown_lets_requests_finish() {
    let server = Server::with(config());
    let mut idle = server.connect();
    assert_eq!(idle.post(&rpc("eth_chainId", "[]"), "").status, 200);
    let mut busy = server.connect();
    busy.write(request(&rpc("test_sleep", "[700]"), ""));
    server.until("it runs", |server| server.seen.running.load(SeqCst) == 1);
    let addr = server.addr;
    server.shutdown(Duration::from_secs(20));
    assert_eq!(busy.read().text(), result("700"));
    assert!(busy.at_end() && idle.at_end());
    assert!(std::net::TcpStream::connect(addr).is_err());
}

#[test]
fn shutdown_ends_what_does_not_finish() {
    let server = Server::with(config());
    let mut busy = server.connect();
    busy.write(request(&rpc("test_sleep", "[600000]"), ""));
    server.until("it runs", |server| server.seen.running.load(SeqCst) == 1);
    let seen = std::sync::Arc::clone(&server.seen);
    server.shutdown(SHORT);
    assert!(busy.at_end());
    assert_eq!(seen.dropped.load(SeqCst), 1);
}

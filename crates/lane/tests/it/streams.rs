//! Results that are made while the client reads.

use crate::support::{Server, big_json, result, rpc, streamed};
use prestate_lane::LaneConfig;
use std::{io::Read, sync::atomic::Ordering::SeqCst, time::Duration};

/// B3: chunked, each piece flushed, decodable in every coding.
#[test]
fn streams_are_chunked_and_decode() {
    let server = Server::start();
    let mut client = server.connect();
    let expected = result(&streamed(20, 5000));
    for coding in ["identity", "gzip", "zstd"] {
        let header = format!("accept-encoding: {coding}\r\n");
        let response = client.post(&rpc("test_stream", "[20,5000]"), &header);
        assert_eq!(response.header("content-length"), None);
        assert_eq!(response.header("x-response-size"), None);
        assert_eq!(response.header("content-encoding"), (coding != "identity").then_some(coding));
        assert!(response.whole && response.chunks >= 20, "{}", response.chunks);
        assert!(response.decoded() == expected, "{coding}");
    }
}

/// What is there can be read before the rest is made.
#[test]
fn pieces_are_flushed() {
    let server = Server::start();
    for coding in ["identity", "gzip", "zstd"] {
        let mut client = server.connect();
        let body = rpc("test_stream", r#"[2,5000,"hang"]"#);
        client.write(crate::support::request(&body, &format!("accept-encoding: {coding}\r\n")));
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}", big_json(5000));
        // The first piece decodes while the maker hangs.
        let mut raw = Vec::new();
        let mut chunk = [0; 4096];
        let mut text = Vec::new();
        while !text.starts_with(expected.as_bytes()) {
            let len = client.stream.read(&mut chunk).unwrap();
            assert!(len > 0, "ended");
            raw.extend_from_slice(&chunk[..len]);
            text = decode_prefix(&raw, coding);
        }
    }
    // B54: clients that are gone end the work.
    server.until("streams end", |server| server.seen.streams_ended.load(SeqCst) == 3);
}

/// Decodes what can be decoded of a chunked reply that is not whole.
fn decode_prefix(raw: &[u8], coding: &str) -> Vec<u8> {
    let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") else { return Vec::new() };
    let (mut rest, mut body) = (&raw[at + 4..], Vec::new());
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let from = end + 2;
        body.extend_from_slice(&rest[from..rest.len().min(from + len)]);
        rest = rest.get(from + len + 2..).unwrap_or_default();
    }
    let mut text = Vec::new();
    match coding {
        "gzip" => drop(flate2::bufread::GzDecoder::new(&body[..]).read_to_end(&mut text)),
        "zstd" => drop(zstd::Decoder::new(&body[..]).map(|mut d| d.read_to_end(&mut text))),
        _ => text = body,
    }
    text
}

/// B5: a stream that turns out small is a reply like any other, with a length.
#[test]
fn short_streams_are_whole_replies() {
    let server = Server::start();
    let mut client = server.connect();
    let response = client.post(&rpc("test_stream", "[3,10]"), "accept-encoding: gzip\r\n");
    assert_eq!(response.header("content-encoding"), None);
    assert!(response.header("content-length").is_some());
    assert_eq!(response.text(), result(&streamed(3, 10)));
}

/// B51 (erigon#4838 and others: `result":nullnull`): an error before the first byte is an error
/// object, one after it breaks the connection.
#[test]
fn an_error_half_way_is_seen() {
    let server = Server::start();
    let broke = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"broke"}}"#;
    assert_eq!(server.call(&rpc("test_stream", r#"[2,10,"fail"]"#)), broke);
    let gone = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}"#;
    assert_eq!(server.call(&rpc("test_stream", r#"[2,10,"vanish"]"#)), gone);
    for end in ["fail", "vanish"] {
        for coding in ["identity", "gzip", "zstd"] {
            let mut client = server.connect();
            let body = rpc("test_stream", &format!(r#"[5,5000,"{end}"]"#));
            let response = client.post(&body, &format!("accept-encoding: {coding}\r\n"));
            assert_eq!(response.status, 200);
            assert!(!response.whole, "{end} {coding} looked whole");
            assert!(client.at_end());
        }
    }
    assert_eq!(server.stats().broken_streams, 7);
}

/// B54 (reth#20823): a client that goes away stops the work, while it streams and while it waits.
#[test]
fn hanging_up_stops_the_work() {
    let server = Server::start();
    let mut client = server.connect();
    client.write(crate::support::request(&rpc("test_stream", "[1000000,5000]"), ""));
    server.until("pieces", |server| server.seen.pieces.load(SeqCst) > 3);
    drop(client);
    server.until("the stream ends", |server| server.seen.streams_ended.load(SeqCst) == 1);
    let made = server.seen.pieces.load(SeqCst);
    assert!(made < 1_000_000, "{made}");

    let mut client = server.connect();
    client.write(crate::support::request(&rpc("test_sleep", "[600000]"), ""));
    server.until("the call runs", |server| server.seen.running.load(SeqCst) == 1);
    drop(client);
    server.until("the call is dropped", |server| server.seen.dropped.load(SeqCst) == 1);
    assert_eq!(server.stats().cancelled, 1);
}

/// B48 (erigon#4637: 41 GB of reply, 100 GB of memory): a reader that does not keep up holds a
/// few pieces, not the result.
#[test]
fn streams_run_in_bounded_memory() {
    let server = Server::start();
    let mut client = server.connect();
    client.write(crate::support::request(&rpc("test_stream", "[600,100000]"), ""));
    // Until the maker has made nothing for a while: the sockets are full.
    let mut made = u64::MAX;
    while made != server.seen.pieces.load(SeqCst) || made == 0 {
        made = server.seen.pieces.load(SeqCst);
        std::thread::sleep(Duration::from_millis(300));
    }
    let held = server.stats().response_bytes_in_flight;
    assert!(held < 4_000_000, "{held} bytes held");
    let response = client.read();
    assert!(response.whole);
    assert_eq!(response.body.len(), result(&streamed(600, 100_000)).len());
    server.until("released", |server| server.stats().response_bytes_in_flight == 0);
}

/// A stream whose maker stops is cut off by the call timeout, visibly.
#[test]
fn a_maker_that_hangs_is_cut_off() {
    let call_timeout = Duration::from_millis(200);
    let server = Server::with(LaneConfig { call_timeout, ..Default::default() });
    let response = server.connect().post(&rpc("test_stream", r#"[2,5000,"hang"]"#), "");
    assert!(!response.whole);
    let late = server.call(&rpc("test_stream", r#"[1,5,"hang"]"#));
    let expected =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"request timed out"}}"#;
    assert_eq!(late, expected);
    server.until("makers end", |server| server.seen.streams_ended.load(SeqCst) == 2);
}

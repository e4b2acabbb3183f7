//! Servers that say one thing and do another.

use super::*;
use std::{net::TcpListener, thread};

const PATIENCE: Duration = Duration::from_millis(300);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

/// A server that answers every request with these bytes; then it waits, or ends the connection.
fn server(answer: impl Into<Vec<u8>>, ends: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let answer = answer.into();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || {
                let mut request = [0; 1024];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    if stream.write_all(&answer).is_err() || ends {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// What a request comes to, its body looked at.
fn outcome(answer: impl Into<Vec<u8>>, ends: bool) -> Result<u64, Failure> {
    let addr = server(answer, ends);
    let mut connection = Connection::with_patience(addr, PATIENCE)?.keeping_bodies();
    let reply = connection.ask(REQUEST)?;
    reply.check()?;
    Ok(reply.body_bytes)
}

fn with_body(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

const GOOD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}";

#[test]
fn good_replies_are_replies() {
    assert_eq!(outcome(with_body("", GOOD), false), Ok(GOOD.len() as u64));
    let packed = prestate_wire::gzip_once(GOOD);
    let gzip = with_body("Content-Encoding: gzip\r\n", &packed);
    assert_eq!(outcome(gzip, false), Ok(packed.len() as u64));
    let packed = zstd::encode_all(GOOD, 1).unwrap();
    let zstd = with_body("content-encoding: zstd\r\n", &packed);
    assert_eq!(outcome(zstd, false), Ok(packed.len() as u64));
    let (one, two) = GOOD.split_at(5);
    let mut chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for part in [one, two, b""] {
        chunks.extend(format!("{:x};note\r\n", part.len()).bytes());
        chunks.extend(part);
        chunks.extend(b"\r\n");
    }
    assert_eq!(outcome(chunks, false), Ok(GOOD.len() as u64));
}

#[test]
fn every_way_to_fail_has_its_kind() {
    let head = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    let body = |text: &str| with_body("", text.as_bytes());
    let error = |code: i64, message: &str| {
        body(&format!("{{\"id\":1,\"error\":{{\"code\":{code},\"message\":\"{message}\"}}}}"))
    };
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(100_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(20_000));
    let packed = prestate_wire::gzip_once(GOOD);
    let truncated = &packed[..packed.len() - 9];
    for (answer, ends, kind) in [
        // Cut connections.
        (Vec::new(), true, Failure::Cut),
        (b"HTTP/1.1 200".to_vec(), true, Failure::Cut),
        (head("content-length: 10\r\n").into(), true, Failure::Cut),
        (format!("{}12345", head("content-length: 10\r\n")).into(), true, Failure::Cut),
        (
            format!("{}a\r\n12345", head("transfer-encoding: chunked\r\n")).into(),
            true,
            Failure::Cut,
        ),
        // Wrong lengths. One that is too long is waited for in vain.
        (format!("{}12345", head("content-length: 10\r\n")).into(), false, Failure::Timeout),
        (format!("{}123456", head("content-length: 2\r\n")).into(), false, Failure::Length),
        (format!("{}12", head("")).into(), true, Failure::Length),
        (head("content-length: -1\r\n").into(), false, Failure::Length),
        (head("content-length: 99999999999999999999\r\n").into(), false, Failure::Length),
        (
            format!("{}zz\r\n", head("transfer-encoding: chunked\r\n")).into(),
            false,
            Failure::Length,
        ),
        (
            format!("{}1\r\nabc\r\n", head("transfer-encoding: chunked\r\n")).into(),
            false,
            Failure::Length,
        ),
        // No head at all, or one without end.
        (b"hello\r\n\r\n".to_vec(), false, Failure::Length),
        (b"\xff\xfe\r\n\r\n".to_vec(), false, Failure::Length),
        (long.into(), false, Failure::Length),
        (many.into(), false, Failure::Length),
        // Bodies that are none.
        (body("[1,2"), false, Failure::Json),
        (body("<html>"), false, Failure::Json),
        (body("\"text\""), false, Failure::Json),
        (body("{\"id\":1}"), false, Failure::Json),
        (body("{\"id\":1,\"result\":null}"), false, Failure::Json),
        (body(""), false, Failure::Json),
        (with_body("content-encoding: gzip\r\n", GOOD), false, Failure::Json),
        (with_body("content-encoding: gzip\r\n", truncated), false, Failure::Json),
        (with_body("content-encoding: zstd\r\n", GOOD), false, Failure::Json),
        (with_body("content-encoding: br\r\n", GOOD), false, Failure::Json),
        // Refusals.
        (b"HTTP/1.1 503 no\r\ncontent-length: 0\r\n\r\n".to_vec(), false, Failure::Status(503)),
        (b"HTTP/1.1 429 no\r\ncontent-length: 0\r\n\r\n".to_vec(), false, Failure::RateLimited),
        (error(-32601, "no such method"), false, Failure::Gated),
        (error(-32005, "slow down"), false, Failure::RateLimited),
        (error(-32000, "block #1 not found"), false, Failure::Rpc(-32000)),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        assert_eq!(outcome(answer, ends), Err(kind), "{shown:?}, ends: {ends}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(Connection::open(closed), Err(Failure::Connect)));
}

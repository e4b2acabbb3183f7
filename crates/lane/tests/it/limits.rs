//! Sizes, numbers, overload.

use crate::support::{Server, big_json, request, result, rpc};
use prestate_lane::LaneConfig;
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

fn limit(id: &str, text: &str, name: &str, value: u64, given: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32005,"message":"{text}","data":{{"limit":"{name}","value":{value},"given":{given}}}}}}}"#
    )
}

/// B32 (go-ethereum#26681), B33 (besu#4951 and others), B34 (bnb#210): refused before any entry
/// runs, under the id of the first call.
#[test]
fn long_batches_are_refused_whole() {
    let server = Server::with(LaneConfig { max_batch_len: 3, ..Default::default() });
    let entry = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#);
    let batch = |len: usize| {
        let note = r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#.to_owned();
        let mut entries = vec![note];
        entries.extend((1..len).map(|at| entry(&format!("\"c{at}\""))));
        format!("[{}]", entries.join(","))
    };
    assert_eq!(
        server.call(&batch(4)),
        format!("[{}]", limit("\"c1\"", "batch too large", "batch-request-limit", 3, 4))
    );
    assert_eq!(server.seen.calls.load(SeqCst), 0);
    assert!(server.call(&batch(3)).contains("\"c2\""));
    assert_eq!(server.seen.calls.load(SeqCst), 3);
}

/// B34: 100,000 entries in one body under the size limit.
#[test]
fn very_long_batches_cost_nothing() {
    let server = Server::start();
    let body = format!("[{}]", vec![r#"{"jsonrpc":"2.0","id":9,"method":"x"}"#; 100_000].join(","));
    assert_eq!(
        server.call(&body),
        format!("[{}]", limit("9", "batch too large", "batch-request-limit", 1000, 100_000))
    );
    assert_eq!(server.seen.calls.load(SeqCst), 0);
    let body = format!("[{}]", vec![rpc("eth_chainId", "[]"); 1000].join(","));
    let expected = format!("[{}]", vec![result("\"0x1\""); 1000].join(","));
    assert!(server.call(&body) == expected);
}

/// B35 (jsonrpsee#744, stateless-validator#176): side by side, up to the bound, in order.
#[test]
fn batch_entries_run_side_by_side() {
    let server = Server::with(LaneConfig { batch_concurrency: 4, ..Default::default() });
    let body = format!("[{}]", vec![rpc("test_sleep", "[50]"); 10].join(","));
    assert_eq!(server.call(&body), format!("[{}]", vec![result("50"); 10].join(",")));
    assert_eq!(server.seen.most_running.load(SeqCst), 4);
}

/// B27 (reth#3847), B29 (erpc#1095): one code, the limit in `data`, the caller's id.
#[test]
fn large_results_are_refused_by_name() {
    let server = Server::with(LaneConfig { max_response_bytes: 1000, ..Default::default() });
    let mut client = server.connect();
    let call = |size| rpc("test_big", &format!("[{size}]"));
    assert_eq!(
        client.post(&call(1001), "").text(),
        limit("1", "response too large", "max-response-size", 1000, 1001)
    );
    assert_eq!(client.post(&call(1000), "").text(), result(&big_json(1000)));
    let batch = format!("[{},{}]", call(1001), call(10));
    assert_eq!(
        client.post(&batch, "").text(),
        format!(
            "[{},{}]",
            limit("1", "response too large", "max-response-size", 1000, 1001),
            result(&big_json(10))
        )
    );
    // A streamed result in a batch is held, so it is limited.
    let batch = format!("[{}]", rpc("test_stream", "[10,300]"));
    let answer = client.post(&batch, "").json();
    assert_eq!(answer[0]["error"]["code"], -32005, "{answer}");
    assert_eq!(answer[0]["error"]["data"]["limit"], "max-response-size");
    assert_eq!(server.stats().oversized, 3);
}

/// B28 (reth#5376): large limits do not wrap.
#[test]
fn large_limits_are_large() {
    let server = Server::with(LaneConfig {
        max_response_bytes: u64::MAX,
        max_batch_response_bytes: u64::MAX,
        max_request_bytes: u64::MAX,
        max_request_bytes_in_flight: u64::MAX,
        max_response_bytes_in_flight: u64::MAX,
        max_in_flight: usize::MAX,
        max_connections: usize::MAX,
        max_queue: usize::MAX,
        ..Default::default()
    });
    let batch = format!("[{}]", rpc("test_stream", "[10,300]"));
    let expected = format!("[{}]", result(&crate::support::streamed(10, 300)));
    assert_eq!(server.call(&batch), expected);
    assert_eq!(server.call(&rpc("test_big", "[100000]")), result(&big_json(100_000)));
}

/// B31 (stateless-validator#188): a batch has a limit of its own; what is left over is answered
/// with errors and not run.
#[test]
fn batches_have_a_limit_of_their_own() {
    let server = Server::with(LaneConfig {
        max_batch_response_bytes: 10_000,
        batch_concurrency: 2,
        ..Default::default()
    });
    let batch = format!("[{}]", vec![rpc("test_big", "[3000]"); 50].join(","));
    let answer: Vec<_> = server.connect().post(&batch, "").json().as_array().unwrap().clone();
    assert_eq!(answer.len(), 50);
    for (at, entry) in answer.iter().enumerate() {
        if at < 3 {
            assert!(entry["result"].is_string(), "{at}: {entry}");
        } else {
            assert_eq!(entry["error"]["code"], -32005, "{at}: {entry}");
            assert_eq!(entry["error"]["data"]["limit"], "batch-response-max-size");
        }
    }
    assert!(server.seen.calls.load(SeqCst) <= 6, "{}", server.seen.calls.load(SeqCst));
    // Streams that end over it are never sent cut.
    let batch = format!("[{}]", vec![rpc("test_stream", "[20,400]"); 4].join(","));
    let answer = server.connect().post(&batch, "").json();
    for entry in answer.as_array().unwrap() {
        let whole = entry["result"].as_array().is_some_and(|items| items.len() == 20);
        assert!(whole || entry["error"]["code"] == -32005, "{entry}");
    }
}

/// B47 (go-ethereum#16343: chunked bodies escaped), and Geth's text.
#[test]
fn large_bodies_are_refused() {
    let server = Server::with(LaneConfig { max_request_bytes: 1000, ..Default::default() });
    let body = |len: usize| {
        format!("{}{}", rpc("eth_chainId", "[]"), " ".repeat(len - rpc("eth_chainId", "[]").len()))
    };
    let text = |given| {
        let text = format!("content length too large ({given}>1000)");
        limit("null", &text, "http-body-limit", 1000, given)
    };
    assert_eq!(body(1000).len(), 1000);
    assert_eq!(server.call(&body(1000)), result("\"0x1\""));
    let mut client = server.connect();
    let response = client.post(&body(1001), "");
    assert_eq!((response.status, response.text()), (413, text(1001)));
    assert!(client.at_end());

    let chunked = |body: &str| {
        let mut request = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\
             \r\ntransfer-encoding: chunked\r\n\r\n"
            .to_owned();
        for chunk in body.as_bytes().chunks(100) {
            request.push_str(&format!("{:x}\r\n", chunk.len()));
            request.push_str(std::str::from_utf8(chunk).unwrap());
            request.push_str("\r\n");
        }
        request + "0\r\n\r\n"
    };
    let mut client = server.connect();
    client.write(chunked(&body(1000)));
    assert_eq!(client.read().text(), result("\"0x1\""));
    client.write(chunked(&body(2000)));
    let response = client.read();
    assert_eq!(response.status, 413);
    assert_eq!(response.json()["error"]["code"], -32005);
    assert_eq!(server.stats().request_bytes_in_flight, 0);
}

/// A body that lies about its length is a broken request, not a hang or a crash.
#[test]
fn bad_framing_is_refused() {
    let server = Server::start();
    for request in [
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.write(request);
        let response = client.read();
        assert_eq!(response.status, 400, "{request:?}");
    }
    assert_eq!(server.call(&rpc("eth_chainId", "[]")), result("\"0x1\""));
}

/// B58 (erigon#20303, #19905), B49: one form of overload everywhere: 503, `Retry-After`, -32005.
#[test]
fn overload_is_503_and_says_when_to_come_back() {
    let server = Server::with(LaneConfig { max_in_flight: 2, max_queue: 1, ..Default::default() });
    let mut running: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (at, client) in running.iter_mut().enumerate() {
        client.write(request(&rpc("test_sleep", "[1500]"), ""));
        server.until("it is in", |server| server.stats().requests == at as u64 + 1);
    }
    server.until("two run", |server| server.seen.running.load(SeqCst) == 2);
    let response = server.connect().post(&rpc("eth_chainId", "[]"), "accept-encoding: gzip\r\n");
    assert_eq!(response.status, 503);
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(
        response.text(),
        limit("null", "too many requests in flight", "requests-in-flight", 3, 4)
    );
    // Health answers while nothing else does.
    assert_eq!(server.connect().get("/health", "").status, 200);
    for mut client in running {
        assert_eq!(client.read().text(), result("1500"));
    }
    assert_eq!(server.call(&rpc("eth_chainId", "[]")), result("\"0x1\""));
    assert_eq!(server.seen.most_running.load(SeqCst), 2);
    assert_eq!(server.stats().overloaded, 1);
}

/// The same form when it is the service whose queue is full; the id is known then.
#[test]
fn a_full_queue_of_the_service_is_503_too() {
    let server = Server::start();
    let mut client = server.connect();
    let response = client.post(&rpc("test_queue", "[]"), "");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert_eq!(response.text(), limit("1", "too many wait", "queue", 1, 2));
    // One entry of many is no reason to send the whole batch again.
    let batch = format!("[{},{}]", rpc("test_queue", "[]"), rpc("eth_chainId", "[]"));
    let response = client.post(&batch, "");
    assert_eq!((response.status, response.header("retry-after")), (200, None));
    assert_eq!(response.json()[0]["error"]["code"], -32005);
    assert_eq!(server.stats().overloaded, 1);
}

#[test]
fn bytes_in_flight_are_bounded() {
    let server = Server::with(LaneConfig {
        max_request_bytes: 1000,
        max_request_bytes_in_flight: 1000,
        max_response_bytes_in_flight: 100_000,
        ..Default::default()
    });
    let mut slow = server.connect();
    let body = format!("{}{}", rpc("test_sleep", "[1500]"), " ".repeat(800));
    slow.write(request(&body, ""));
    server.until("it runs", |server| server.seen.running.load(SeqCst) == 1);
    let mut other = server.connect();
    let response = other.post(&body, "");
    assert_eq!(response.status, 503);
    assert_eq!(response.json()["error"]["data"]["limit"], "request-bytes-in-flight");
    assert_eq!(slow.read().text(), result("1500"));

    let response = server.connect().post(&rpc("test_big", "[100001]"), "");
    assert_eq!(response.status, 503);
    assert_eq!(response.json()["error"]["data"]["limit"], "response-bytes-in-flight");
    assert_eq!(server.call(&rpc("test_big", "[90000]")), result(&big_json(90_000)));
}

/// B58 (erigon#20446): over the cap a connection is told so in the same form.
#[test]
fn connections_over_the_cap_are_told_so() {
    let server = Server::with(LaneConfig { max_connections: 2, ..Default::default() });
    let mut open: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut open {
        assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").status, 200);
    }
    for _ in 0..3 {
        let mut refused = server.connect();
        let response = refused.post(&rpc("eth_chainId", "[]"), "");
        assert_eq!(response.status, 503);
        assert_eq!(response.header("retry-after"), Some("1"));
        assert_eq!(response.text(), limit("null", "too many connections", "max-connections", 2, 3));
        assert!(refused.at_end());
    }
    assert_eq!(open[0].post(&rpc("eth_chainId", "[]"), "").status, 200);
    drop(open);
    server.until("places", |server| server.stats().connections_open == 0);
    assert_eq!(server.call(&rpc("eth_chainId", "[]")), result("\"0x1\""));
    assert_eq!(server.stats().connections_refused, 3);
}

/// B11 (go-ethereum#25457: "empty reply"): a call that takes too long is answered, uncompressed,
/// with a length, and the connection goes on. B52: it does not run on.
#[test]
fn slow_calls_are_answered_with_a_timeout() {
    let call_timeout = Duration::from_millis(200);
    let server = Server::with(LaneConfig { call_timeout, ..Default::default() });
    let mut client = server.connect();
    let response = client.post(&rpc("test_sleep", "[600000]"), "accept-encoding: gzip\r\n");
    assert_eq!(response.status, 200);
    assert!(response.header("content-length").is_some());
    assert_eq!(response.header("content-encoding"), None);
    assert_eq!(
        response.text(),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"request timed out"}}"#
    );
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").text(), result("\"0x1\""));
    assert_eq!(server.seen.dropped.load(SeqCst), 1);
    assert_eq!(server.stats().timed_out, 1);
}

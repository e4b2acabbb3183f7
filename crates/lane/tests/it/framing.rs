//! Codings, lengths, headers.

use crate::support::{Server, big_json, request, result, rpc};
use prestate_lane::LaneConfig;

/// B1, B8 (go-ethereum#35072), B9: whole replies have an exact length in every coding, and decode
/// to the same text.
#[test]
fn whole_replies_have_an_exact_length_in_every_coding() {
    let server = Server::start();
    let mut client = server.connect();
    for size in [2, 1100, 70_000, 300_000, 3_000_000] {
        let expected = result(&big_json(size));
        for method in ["test_big", "test_miss"] {
            for coding in ["identity", "gzip", "zstd", "x-gzip"] {
                let header = format!("accept-encoding: {coding}\r\n");
                let response = client.post(&rpc(method, &format!("[{size}]")), &header);
                assert_eq!(response.status, 200);
                assert_eq!(response.header("transfer-encoding"), None);
                assert_eq!(
                    response.header("content-length"),
                    Some(response.body.len().to_string().as_str())
                );
                assert_eq!(
                    response.header("x-response-size"),
                    Some(expected.len().to_string().as_str())
                );
                assert_eq!(response.header("content-type"), Some("application/json"));
                // B15 (tower-http#467): x-gzip is gzip.
                let coded =
                    (size > 1000 && coding != "identity").then(|| coding.trim_start_matches("x-"));
                assert_eq!(response.header("content-encoding"), coded, "{coding} {size}");
                assert!(response.decoded() == expected, "{method} {coding} {size}");
            }
        }
    }
}

/// B4, B17-B19 (curl#22156, httpx#1874, bun#33708): one gzip member, batches included; `decoded`
/// refuses more.
#[test]
fn batches_are_one_gzip_member() {
    let server = Server::start();
    let call = |size: usize| rpc("test_big", &format!("[{size}]"));
    let sizes = [3, 80_000, 2_000, 400_000];
    let body = format!("[{}]", sizes.map(call).join(","));
    let expected = format!("[{}]", sizes.map(|size| result(&big_json(size))).join(","));
    for coding in ["gzip", "zstd", "identity"] {
        let response = server.connect().post(&body, &format!("accept-encoding: {coding}\r\n"));
        assert!(response.decoded() == expected, "{coding}");
        assert_eq!(response.header("x-response-size"), Some(expected.len().to_string().as_str()));
    }
}

/// B5 (erpc#990: decided on the first write), B6 (sei#3595), B7 (47 bytes grew to 56), B23
/// (off by one): the whole text decides, 1,024 bytes are compressed and 1,023 are not.
#[test]
fn threshold_is_by_the_whole_text() {
    let server = Server::start();
    let mut client = server.connect();
    let around = result("").len();
    for (len, coded) in [(1023, None), (1024, Some("gzip"))] {
        let body = rpc("test_big", &format!("[{}]", len - around));
        let response = client.post(&body, "accept-encoding: gzip\r\n");
        assert_eq!(response.decoded().len(), len);
        assert_eq!(response.header("content-encoding"), coded, "{len}");
    }
    // Many small entries are one large text.
    let batch = format!("[{}]", vec![rpc("eth_chainId", "[]"); 40].join(","));
    let response = client.post(&batch, "accept-encoding: gzip\r\n");
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    assert_eq!(response.json_decoded().as_array().unwrap().len(), 40);
}

/// B12 (go-ethereum#20538: never unasked), B13 (tower-http#693: q=0, *), B16 (no brotli), B18.
#[test]
fn coding_is_negotiated() {
    let server = Server::start();
    let mut client = server.connect();
    let body = rpc("test_big", "[5000]");
    for (headers, coded) in [
        ("", None),
        ("accept-encoding:\r\n", None),
        ("accept-encoding: br, deflate\r\n", None),
        ("accept-encoding: gzip, deflate, br, zstd\r\n", Some("zstd")),
        ("accept-encoding: gzip, deflate, br\r\n", Some("gzip")),
        ("accept-encoding: zstd;q=0.5, gzip;q=0.9\r\n", Some("gzip")),
        ("accept-encoding: gzip;q=0\r\n", None),
        ("accept-encoding: *\r\n", Some("zstd")),
        ("accept-encoding: br\r\naccept-encoding: gzip\r\n", Some("gzip")),
        ("accept-encoding: \u{ff}\r\n", None),
    ] {
        let response = client.post(&body, headers);
        assert_eq!(response.status, 200, "{headers}");
        assert_eq!(response.header("content-encoding"), coded, "{headers}");
    }
    for refused in ["identity;q=0", "*;q=0", "br, identity;q=0"] {
        let response = client.post(&body, &format!("accept-encoding: {refused}\r\n"));
        assert_eq!(response.status, 406, "{refused}");
        assert_eq!(response.header("vary"), Some("accept-encoding"));
    }
}

/// B10, B20-B22 (silkworm#2763: refused such requests; erigon#2065): switched off, identity comes
/// whatever is asked for.
#[test]
fn compression_can_be_switched_off() {
    let server = Server::with(LaneConfig { compression: false, ..Default::default() });
    let mut client = server.connect();
    for headers in ["", "accept-encoding: gzip\r\n", "accept-encoding: zstd, identity;q=0\r\n"] {
        let response = client.post(&rpc("test_big", "[5000]"), headers);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-encoding"), None);
        assert_eq!(response.text(), result(&big_json(5000)));
        assert_eq!(
            response.header("content-length"),
            Some(response.body.len().to_string().as_str())
        );
    }
}

/// B14 (tower-http#399, #572, #578): one `Vary`, on every reply; `header` refuses two.
#[test]
fn vary_is_there_once() {
    let server = Server::start();
    let open = Server::with(LaneConfig {
        corsdomain: vec!["http://a.example".into()],
        ..Default::default()
    });
    for (server, vary) in [(&server, "accept-encoding"), (&open, "accept-encoding, origin")] {
        let mut client = server.connect();
        for body in [rpc("eth_chainId", "[]"), rpc("test_big", "[5000]"), "{".into()] {
            for headers in ["", "accept-encoding: gzip\r\n", "origin: http://a.example\r\n"] {
                assert_eq!(client.post(&body, headers).header("vary"), Some(vary));
            }
        }
        for path in ["/", "/health", "/nothing"] {
            assert_eq!(client.get(path, "").header("vary"), Some(vary));
        }
    }
}

#[test]
fn timing_headers_tell_what_was_done() {
    let server = Server::start();
    let mut client = server.connect();
    let mut timing = |method: &str| {
        let response = client.post(&rpc(method, "[5000]"), "accept-encoding: gzip\r\n");
        let value = response.header("server-timing").unwrap().to_owned();
        (value, response.header("x-execution-time-ns").unwrap().to_owned())
    };
    let (hit, execution) = timing("test_big");
    assert!(hit.starts_with("parse;dur=") && hit.contains("compress;dur="), "{hit}");
    assert!(hit.ends_with("cache;desc=hit") && !hit.contains("exec"), "{hit}");
    assert_eq!(execution, "0");
    let (miss, execution) = timing("test_miss");
    assert!(miss.contains("exec;dur=1.500, encode;dur=0.250"), "{miss}");
    assert!(miss.ends_with("cache;desc=miss"), "{miss}");
    assert_eq!(execution, "1500000");
    let (uncached, _) = timing("eth_chainId");
    assert!(!uncached.contains("cache"), "{uncached}");
}

#[test]
fn bytes_are_counted_by_coding() {
    let server = Server::start();
    let mut client = server.connect();
    let body = rpc("test_big", "[50000]");
    let mut lens = Vec::new();
    for coding in ["identity", "gzip", "zstd"] {
        let response = client.post(&body, &format!("accept-encoding: {coding}\r\n"));
        lens.push(response.body.len() as u64);
    }
    server.until("counters", |server| {
        let stats = server.stats();
        [stats.bytes_out_identity, stats.bytes_out_gzip, stats.bytes_out_zstd] == lens[..]
            && stats.response_bytes_in_flight == 0
    });
    let stats = server.stats();
    assert_eq!(stats.bytes_in, 3 * body.len() as u64);
    assert_eq!((stats.requests, stats.calls, stats.hits), (3, 3, 3));
    assert_eq!((stats.connections, stats.connections_open), (1, 1));
}

/// B2 (erigon#22672): thousands of small compressed replies leave nothing held behind.
#[test]
fn many_small_replies_leave_nothing_behind() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..500 {
                    let response =
                        client.post(&rpc("test_miss", "[1500]"), "accept-encoding: gzip\r\n");
                    assert_eq!(response.header("content-encoding"), Some("gzip"));
                }
            });
        }
    });
    server.until("nothing is held", |server| {
        let stats = server.stats();
        stats.requests == 2000
            && stats.in_flight == 0
            && stats.request_bytes_in_flight == 0
            && stats.response_bytes_in_flight == 0
            && stats.connections_open == 0
    });
}

#[test]
fn requests_may_be_pipelined() {
    let server = Server::start();
    let mut client = server.connect();
    client.write(request(&rpc("test_big", "[100000]"), "").repeat(3));
    for _ in 0..3 {
        assert!(client.read().text() == result(&big_json(100_000)));
    }
}

/// A request whose bytes come one by one is the same request.
#[test]
fn requests_may_come_in_pieces() {
    let server = Server::start();
    let mut client = server.connect();
    client.stream.set_nodelay(true).unwrap();
    for byte in request(&rpc("eth_chainId", "[]"), "").bytes() {
        client.write([byte]);
    }
    assert_eq!(client.read().text(), result("\"0x1\""));
}

#[test]
fn http_1_0_is_answered() {
    let server = Server::start();
    let mut client = server.connect();
    let body = rpc("eth_chainId", "[]");
    client.write(format!(
        "POST / HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(client.read().text(), result("\"0x1\""));
    assert!(client.at_end());
}

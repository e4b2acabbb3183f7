//! `GET /v1/blocks/{hash}/{view}`.

use crate::support::{KNOWN, LARGE, PRUNED, Server, UNKNOWN, big_json, streamed};
use std::sync::atomic::Ordering::SeqCst;

fn path(hash: &str, view: &str) -> String {
    format!("/v1/blocks/{hash}/{view}")
}

#[test]
fn views_are_calls() {
    let server = Server::start();
    let mut client = server.connect();
    let trace = |exact| {
        format!(
            r#"["debug_traceBlockByHash",["{KNOWN}",{{"tracer":"prestateTracer","tracerConfig":{{"diffMode":true,"exact":{exact}}}}}]]"#
        )
    };
    for (view, expected) in [
        ("geth", trace(false)),
        ("geth-exact", trace(true)),
        ("block", format!(r#"["prestate_getBlockDiff",["{KNOWN}"]]"#)),
        ("transactions", format!(r#"["prestate_getTransactionDiffs",["{KNOWN}"]]"#)),
    ] {
        let response = client.get(&path(KNOWN, view), "");
        assert_eq!((response.status, response.text()), (200, expected), "{view}");
        assert_eq!(response.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let etag = response.header("etag").unwrap().to_owned();
        assert_eq!(etag, format!("\"{KNOWN}-{view}-1\""));

        let head = client.send("HEAD", &path(KNOWN, view), "");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), response.header("content-length"));

        let before = server.seen.calls.load(SeqCst);
        for held in [
            etag.clone(),
            format!("W/{etag}"),
            format!("\"other\", {etag}"),
            format!("\"{KNOWN}-{view}-1-gzip\""),
        ] {
            let unchanged = client.get(&path(KNOWN, view), &format!("if-none-match: {held}\r\n"));
            assert_eq!(unchanged.status, 304, "{held}");
            assert_eq!(unchanged.header("etag"), Some(etag.as_str()));
            assert_eq!(unchanged.header("vary"), Some("accept-encoding"));
            assert!(unchanged.header("cache-control").is_some());
        }
        assert_eq!(server.seen.calls.load(SeqCst), before);
        let stale = client.get(&path(KNOWN, view), "if-none-match: \"other\"\r\n");
        assert_eq!(stale.status, 200);
    }
    // Upper case is the same block.
    let mut upper = path(&KNOWN.replace('1', "A").replace("0xA", "0x1"), "block");
    upper = upper.replace("0x1", "0xA");
    assert_eq!(client.get(&upper, "").status, 404);
}

/// A strong tag stands for bytes (RFC 9110 §8.8.3.3); small bodies are never coded.
#[test]
fn tags_differ_by_coding() {
    let server = Server::start();
    let mut client = server.connect();
    let gzip = "accept-encoding: gzip\r\n";
    let small = client.get(&path(KNOWN, "block"), gzip);
    assert_eq!(small.header("content-encoding"), None);
    assert_eq!(small.header("etag"), Some(format!("\"{KNOWN}-block-1\"").as_str()));
    for (coding, suffix) in [("identity", ""), ("gzip", "-gzip"), ("zstd", "-zstd")] {
        let header = format!("accept-encoding: {coding}\r\n");
        let large = client.get(&path(LARGE, "transactions"), &header);
        let tag = format!("\"{LARGE}-transactions-1{suffix}\"");
        assert_eq!(large.header("etag"), Some(tag.as_str()));
        assert_eq!(large.decoded(), big_json(5000));
        let held = client.get(&path(LARGE, "transactions"), &format!("if-none-match: {tag}\r\n"));
        assert_eq!(held.status, 304);
    }
}

#[test]
fn resources_may_be_streamed() {
    let server = Server::start();
    for coding in ["identity", "gzip", "zstd"] {
        let header = format!("accept-encoding: {coding}\r\n");
        let response = server.connect().get(&path(LARGE, "block"), &header);
        assert!(response.whole && response.chunks > 0);
        assert_eq!(response.decoded(), streamed(3, 5000));
        assert!(response.header("etag").is_some());
    }
}

#[test]
fn what_is_not_there_is_not_kept() {
    let server = Server::start();
    let mut client = server.connect();
    let response = client.get(&path(UNKNOWN, "block"), "if-none-match: *\r\n");
    assert_eq!(response.status, 404);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("etag"), None);
    let expected =
        format!(r#"{{"error":{{"code":-32000,"message":"block {UNKNOWN} not found"}}}}"#);
    assert_eq!(response.text(), expected);
    assert_eq!(client.get(&path(PRUNED, "block"), "").status, 410);
    for wrong in [
        "/v1/blocks/0x1234/block".to_owned(),
        path("latest", "block"),
        path("1", "block"),
        path(KNOWN, "nothing"),
        path(KNOWN, "block/x"),
        path(&KNOWN[2..], "block"),
        path(&KNOWN.replace('1', "g"), "block"),
    ] {
        assert_eq!(client.get(&wrong, "").status, 404, "{wrong}");
    }
}

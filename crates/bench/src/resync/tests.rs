//! Endpoints with faults: what fails is counted by its kind, and is in no time.

use super::*;
use crate::{Failure, Reported};
use alloy_primitives::Address;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

const HASH: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";
const ACCOUNT: Address = Address::repeat_byte(0xaa);

/// Answers requests with whatever bytes it is told to; `None` breaks the connection.
async fn stub(answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static) -> EndpointUrl {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/KEY", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut length, mut line) = (0, String::new());
                    loop {
                        line.clear();
                        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(value) = line.strip_prefix("content-length: ") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).await.unwrap();
                    let Some(bytes) = answer(&serde_json::from_slice(&body).unwrap()) else {
                        return;
                    };
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    EndpointUrl::parse(&url).unwrap()
}

fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn ok(value: &Value) -> Option<Vec<u8>> {
    Some(http("200 OK", "", value.to_string().as_bytes()))
}

fn result(asked: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })
}

fn refused(asked: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": code, "message": message } })
}

/// A node without our namespace: slot N of the account is N + 1, and a trace changes slot 1.
fn node(asked: &Value) -> Value {
    if let Value::Array(items) = asked {
        return items.iter().rev().map(node).collect();
    }
    let word = |number: u64| format!("0x{number:064x}");
    match asked["method"].as_str().unwrap() {
        "eth_blockNumber" => result(asked, json!("0x9")),
        "eth_getBlockByNumber" => {
            result(asked, json!({ "parentHash": HASH, "transactions": [HASH] }))
        }
        "debug_traceBlockByNumber" => {
            let side = |value| json!({ ACCOUNT.to_string(): { "storage": { word(1): value } } });
            let diff = json!({ "pre": side(word(7)), "post": side(word(2)) });
            result(asked, json!([{ "txHash": HASH, "result": diff }]))
        }
        "eth_getStorageAt" => {
            let slot = asked["params"][1].as_str().unwrap();
            let slot = u64::from_str_radix(&slot[2..], 16).unwrap();
            result(asked, json!(word(slot + 1)))
        }
        method => refused(asked, -32601, &format!("the method {method} does not exist")),
    }
}

fn options(url: EndpointUrl) -> ResyncOptions {
    ResyncOptions {
        endpoints: Endpoints::Given { trace: url.clone(), storage: url },
        address: Some(ACCOUNT),
        slots: vec![1, 4],
        samples: 4,
        live: false,
        pause: Duration::ZERO,
        patience: Duration::from_secs(20),
        units: (20, 40),
        seed: 1,
    }
}

/// Failures and clean answers of a question.
fn seen(report: &ResyncReport, question: Question) -> (crate::Tally, usize) {
    let mut tally = crate::Tally::default();
    let mut clean = 0;
    for ((_, _), cell) in report.cells().iter().filter(|((asked, _), _)| *asked == question) {
        tally.merge(&cell.failures);
        clean += cell.clean.len();
    }
    (tally, clean)
}

#[tokio::test]
async fn a_plain_node_is_measured_and_what_it_lacks_is_asked_no_more() {
    let url = stub(|asked| ok(&node(asked))).await;
    let report = resync(&options(url), || {}).await.unwrap();
    for question in [Question::Reads, Question::TraceWithoutCode, Question::Trace(Coding::Zstd)] {
        let (tally, clean) = seen(&report, question);
        assert!(tally.is_empty(), "{question}: {tally}");
        assert_eq!(clean, 8, "{question}");
    }
    for question in [Question::Resync, Question::Storage] {
        let (tally, clean) = seen(&report, question);
        assert_eq!((tally.of(Failure::Gated), tally.total(), clean), (3, 3, 0));
    }
    assert_eq!(report.disagreed(), 0);
    let shown = report.to_string();
    assert!(shown.contains("the same at 2 slots, a trace costs less from 3 on."), "{shown}");
    assert!(!shown.contains("KEY"), "{shown}");
    assert!(report.tables().iter().all(|table| !table.rows.is_empty()));
}

#[tokio::test]
async fn values_that_disagree_are_counted() {
    let url = stub(|asked| {
        let mut answer = node(asked);
        if let Value::Array(items) = &mut answer {
            for item in items {
                item["result"] = json!("0x5");
            }
        }
        ok(&answer)
    })
    .await;
    let report = resync(&options(url), || {}).await.unwrap();
    // Slot 1 is asked for in the samples of four slots only.
    assert_eq!(report.disagreed(), 4);
}

/// Breaks traces and batches in one way, and leaves the rest alone.
async fn broken(
    answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> ResyncReport {
    let url = stub(move |asked| {
        let method = asked["method"].as_str().unwrap_or("batch");
        if method.starts_with("eth_") { ok(&node(asked)) } else { answer(asked) }
    })
    .await;
    let patience = Duration::from_millis(500);
    let options = ResyncOptions { patience, slots: vec![4], samples: 2, ..options(url) };
    resync(&options, || {}).await.unwrap()
}

fn each_is(report: &ResyncReport, kind: Failure) {
    for question in Question::ALL {
        let (tally, clean) = seen(report, question);
        assert_eq!(clean, 0, "{question}");
        assert_eq!((tally.of(kind), tally.total()), (2, 2), "{question}: {tally}, not {kind}");
    }
    assert_eq!(report.crossing(), Crossing::Unmeasured);
    let times = report.tables().iter().find(|table| table.name == "resync questions").cloned();
    for row in times.unwrap().rows {
        assert!(row.cells[1..].iter().all(Vec::is_empty), "{}", row.name);
    }
}

#[tokio::test]
async fn faults_of_the_transport_are_counted_by_kind() {
    each_is(&broken(|_| None).await, Failure::Cut);
    let status = broken(|_| Some(http("503 Service Unavailable", "", b"down"))).await;
    each_is(&status, Failure::Status(503));
    let limited = broken(|_| Some(http("429 Too Many Requests", "", b"{}"))).await;
    each_is(&limited, Failure::RateLimited);
    each_is(&broken(|_| Some(http("200 OK", "", b"<html>"))).await, Failure::Json);
    each_is(&broken(|_| Some(http("200 OK", "", b"[{\"id\":"))).await, Failure::Json);
    let coded = broken(|_| Some(http("200 OK", "content-encoding: gzip\r\n", b"no gzip"))).await;
    each_is(&coded, Failure::Json);
    let length =
        broken(|_| Some(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n".to_vec())).await;
    each_is(&length, Failure::Length);
    let chunk =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n".to_vec();
    each_is(&broken(move |_| Some(chunk.clone())).await, Failure::Length);
    // Longer than it says: the reply is whole, and what follows breaks the connection.
    let silent =
        broken(|_| Some(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n[]".to_vec())).await;
    each_is(&silent, Failure::Timeout);
}

#[tokio::test]
async fn refused_items_of_a_batch_are_counted_and_the_batch_is_not_timed() {
    let report = broken(|asked| match asked {
        Value::Array(items) => {
            let answer = |(at, item): (usize, &Value)| match at {
                0 => refused(item, -32005, "limit exceeded"),
                1 => refused(item, 429, "rate limit"),
                2 => refused(item, -32000, "missing trie node"),
                _ => node(item),
            };
            ok(&items.iter().enumerate().map(answer).collect())
        }
        call => ok(&refused(call, -32600, "not available on the Free tier - upgrade")),
    })
    .await;
    let (tally, clean) = seen(&report, Question::Reads);
    assert_eq!(clean, 0);
    assert_eq!((tally.of(Failure::RateLimited), tally.of(Failure::Rpc(-32000))), (4, 2));
    let (tally, _) = seen(&report, Question::Trace(Coding::Gzip));
    assert_eq!((tally.of(Failure::Gated), tally.total()), (2, 2));

    // Items that are not answered, answered for nobody, or refused all at once.
    let report = broken(|asked| match asked {
        Value::Array(items) => ok(&json!([node(&items[0]), { "id": 99, "result": "0x1" }])),
        call => ok(&json!({ "id": call["id"] })),
    })
    .await;
    let (tally, _) = seen(&report, Question::Reads);
    assert_eq!((tally.of(Failure::Length), tally.of(Failure::Json)), (6, 2));
    let report = broken(|_| ok(&json!({ "id": null, "error": { "code": 429, "message": "" } })));
    each_is(&report.await, Failure::RateLimited);
}

#[tokio::test]
async fn what_is_needed_first_is_said() {
    let url = stub(|_| None).await;
    let error = resync(&options(url), || {}).await.unwrap_err().to_string();
    assert!(error.ends_with("/… does not answer eth_blockNumber: cut"), "{error}");
    let url = stub(|asked| match asked["method"].as_str() {
        Some("debug_traceBlockByNumber") => ok(&refused(asked, -32601, "no")),
        _ => ok(&node(asked)),
    });
    let gated = ResyncOptions { address: None, ..options(url.await) };
    let error = resync(&gated, || {}).await.unwrap_err().to_string();
    assert!(error.contains("(gated): name an account with --address"), "{error}");
    let url = stub(|asked| match asked["method"].as_str() {
        Some("eth_getBlockByNumber") => {
            ok(&result(asked, json!({ "parentHash": HASH, "transactions": [] })))
        }
        _ => ok(&node(asked)),
    });
    let error = resync(&options(url.await), || {}).await.unwrap_err().to_string();
    assert!(error.contains("none of the newest 9 blocks has a transaction"), "{error}");
}

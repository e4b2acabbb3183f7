//! Subscriptions over WebSocket.

use crate::{
    socket::{ask, open, text},
    support::{Server, big_json, result, rpc},
};
use futures_util::{SinkExt, StreamExt};
use prestate_lane::LaneConfig;
use serde_json::Value;
use std::sync::atomic::Ordering::SeqCst;
use tokio_tungstenite::tungstenite::Message;

/// The id that an answer brings.
fn id(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    answer["result"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn notification(id: &str, index: u64, size: usize) -> String {
    let of = big_json(size);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"test_subscription\",\"params\":{{\
         \"subscription\":\"{id}\",\"result\":{{\"index\":{index},\"of\":{of}}}}}}}"
    )
}

#[test]
fn the_answer_comes_first_then_the_notifications_in_order() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        // Small ones, ones that are compressed elsewhere, ones sent off the runtime's threads.
        for size in [3, 3_000, 300_000] {
            let id = id(&ask(&mut socket, &rpc("test_subscribe", &format!("[5,{size}]"))).await);
            for index in 0..5 {
                assert_eq!(text(&mut socket).await, notification(&id, index, size));
            }
            // It has ended by itself: nothing is left to unsubscribe.
            let ended = ask(&mut socket, &rpc("test_unsubscribe", &format!("[\"{id}\"]"))).await;
            assert!(
                ended.contains("-32000") && ended.contains("subscription not found"),
                "{ended}"
            );
        }
        assert_eq!(server.seen.feeds_open.load(SeqCst), 0);
    });
    let stats = server.stats();
    assert_eq!((stats.subscriptions, stats.notifications), (3, 15));
}

#[test]
fn unsubscribing_ends_the_notifications_and_the_work_behind_them() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        let first = id(&ask(&mut socket, &rpc("test_subscribe", "[null,5]")).await);
        assert_eq!(text(&mut socket).await, notification(&first, 0, 5));
        let unsubscribe = rpc("test_unsubscribe", &format!("[\"{first}\"]"));
        socket.send(Message::text(unsubscribe)).await.unwrap();
        let mut index = 1;
        loop {
            let next = text(&mut socket).await;
            if next == result("true") {
                break;
            }
            assert_eq!(next, notification(&first, index, 5));
            index += 1;
        }
        // Nothing of it comes after the answer.
        assert_eq!(ask(&mut socket, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
    });
    server.until("the work ends", |server| server.seen.feeds_open.load(SeqCst) == 0);
}

#[test]
fn a_socket_that_goes_takes_its_subscriptions_along() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        for _ in 0..3 {
            socket.send(Message::text(rpc("test_subscribe", "[null,5]"))).await.unwrap();
        }
        text(&mut socket).await;
        drop(socket);
    });
    server.until("the work ends", |server| server.seen.feeds_open.load(SeqCst) == 0);
}

#[test]
fn a_batch_can_subscribe() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        let batch = format!(
            "[{},{},{}]",
            rpc("test_subscribe", "[1,3]"),
            rpc("eth_chainId", "[]"),
            rpc("test_subscribe", "[1,4]"),
        );
        let answers: Vec<Value> = serde_json::from_str(&ask(&mut socket, &batch).await).unwrap();
        let ids: Vec<_> = answers.iter().map(|answer| answer["result"].as_str().unwrap()).collect();
        assert_eq!(ids[1], "0x1");
        let mut notified = [text(&mut socket).await, text(&mut socket).await];
        let mut expected = [notification(ids[0], 0, 3), notification(ids[2], 0, 4)];
        notified.sort();
        expected.sort();
        assert_eq!(notified, expected);
    });
}

#[test]
fn what_cannot_be_subscribed_is_refused() {
    let server = Server::with(LaneConfig { max_subscriptions: 2, ..LaneConfig::default() });
    // HTTP cannot notify: Geth's answer.
    let refused = server.call(&rpc("test_subscribe", "[1,1]"));
    assert!(refused.contains("-32601") && refused.contains("notifications not supported"));
    server.block_on(async {
        let mut socket = open(&server).await;
        for (method, params, expected) in [
            ("test_subscribe", r#"["nothing"]"#, "no such subscription"),
            ("nope_subscribe", "[1,1]", "the method nope_subscribe does not exist"),
            ("test_unsubscribe", "[]", "missing value for required argument 0"),
            ("test_unsubscribe", "[1]", "invalid argument 0"),
            ("test_unsubscribe", r#"["a","b"]"#, "too many arguments, want at most 1"),
            ("test_unsubscribe", r#"["0x1"]"#, "subscription not found"),
        ] {
            let refused = ask(&mut socket, &rpc(method, params)).await;
            assert!(refused.contains(expected), "{method}{params}: {refused}");
        }
        for _ in 0..2 {
            socket.send(Message::text(rpc("test_subscribe", "[null,1]"))).await.unwrap();
        }
        let third = rpc("test_subscribe", "[null,1]");
        socket.send(Message::text(third)).await.unwrap();
        let refused = loop {
            let next = text(&mut socket).await;
            if next.contains("error") {
                break next;
            }
        };
        assert!(refused.contains(r#""limit":"max-subscriptions-per-connection","value":2"#));
    });
    // One socket's limit is not another's.
    server.block_on(async {
        let mut other = open(&server).await;
        id(&ask(&mut other, &rpc("test_subscribe", "[1,1]")).await);
    });
}

#[test]
fn a_client_that_does_not_read_holds_no_more_than_its_socket() {
    let server = Server::start();
    server.block_on(async {
        let mut stalled = open(&server).await;
        stalled.send(Message::text(rpc("test_subscribe", "[null,1000000]"))).await.unwrap();
        // Others are served meanwhile.
        let mut lively = open(&server).await;
        let id = id(&ask(&mut lively, &rpc("test_subscribe", "[200,1000]")).await);
        for index in 0..200 {
            assert_eq!(text(&mut lively).await, notification(&id, index, 1000));
        }
        // What was made for the stalled one: what the kernel's buffers took, and three more.
        let mut before = 0;
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            let made = server.seen.fed.load(SeqCst);
            if made == before {
                break;
            }
            before = made;
        }
        let made = before - 200;
        assert!(made < 40, "{made} MB made for a client that reads nothing");
        drop(stalled.next().await);
    });
}

//! Diffs as they come, over every transport that can carry them.

use crate::{http::call, node::Node, workload::Workload};
use alloy_primitives::B256;
use futures_util::{SinkExt, StreamExt};
use prestate_types::BlockRef;
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// How long a message is waited for that is bound to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that messages come over.
enum Wire {
    Socket(Box<WebSocketStream<TcpStream>>),
    Ipc(UnixStream, Vec<u8>),
}

impl Wire {
    async fn socket(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        let (socket, _) =
            tokio_tungstenite::client_async(format!("ws://{to}/"), stream).await.unwrap();
        Self::Socket(Box::new(socket))
    }

    async fn ipc(path: &str) -> Self {
        Self::Ipc(UnixStream::connect(path).await.unwrap(), Vec::new())
    }

    async fn subscribe(&mut self, params: Value) {
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "prestate_subscribe", "params": params });
        match self {
            Self::Socket(socket) => {
                socket.send(Message::text(request.to_string())).await.unwrap();
            }
            Self::Ipc(stream, _) => {
                stream.write_all(request.to_string().as_bytes()).await.unwrap();
            }
        }
        let accepted = self.next().await;
        assert!(accepted["result"].is_string() || accepted["result"].is_u64(), "{accepted}");
    }

    async fn next(&mut self) -> Value {
        let message = tokio::time::timeout(PATIENCE, self.message()).await;
        message.expect("no message came")
    }

    async fn message(&mut self) -> Value {
        match self {
            Self::Socket(socket) => loop {
                if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                    return serde_json::from_str(&text).unwrap();
                }
            },
            Self::Ipc(stream, read) => loop {
                let mut values = serde_json::Deserializer::from_slice(read).into_iter::<Value>();
                if let Some(Ok(value)) = values.next() {
                    let taken = values.byte_offset();
                    read.drain(..taken);
                    return value;
                }
                let mut more = [0; 65_536];
                let count = stream.read(&mut more).await.unwrap();
                assert!(count > 0, "the connection ended");
                read.extend(&more[..count]);
            },
        }
    }

    /// The next step: whether it is a commit, and of which block.
    async fn step(&mut self) -> (String, B256, Value) {
        let mut message = self.next().await;
        let step = message["params"]["result"].take();
        let kind = step["type"].as_str().unwrap_or_else(|| panic!("{message}")).to_owned();
        let hash = step["block"]["hash"].as_str().unwrap().parse().unwrap();
        (kind, hash, step)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_and_reverts_come_over_every_transport() {
    let mut node = Node::start(&[]).await;
    let lane = node.lane().await;
    let (mut workload, deploying) = Workload::deploy(100);
    let first = node.commit(&deploying).await;
    node.settled(first).await;
    let mut wires = [
        Wire::socket(node.launched.ws.unwrap()).await,
        Wire::ipc(node.launched.ipc.as_ref().unwrap()).await,
        Wire::socket(lane).await,
    ];
    for wire in &mut wires {
        wire.subscribe(json!(["blockDiffs", { "from": first.hash }])).await;
    }
    let txs = workload.block();
    let dropped = node.commit(&txs).await;
    node.settled(dropped).await;
    let sibling = node.propose(first.hash, &[]).await;
    node.choose(sibling, B256::ZERO).await;
    node.settled(BlockRef::new(dropped.number, sibling)).await;
    let asked = call(lane, "prestate_getBlockDiff", json!([dropped.hash])).await.unwrap();
    let expected = [("commit", dropped.hash), ("revert", dropped.hash), ("commit", sibling)];
    for wire in &mut wires {
        for (kind, hash) in expected {
            let step = wire.step().await;
            assert_eq!((&*step.0, step.1), (kind, hash));
            if hash == dropped.hash && kind == "commit" {
                assert_eq!(step.2["post"], asked["post"]);
            }
        }
    }
}

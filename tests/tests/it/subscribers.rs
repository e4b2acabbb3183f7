//! Many subscribers of one lane, some of which stop reading.

use crate::chain::extend;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256, keccak256};
use futures_util::{SinkExt, StreamExt};
use prestate_host::Host;
use prestate_host_embedded::MemoryChain;
use prestate_lane::{Lane, LaneConfig};
use prestate_pipeline::{Pipeline, PipelineConfig};
use prestate_rpc::{Rpc, RpcConfig, Sources};
use prestate_store::{Archive, ArchiveOptions, ChainId};
use prestate_tests::generate::{BlockRecipe, Code, Fork, GenesisPlan, Keys, Recipe};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

const SUBSCRIBERS: usize = 200;
const STALLED: usize = 10;
const BLOCKS: u64 = 48;
/// Blocks that a reader may be behind.
const MAX_LAG: u64 = 8;
const SECONDS: Duration = Duration::from_secs(120);

type Socket = WebSocketStream<TcpStream>;

/// `room`: the kernel's buffer for what the client does not read.
async fn subscribe(addr: SocketAddr, room: Option<u32>) -> Socket {
    let socket = TcpSocket::new_v4().expect("a socket");
    if let Some(room) = room {
        socket.set_recv_buffer_size(room).expect("an option");
    }
    let stream = socket.connect(addr).await.expect("connected");
    let (mut socket, _) = client_async(format!("ws://{addr}/"), stream).await.expect("a socket");
    let params = json!(["blockDiffs", { "code": "full" }]);
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "prestate_subscribe", "params": params });
    socket.send(Message::text(call.to_string())).await.expect("sent");
    assert!(next(&mut socket).await.expect("an answer")["result"].is_string());
    socket
}

/// The next message; `None` where the socket ends.
async fn next(socket: &mut Socket) -> Option<Value> {
    let text = async {
        loop {
            if let Message::Text(text) = socket.next().await?.ok()? {
                return Some(serde_json::from_str(&text).expect("JSON"));
            }
        }
    };
    tokio::time::timeout(SECONDS, text).await.expect("in time")
}

/// Kind and block of a notification.
fn step(message: &Value) -> (String, B256) {
    let result = &message["params"]["result"];
    let hash = result["block"]["hash"].as_str().expect("a hash").parse().expect("a hash");
    (result["type"].as_str().expect("a type").to_owned(), hash)
}

/// Contracts of 24 KB, different in each block: messages of a quarter of a megabyte.
fn recipe(number: u64, branch: u64) -> BlockRecipe {
    let transactions = (0..5).map(|tx| {
        let body = B256::left_padding_from(&(number << 16 | branch << 8 | tx).to_be_bytes());
        let mut code = Code::new().op(0);
        while code.len() + 33 < 24_000 {
            let word = keccak256([body.as_slice(), &code.len().to_be_bytes()].concat());
            code = code.push(U256::from_be_bytes(*word));
        }
        Recipe::create(0, code.deployed().bytes()).gas(9_000_000)
    });
    BlockRecipe {
        coinbase: Address::with_last_byte(9),
        transactions: transactions.collect(),
        withdrawals: Vec::new(),
    }
}

#[test]
fn those_who_read_get_every_step_and_those_who_stall_are_cut_with_a_reason() {
    let keys = Keys::new(1);
    let mut plan = GenesisPlan::new(Fork::Prague);
    plan.fund(keys.address(0), 1_000_000_000_000_000_000_000);
    let mut genesis: Value = serde_json::from_str(&plan.json()).expect("JSON");
    genesis["gasLimit"] = "0x3938700".into();
    let genesis: Genesis = serde_json::from_value(genesis).expect("a genesis file");
    let chain = Arc::new(MemoryChain::from_genesis(&genesis));
    let folder = tempfile::tempdir().expect("a folder");
    let id = ChainId {
        chain_id: chain.spec().chain_id(),
        genesis_hash: chain.head().expect("genesis").hash,
    };
    let archive =
        Archive::create(folder.path(), id, &ArchiveOptions::default()).expect("an archive");
    let host: Arc<dyn Host> = chain.clone();
    let config = PipelineConfig {
        max_subscriber_lag_blocks: MAX_LAG,
        recent_blocks: 4,
        ..PipelineConfig::default()
    };
    let pipeline = Pipeline::start(host.clone(), Some(archive), config).expect("starts");
    while pipeline.head().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let rpc = Rpc::new(Sources::following(host, pipeline.clone()), RpcConfig::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let config =
            LaneConfig { addr: SocketAddr::from(([127, 0, 0, 1], 0)), ..LaneConfig::default() };
        let running = Lane::bind(config, Arc::new(rpc)).await.expect("a free port");
        let addr = running.local_addr();
        let mut stalled = Vec::new();
        for _ in 0..STALLED {
            stalled.push(subscribe(addr, Some(256 * 1024)).await);
        }
        let seen = Arc::new(AtomicUsize::new(0));
        let mut lively = Vec::new();
        for _ in stalled.len()..SUBSCRIBERS {
            let (mut socket, seen) = (subscribe(addr, None).await, seen.clone());
            lively.push(tokio::spawn(async move {
                let mut steps = Vec::new();
                loop {
                    let message = next(&mut socket).await.expect("a last message");
                    if message["params"]["result"]["type"] == "cut" {
                        return (steps, message["params"]["result"]["reason"].clone());
                    }
                    steps.push(step(&message));
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        let reading = lively.len();
        let mut expected = Vec::new();
        let make = |number, branch| {
            let block =
                tokio::task::block_in_place(|| extend(&chain, &keys, &recipe(number, branch)));
            ("commit".to_owned(), block.hash())
        };
        // All who read have read all there is.
        let caught_up = async |steps: usize| {
            let all = async {
                while seen.load(Ordering::SeqCst) < steps * reading {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(SECONDS, all).await.expect("in time");
        };
        for number in 1..=BLOCKS {
            if number % 12 == 0 {
                // Two blocks are taken back and replaced.
                let back: Vec<_> = (number - 2..number)
                    .rev()
                    .map(|number| chain.canonical_hash(number).expect("ok").expect("known"))
                    .collect();
                let to = chain.canonical_hash(number - 3).expect("ok").expect("known");
                tokio::task::block_in_place(|| chain.set_head(to)).expect("known");
                expected.extend(back.into_iter().map(|hash| ("revert".to_owned(), hash)));
                for number in number - 2..number {
                    expected.push(make(number, 1));
                }
            }
            expected.push(make(number, 0));
            caught_up(expected.len()).await;
        }
        let resident = resident_bytes();

        // The stalled: some steps from the first on, then the reason, then nothing.
        let mut behind = Vec::new();
        for mut socket in stalled {
            let mut steps = Vec::new();
            let cut = loop {
                let message = next(&mut socket).await.expect("a last message");
                if message["params"]["result"]["type"] == "cut" {
                    break message["params"]["result"].clone();
                }
                steps.push(step(&message));
            };
            assert_eq!(steps, expected[..steps.len()], "in order, without a gap");
            assert_eq!(cut["reason"], "tooSlow", "{cut}");
            assert_eq!(cut["maxBlocks"], MAX_LAG, "{cut}");
            assert!(cut["behindBlocks"].as_u64().expect("a number") > MAX_LAG, "{cut}");
            behind.push(expected.len() - steps.len());
        }
        // The end of the pipeline is the end of those who kept up.
        let ended = pipeline.clone();
        let end = tokio::task::spawn_blocking(move || ended.shutdown());
        for reader in lively {
            let (steps, reason) = reader.await.expect("no panic");
            assert!(steps == expected, "a step is missing or too many");
            assert_eq!(reason, "stopped");
        }
        end.await.expect("no panic");

        println!(
            "{reading} of {SUBSCRIBERS} subscribers got all {} steps, {STALLED} stalled ones were \
             cut {:?} steps short; {} MB resident",
            expected.len(),
            behind,
            resident >> 20,
        );
        // Sent and held at once it would be thousands.
        assert!(resident < 1 << 30, "{resident} bytes resident");
        running.shutdown(Duration::from_secs(1)).await;
    });
}

/// Memory of this process, server and clients in one.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).expect("a field").parse().expect("a number");
    pages * 4096
}

//! The development node, its examples and its restarts.

use crate::{
    equality::{Compared, compare},
    http::call,
    program::{Program, eventually, quantity},
    workload::Workload,
};
use serde_json::{Value, json};
use std::path::Path;

/// Every canonical block that is asked for is the node's, and changes what the node's tracer says.
async fn all_blocks_agree(program: &Program, from: u64) -> Compared {
    let head = program.block_number().await;
    let mut sum = Compared::default();
    for number in from..=head {
        let number = format!("0x{number:x}");
        let block = call(program.http, "eth_getBlockByNumber", json!([number, false])).await;
        let block = block.unwrap();
        let hash = block["hash"].as_str().unwrap();
        eventually("the diff of a block", async || {
            let diff = call(program.lane, "prestate_getBlockDiff", json!([number])).await;
            diff.is_ok_and(|diff| diff["block"]["hash"] == hash)
        })
        .await;
        compare(program.http, program.lane, hash, &mut sum).await;
    }
    sum
}

/// The account that pays may be behind what was sent before, if the node lost blocks.
async fn resume(program: &Program, workload: &mut Workload) {
    let address = workload.payer.address();
    let nonce = call(program.http, "eth_getTransactionCount", json!([address, "latest"])).await;
    workload.payer.nonce = quantity(&nonce.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_are_answered_on_both_ports() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), &PACE);
    let (mut workload, deploying) = Workload::deploy(100);
    program.send(&deploying).await;
    program.send(&workload.block()).await;
    let head = program.block_number().await;
    let number = format!("0x{head:x}");
    let tracer = json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } });
    eventually("the head's diff", async || {
        call(program.lane, "prestate_getBlockDiff", json!([number])).await.is_ok()
    })
    .await;
    for port in [program.http, program.lane] {
        let status = call(port, "prestate_status", json!([])).await.unwrap();
        assert_eq!(status["problems"], json!([]), "{status}");
        assert_eq!(status["chainId"], "0x539");
        assert_eq!(status["host"]["kind"], "reth");
        let traced = call(port, "debug_traceBlockByNumber", json!([number, tracer])).await;
        assert!(!traced.unwrap().as_array().unwrap().is_empty());
    }
    for params in [json!([number]), json!(["latest"]), json!([number, { "code": "full" }])] {
        let here = call(program.http, "prestate_getBlockDiff", params.clone()).await.unwrap();
        let there = call(program.lane, "prestate_getBlockDiff", params).await.unwrap();
        assert_eq!(here, there);
        assert_eq!(here["block"]["number"], number);
    }
    // The lane answers the node's other namespaces, and not those the node does not serve.
    let balance = json!([workload.payer.address(), "latest"]);
    assert!(call(program.lane, "eth_getBalance", balance).await.is_ok());
    let refused = call(program.lane, "admin_nodeInfo", json!([])).await.unwrap_err();
    assert_eq!(refused["code"], -32601);
    let sum = all_blocks_agree(&program, 1).await;
    println!("compared with the node's own tracer on a mining node: {sum:?}");
    assert!(program.stop().success());
}

/// Blocks at a steady pace: mined at each transaction, one that comes while a block is made would
/// wait for the next.
const PACE: [&str; 2] = ["--dev.block-time", "300ms"];

/// What a restart is to stand.
async fn after_a_restart(folder: &Path, workload: &mut Workload, held: u64) -> Program {
    let program = Program::start(folder, &PACE);
    resume(&program, workload).await;
    for _ in 0..3 {
        program.send(&workload.block()).await;
    }
    all_blocks_agree(&program, 1).await;
    let status = program.status().await;
    assert_eq!(status["problems"], json!([]), "{status}");
    let info = std::process::Command::new(env!("CARGO_BIN_EXE_prestate-reth"))
        .args(["prestate", "info"])
        .arg(folder.join("prestate"))
        .args(["--log.file.max-files", "0"])
        .output()
        .unwrap();
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.contains("chain 1337"), "{info}");
    assert!(program.block_number().await > 0 || held == 0);
    program
}

/// Killed, the node loses blocks that prestate has; stopped, it has all; and whatever becomes of
/// its write-ahead log, the chain is found again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_followed_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), &PACE);
    let (mut workload, deploying) = Workload::deploy(100);
    program.send(&deploying).await;
    for _ in 0..5 {
        program.send(&workload.block()).await;
    }
    let held = program.block_number().await;
    eventually("all is durable", async || {
        let diff = call(program.lane, "prestate_getBlockDiff", json!(["latest"])).await;
        diff.is_ok_and(|diff: Value| quantity(&diff["block"]["number"]) >= held)
    })
    .await;
    program.kill();

    let program = after_a_restart(folder.path(), &mut workload, held).await;
    let held = program.block_number().await;
    assert!(program.stop().success());

    let program = after_a_restart(folder.path(), &mut workload, held).await;
    program.kill();

    let wal = folder.path().join("exex").join("wal");
    assert!(wal.is_dir(), "the write-ahead log is at {}", wal.display());
    std::fs::remove_dir_all(&wal).unwrap();
    let program = after_a_restart(folder.path(), &mut workload, held).await;
    assert!(program.stop().success());
}

//! What may go wrong: the node goes on, its status says what is wrong and what to do; under
//! `--prestate.strict` it stops.

use crate::{http::call, node::Node, program, workload::Workload};
use prestate_store::{Archive, ArchiveOptions, ChainId};
use serde_json::{Value, json};
use std::{net::TcpListener, path::Path};

/// Waits for a problem and returns it, asked over the node's own port.
async fn problem(node: &Node, area: &str) -> Value {
    let find = async || {
        let status = call(node.http, "prestate_status", json!([])).await.ok()?;
        let problems = status["problems"].as_array().unwrap().clone();
        problems.into_iter().find(|problem| problem["area"] == area)
    };
    let mut found = None;
    program::eventually(area, async || {
        found = find().await;
        found.is_some()
    })
    .await;
    let found = found.unwrap();
    assert!(found["remedy"].as_str().unwrap().contains("--prestate"), "{found}");
    found
}

/// Blocks are made and their diffs served, whatever is wrong.
async fn goes_on(node: &mut Node) {
    let (mut workload, deploying) = Workload::deploy(100);
    node.commit(&deploying).await;
    let txs = workload.block();
    let block = node.commit(&txs).await;
    program::eventually("a diff", async || {
        let diff = call(node.http, "prestate_getBlockDiff", json!([block.hash])).await;
        diff.is_ok_and(|diff| diff["post"].as_object().is_some_and(|post| post.len() > 5))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_in_use_is_waited_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let flag = format!("--prestate.http.port={port}");
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start_in(folder.path(), &[&flag]).await.unwrap();
    let found = problem(&node, "lane").await;
    assert!(found["reason"].as_str().unwrap().contains(&port.to_string()), "{found}");
    goes_on(&mut node).await;
    drop(taken);
    assert_eq!(node.lane().await.port(), port);
    drop(node);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--prestate.http.port={}", taken.local_addr().unwrap().port());
    let folder = tempfile::tempdir().unwrap();
    let refused = Node::start_in(folder.path(), &[&flag, "--prestate.strict"]).await;
    let refused = format!("{:#}", refused.err().unwrap());
    assert!(refused.contains("cannot listen"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let flag = format!("--prestate.datadir={}", file.join("archive").display());
    let mut node = Node::start_in(folder.path(), &[&flag]).await.unwrap();
    problem(&node, "archive").await;
    goes_on(&mut node).await;
    // Once the place is free, the archive is made and what is in memory goes on from there.
    std::fs::remove_file(&file).unwrap();
    let folder = file.join("archive");
    program::eventually("an archive", async || Archive::describe(&folder).is_ok()).await;
    goes_on_again(&mut node).await;
}

async fn goes_on_again(node: &mut Node) {
    let block = node.commit(&[]).await;
    node.settled(block).await;
    let status = call(node.http, "prestate_status", json!([])).await.unwrap();
    assert_eq!(status["problems"], json!([]), "{status}");
}

fn archive_of_another_chain(path: &Path) {
    let chain = ChainId { chain_id: 1, genesis_hash: alloy_primitives::B256::ZERO };
    drop(Archive::create(path, chain, &ArchiveOptions::default()).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_of_another_chain_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    archive_of_another_chain(&path);
    let flag = format!("--prestate.datadir={}", path.display());
    let mut node = Node::start_in(folder.path(), &[&flag]).await.unwrap();
    let found = problem(&node, "archive").await;
    assert!(found["reason"].as_str().unwrap().contains("chain 1337"), "{found}");
    goes_on(&mut node).await;
    assert_eq!(Archive::describe(&path).unwrap().chain.chain_id, 1);
}

#[test]
fn a_strict_node_stops_for_an_archive_of_another_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    archive_of_another_chain(&path);
    let flag = format!("--prestate.datadir={}", path.display());
    let mut child = program::command(folder.path(), &[&flag, "--prestate.strict"]).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).map(|_| text)
    });
    assert!(!program::wait_for(&mut child).success());
    let said = reader.join().unwrap().unwrap();
    assert!(said.contains("--prestate.strict"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retention_within_reach_of_reorgs_is_told_or_refused() {
    let mut node = Node::start(&["--prestate.retention=blocks=10"]).await;
    let found = problem(&node, "retention").await;
    assert!(found["reason"].as_str().unwrap().contains("64"), "{found}");
    goes_on(&mut node).await;
    drop(node);
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--prestate.retention=blocks=10", "--prestate.strict"];
    let refused = Node::start_in(folder.path(), &flags).await;
    let refused = format!("{:#}", refused.err().unwrap());
    assert!(refused.contains("--prestate.retention"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_the_writing_and_nothing_else() {
    // No disk has a million terabytes to spare.
    let full = "--prestate.reserve=1000000000000000000";
    let mut node = Node::start(&[full]).await;
    goes_on(&mut node).await;
    let found = problem(&node, "disk").await;
    assert!(found["reason"].as_str().unwrap().contains("free"), "{found}");
    goes_on_serving(&node).await;
}

async fn goes_on_serving(node: &Node) {
    let diff = call(node.http, "prestate_getBlockDiff", json!(["latest"])).await.unwrap();
    assert!(diff["post"].is_object());
}

#[test]
fn a_strict_node_stops_when_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let full = "--prestate.reserve=1000000000000000000";
    let flags = [full, "--prestate.strict", "--dev.block-time", "200ms"];
    let mut command = program::command(folder.path(), &flags);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    assert!(!program::wait_for(&mut child).success());
}

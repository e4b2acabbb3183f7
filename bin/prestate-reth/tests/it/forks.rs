//! Reorgs made through the engine API: what is published, kept and served follows the node.

use crate::{
    equality::{Compared, compare},
    http::call,
    node::Node,
    workload::Workload,
};
use alloy_primitives::B256;
use prestate_types::BlockRef;
use serde_json::json;

/// Both ways of a reorg: to a shorter chain, block by block up again, and back to the old chain at
/// one stroke, whose blocks then come as one run.
async fn fork(depth: usize) -> Compared {
    let mut node = Node::start(&[]).await;
    let lane = node.lane().await;
    let (mut workload, deploying) = Workload::deploy(500);
    node.commit(&deploying).await;
    let txs = workload.block();
    let base = node.commit(&txs).await;
    let at_base = workload.clone();
    let mut old = Vec::new();
    for _ in 0..depth {
        let txs = workload.block();
        old.push(node.commit(&txs).await);
    }
    node.settled(*old.last().unwrap()).await;

    // Another block in the place of the lowest one.
    let mut workload = at_base;
    let mut txs = workload.block();
    txs.pop();
    let sibling = node.propose(base.hash, &txs).await;
    node.choose(sibling, B256::ZERO).await;
    let sibling = BlockRef::new(base.number + 1, sibling);
    node.settled(sibling).await;
    let mut sum = Compared::default();
    compare(node.http, lane, &sibling.hash.to_string(), &mut sum).await;

    let mut new = vec![sibling];
    for _ in 0..depth {
        new.push(node.commit(&[]).await);
    }
    node.settled(*new.last().unwrap()).await;

    // Back at one stroke.
    let tip = *old.last().unwrap();
    node.choose(tip.hash, B256::ZERO).await;
    node.settled(tip).await;
    for block in &old {
        compare(node.http, lane, &block.hash.to_string(), &mut sum).await;
        let diff = call(lane, "prestate_getBlockDiff", json!([block.hash])).await.unwrap();
        assert_eq!(diff["block"]["hash"], json!(block.hash));
    }
    // And forth.
    let tip = *new.last().unwrap();
    node.choose(tip.hash, B256::ZERO).await;
    node.settled(tip).await;
    for block in &new {
        compare(node.http, lane, &block.hash.to_string(), &mut sum).await;
        let number = format!("0x{:x}", block.number);
        let diff = call(lane, "prestate_getBlockDiff", json!([number])).await.unwrap();
        assert_eq!(diff["block"]["hash"], json!(block.hash), "the canonical block of {number}");
    }
    let status = node.launched.prestate.pipeline_status().unwrap();
    assert_eq!(status.failed.len(), 0, "{status:?}");
    assert_eq!(status.unwritten_blocks, 0, "{status:?}");
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_of_depth_one_to_five_are_followed() {
    let mut sum = Compared::default();
    for depth in 1..=5 {
        let compared = fork(depth).await;
        sum.blocks += compared.blocks;
        sum.txs += compared.txs;
        sum.accounts += compared.accounts;
    }
    println!("compared with the node's own tracer across forks: {sum:?}");
    // One sibling, the old chain and the new one, at each depth.
    assert_eq!(sum.blocks, (1..=5).map(|depth| 1 + depth + depth + 1).sum::<usize>());
}

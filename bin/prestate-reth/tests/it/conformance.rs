use crate::{node::Node, workload::Workload};
use alloy_primitives::B256;
use futures_util::StreamExt;
use prestate_exex::{RethHost, notification};
use prestate_host::ChainSpec;
use reth_ethereum::{exex::ExExNotification, provider::CanonStateSubscriptions};
use std::sync::{Arc, mpsc};

/// The contract of every host, held by a node with a reorg behind it, while it makes blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_keeps_the_contract_of_hosts() {
    let mut node = Node::start(&["--prestate.no-archive"]).await;
    let (mut workload, deploying) = Workload::deploy(1_000);
    node.commit(&deploying).await;
    for _ in 0..6 {
        let txs = workload.block();
        node.commit(&txs).await;
    }
    let fork = node.host.canonical_hash(5).unwrap().unwrap();
    let sibling = node.propose(fork, &[]).await;
    node.choose(sibling, B256::ZERO).await;

    // The node's own host has its listener: the pipeline. Another one over the same database.
    let provider = node.launched.provider.clone();
    let spec = ChainSpec::clone(node.host.spec());
    let host = Arc::new(RethHost::new(provider.clone(), spec, "under test"));
    let told = host.listen();
    let mut changes = provider.canonical_state_stream();
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            let change = notification(&ExExNotification::from(change)).unwrap();
            told.send(change).await.unwrap();
        }
    });

    let (ask, asked) = mpsc::channel::<()>();
    let (done, finished) = mpsc::channel::<()>();
    let check = tokio::task::spawn_blocking(move || {
        prestate_host::conformance::check(host, || {
            ask.send(()).unwrap();
            finished.recv().unwrap();
        });
    });
    tokio::task::block_in_place(|| asked.recv()).unwrap();
    for _ in 0..3 {
        node.commit(&[]).await;
    }
    done.send(()).unwrap();
    check.await.unwrap();
}

/// A block that was reorged out is still known by its hash; its state is said to be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_reorged_out_are_kept_aside() {
    let mut node = Node::start(&["--prestate.no-archive"]).await;
    let (_, deploying) = Workload::deploy(100);
    let first = node.commit(&deploying).await;
    let dropped = node.commit(&[]).await;
    let before = node.host.block(dropped.hash).unwrap().unwrap();
    let sibling = node.propose(first.hash, &[]).await;
    node.choose(sibling, B256::ZERO).await;
    let host = node.host.clone();
    node.wait(|| host.block(dropped.hash).unwrap().is_some()).await;
    assert_eq!(host.block(dropped.hash).unwrap().unwrap(), before);
    let state = host.state_after(dropped.hash).unwrap_err();
    assert_eq!(state, prestate_host::StateError::NotHeld(dropped));
}

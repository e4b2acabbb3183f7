use crate::node::{Node, at, child, children, run};
use prestate_store::{Archive, ArchiveOptions};
use reth_ethereum::exex::ExExNotification;

/// Every notification is answered by an event, also where it tells of nothing new: events are what
/// makes the node's manager send the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_notification_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder.path().join("archive")).await;
    let genesis = node.genesis();
    // Before anything is durable, genesis is claimed and no more.
    assert_eq!(node.event().await, genesis.num_hash());
    let blocks = children(&genesis, 1, 3);
    node.commit(&blocks[..1]).await;
    node.finished(at(&blocks[0])).await;
    for _ in 0..3 {
        node.tell(ExExNotification::ChainCommitted { new: run(&blocks[..1]) }).await;
        assert_eq!(node.event().await, at(&blocks[0]));
    }
    node.tell(ExExNotification::ChainReverted { old: run(&[]) }).await;
    assert_eq!(node.event().await, at(&blocks[0]));
    node.commit(&blocks[1..]).await;
    node.finished(at(&blocks[2])).await;
    assert!(node.is_following());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_overlapping_and_missing_runs_lead_to_the_same_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    let mut node = Node::start(&path).await;
    let blocks = children(&node.genesis(), 1, 12);
    node.commit(&blocks[..4]).await;
    node.durable(&blocks[3]).await;
    // Told twice, and again with one more on top.
    node.tell(ExExNotification::ChainCommitted { new: run(&blocks[..4]) }).await;
    node.adopt(&blocks[4..5], &[]);
    node.tell(ExExNotification::ChainCommitted { new: run(&blocks[2..5]) }).await;
    node.durable(&blocks[4]).await;
    // Nobody tells of five blocks; the next one has an unknown parent.
    node.adopt(&blocks[5..10], &[]);
    node.commit(&blocks[10..11]).await;
    node.durable(&blocks[10]).await;
    // And of the last one nobody tells at all.
    node.adopt(&blocks[11..], &[]);
    node.durable(&blocks[11]).await;
    let status = node.prestate.pipeline_status().unwrap();
    assert_eq!((status.failed.len(), status.unwritten_blocks), (0, 0), "{status:?}");
    drop(node);
    let archive = open(&path).await;
    for block in &blocks {
        let at = at(block);
        assert_eq!(archive.canonical_hash(at.number).unwrap(), Some(at.hash));
    }
}

/// Opens an archive once its writer is gone.
async fn open(path: &std::path::Path) -> prestate_store::ArchiveReader {
    let chain = Archive::describe(path).unwrap().chain;
    for _ in 0..1_000 {
        if let Ok((_, reader)) = Archive::open(path, chain, &ArchiveOptions::default()) {
            return reader;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the writer is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reorgs_of_every_shape_are_followed_and_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder.path().join("archive")).await;
    let blocks = children(&node.genesis(), 1, 6);
    node.commit(&blocks).await;
    node.finished(at(&blocks[5])).await;

    // Shorter than what it replaces: the height goes down.
    let short = children(&blocks[2].recovered_block, 2, 1);
    node.adopt(&short, &blocks[3..]);
    let told = ExExNotification::ChainReorged { old: run(&blocks[3..]), new: run(&short) };
    node.tell(told).await;
    node.finished(at(&short[0])).await;

    // At the same height.
    let same = children(&blocks[2].recovered_block, 3, 1);
    node.adopt(&same, &short);
    node.tell(ExExNotification::ChainReorged { old: run(&short), new: run(&same) }).await;
    node.finished(at(&same[0])).await;

    // Nothing instead: an empty chain called a reorg.
    node.adopt(&[], &same);
    node.adopt(&blocks[2..3], &blocks[2..3]);
    node.tell(ExExNotification::ChainReorged { old: run(&same), new: run(&[]) }).await;
    node.finished(at(&blocks[2])).await;

    // Longer, and nobody told of it.
    let long = children(&blocks[2].recovered_block, 4, 4);
    node.adopt(&long, &[]);
    node.finished(at(&long[3])).await;
    // Blocks that were dropped are still known by their hashes.
    let host = node.prestate.host().unwrap();
    for dropped in [&blocks[4], &short[0], &same[0]] {
        assert!(host.block(at(dropped).hash).unwrap().is_some());
    }
}

/// The node prunes and skips by this height: it never goes above what is finalized.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finality_caps_what_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder.path().join("archive")).await;
    let blocks = children(&node.genesis(), 1, 5);
    node.commit(&blocks[..2]).await;
    node.finished(at(&blocks[1])).await;
    node.finalize(&blocks[1]);
    node.commit(&blocks[2..4]).await;
    node.durable(&blocks[3]).await;
    assert_eq!(
        node.prestate.pipeline_status().unwrap().acknowledged.map(|block| block.hash),
        Some(at(&blocks[1]).hash)
    );
    node.finalize(&blocks[3]);
    node.commit(&blocks[4..]).await;
    node.finished(at(&blocks[3])).await;
}

/// A bundle with fewer reverts than blocks says nothing about any of them: they are executed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_does_not_fit_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder.path().join("archive")).await;
    let blocks = children(&node.genesis(), 1, 3);
    let mut told = reth_execution_types::Chain::clone(&run(&blocks));
    told.execution_outcome_mut().bundle.reverts.pop();
    node.adopt(&blocks, &[]);
    node.tell(ExExNotification::ChainCommitted { new: std::sync::Arc::new(told) }).await;
    node.durable(&blocks[2]).await;
    assert_eq!(node.prestate.pipeline_status().unwrap().failed.len(), 0);
}

/// A node that syncs in stages tells of many blocks at once: their diffs are there at once, those of
/// their transactions by and by, without being asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_runs_are_kept_at_once_and_filled_in_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    let mut node = Node::start(&path).await;
    let blocks = children(&node.genesis(), 1, 300);
    node.commit(&blocks[..100]).await;
    node.durable(&blocks[99]).await;
    node.commit(&blocks[100..]).await;
    node.durable(&blocks[299]).await;
    let filled = || {
        let backfill = node.prestate.pipeline_status()?.backfill?;
        backfill.finished.then_some(backfill)
    };
    let backfill = loop {
        match filled() {
            Some(backfill) => break backfill,
            None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    assert_eq!((backfill.from, backfill.to), (101, 300), "{backfill:?}");
    assert_eq!((backfill.written, backfill.failed), (200, 0), "{backfill:?}");
    drop(node);
    let archive = open(&path).await;
    assert_eq!(archive.facts_held(1..=300).unwrap(), 300);
}

/// A stale block told late changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_canonical_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(&folder.path().join("archive")).await;
    let blocks = children(&node.genesis(), 1, 2);
    node.commit(&blocks).await;
    node.durable(&blocks[1]).await;
    let stale = child(&blocks[1].recovered_block, 9);
    node.tell(ExExNotification::ChainCommitted { new: run(std::slice::from_ref(&stale)) }).await;
    let next = child(&blocks[1].recovered_block, 1);
    node.commit(std::slice::from_ref(&next)).await;
    node.durable(&next).await;
}

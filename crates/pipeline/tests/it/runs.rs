//! Runs of blocks that a node commits in stages: too long to be executed before they are told.

use crate::{
    chain::{TestHost, Tree, together},
    model::{Reader, check_archive, check_block, config, settle, start_with, wait_for},
};
use prestate_host::Notification;
use prestate_pipeline::{PipelineConfig, PipelineHandle};
use prestate_store::KeptBlock;
use prestate_types::BlockRef;
use std::time::Duration;

/// Nothing is looked at that was not told.
fn staged() -> PipelineConfig {
    PipelineConfig {
        max_told_blocks: 8,
        max_heal_blocks: 16,
        watchdog: Duration::from_secs(3600),
        ..config()
    }
}

/// Every block of a stretch is held as its change as a whole, which is right.
fn check_diffs(tree: &Tree, pipeline: &PipelineHandle, blocks: &[BlockRef]) {
    let archive = pipeline.archive().unwrap();
    for block in blocks {
        assert!(archive.is_canonical(&block.hash).unwrap(), "block {block}");
        let KeptBlock::DiffOnly(kept) = archive.block(&block.hash).unwrap().unwrap() else {
            panic!("block {block} was executed")
        };
        assert_eq!(kept.diff, tree.difference(&block.hash), "block {block}");
        let published = pipeline.block(&block.hash).unwrap().unwrap();
        assert_eq!(*published.diff(), kept.diff);
    }
}

#[tokio::test]
async fn block_diffs_are_kept_at_once_and_transactions_by_a_back_fill() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start_with(&tree, host.clone(), folder.path(), staged());
    let base = tree.extend(tree.genesis, 10, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);

    // No state of the run can be read: the node is between its stages. Below it, codes can.
    let head = tree.extend(base, 20, 150);
    let run = tree.line(head)[4..].to_vec();
    host.unreadable.lock().extend(run.iter().map(|block| block.hash));
    let mut reader = Reader::new(&pipeline, base);
    host.send.try_send(Notification::Committed(tree.told_together())).unwrap();
    settle(&pipeline, &*host);
    check_diffs(&tree, &pipeline, &run);
    wait_for("the head to be acknowledged", || host.acks.lock().last() == Some(&head));
    assert_eq!(pipeline.status().failed.len(), 0);
    let first = reader.subscription.next().await.unwrap();
    assert!(format!("{first:?}").starts_with("Commit"), "{first:?}");

    // Live blocks go on from there, told and executed.
    host.unreadable.lock().clear();
    let live = tree.extend(head, 300, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let progress = pipeline.backfill(1..=live.number).unwrap().finished().await;
    assert_eq!((progress.written, progress.failed), (150, 0), "{progress:?}");
    check_archive(&tree, pipeline.archive().unwrap(), 1, live);
    assert!(pipeline.archive().unwrap().verify(|_| ()).unwrap().is_clean());
}

#[test]
fn a_run_may_overlap_what_is_there_replace_it_or_stand_apart() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start_with(&tree, host.clone(), folder.path(), staged());
    let base = tree.extend(tree.genesis, 10, 2);
    tree.tell(&host);
    settle(&pipeline, &*host);

    // The first blocks of it are known.
    let fork = tree.extend(base, 20, 5);
    let mut told = tree.told();
    for notification in told.clone() {
        host.send.try_send(notification).unwrap();
    }
    settle(&pipeline, &*host);
    let old = tree.extend(fork, 40, 20);
    told.extend(tree.told());
    let taken = tree.line(old)[fork.number as usize + 1..].to_vec();
    host.send.try_send(Notification::Committed(together(&told))).unwrap();
    settle(&pipeline, &*host);
    check_diffs(&tree, &pipeline, &taken);
    check_block(&tree, pipeline.archive().unwrap(), fork);

    // Another one instead, above a block that nobody told of.
    let sibling = tree.grow(fork.hash, 100);
    tree.chain.set_head(sibling.hash).unwrap();
    tree.told();
    let new = tree.extend(sibling, 101, 30);
    let replacing = tree.told_together();
    host.send.try_send(Notification::Reorged { old: taken, new: replacing }).unwrap();
    settle(&pipeline, &*host);
    check_block(&tree, pipeline.archive().unwrap(), sibling);
    check_diffs(&tree, &pipeline, &tree.line(new)[sibling.number as usize + 1..]);

    // Far above, with nothing told of what lies between.
    let far = tree.extend(new, 200, 40);
    tree.told();
    let top = tree.extend(far, 300, 20);
    let apart = tree.told_together();
    host.send.try_send(Notification::Committed(apart.clone())).unwrap();
    settle(&pipeline, &*host);
    // Once more, with nothing new in it.
    host.send.try_send(Notification::Committed(apart)).unwrap();
    let live = tree.grow(top.hash, 400);
    tree.tell(&host);
    settle(&pipeline, &*host);
    check_diffs(&tree, &pipeline, &tree.line(top)[far.number as usize + 1..]);
    check_block(&tree, pipeline.archive().unwrap(), live);
    let gaps = pipeline.archive().unwrap().gaps(1..=live.number).unwrap();
    assert_eq!(gaps, [new.number + 1..=far.number]);
}

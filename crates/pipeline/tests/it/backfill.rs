//! History filled in beside the live chain.

use crate::{
    chain::{TestHost, Tree},
    model::{check_archive, config, settle, start, start_with, wait_for},
};
use prestate_pipeline::{BackfillError, PipelineConfig};
use std::time::Duration;

#[tokio::test]
async fn a_range_is_filled_while_the_chain_moves_on() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let old = tree.extend(tree.genesis, 10, 40);
    tree.told();
    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    settle(&pipeline, &*host);
    let archive = pipeline.archive().unwrap();
    // Nothing but the head it came upon.
    assert_eq!(archive.gaps(0..=40).unwrap(), [0..=39]);
    let mut backfill = pipeline.backfill(0..=1000).unwrap();
    let thirtieth = tree.line(old)[38];
    let head = tree.extend(thirtieth, 100, 6);
    tree.chain.set_head(head.hash).unwrap();
    tree.tell(&host);
    let progress = backfill.finished().await;
    assert_eq!((progress.from, progress.to, progress.total()), (0, 40, 41));
    settle(&pipeline, &*host);
    // What the reorg took away under it is filled in by asking again.
    let progress = pipeline.backfill(1..=head.number).unwrap().finished().await;
    assert_eq!(progress.failed, 0, "{progress:?}");
    check_archive(&tree, archive, 1, head);
    assert!(archive.verify(|_| ()).unwrap().is_clean());
}

#[tokio::test]
async fn it_is_resumed_after_a_cancel_and_after_a_restart() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let head = tree.extend(tree.genesis, 10, 30);
    let host = TestHost::new(&tree.chain);
    let slowly = PipelineConfig { backfill_pause: Duration::from_millis(40), ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), slowly);
    settle(&pipeline, &*host);
    let mut first = pipeline.backfill(1..=29).unwrap();
    let refused = pipeline.backfill(1..=3);
    assert!(matches!(refused, Err(BackfillError::Running { from: 1, to: 29 })), "{refused:?}");
    first.progress().wait_for(|progress| progress.written >= 3).await.unwrap();
    first.cancel();
    let progress = first.finished().await;
    assert!(progress.done < 29, "{progress:?}");
    assert_eq!(pipeline.status().backfill, Some(progress.clone()));
    let stopping = pipeline.clone();
    drop(pipeline);
    tokio::task::spawn_blocking(move || stopping.shutdown()).await.unwrap();

    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    settle(&pipeline, &*host);
    let again = pipeline.backfill(1..=29).unwrap().finished().await;
    assert_eq!(again.done, 29);
    assert!(again.written <= 29 - progress.written, "{again:?} after {progress:?}");
    check_archive(&tree, pipeline.archive().unwrap(), 1, head);
    let empty = std::ops::RangeInclusive::new(9, 3);
    let refused = pipeline.backfill(empty);
    assert!(matches!(refused, Err(BackfillError::EmptyRange { from: 9, to: 3 })), "{refused:?}");
}

#[tokio::test]
async fn heights_that_fail_are_named_and_the_others_filled() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let head = tree.extend(tree.genesis, 10, 12);
    let host = TestHost::new(&tree.chain);
    let fifth = tree.line(head)[5];
    host.unreadable.lock().insert(fifth.hash);
    let pipeline = start(&tree, host.clone(), folder.path());
    settle(&pipeline, &*host);
    let progress = pipeline.backfill(1..=11).unwrap().finished().await;
    assert_eq!((progress.done, progress.written, progress.failed), (11, 10, 1));
    assert_eq!(progress.failures[0].0, 6);
    assert!(progress.failures[0].1.contains("not now"), "{progress:?}");
    wait_for("ten blocks and the head", || {
        pipeline.archive().unwrap().gaps(1..=12).unwrap() == [6..=6]
    });
}

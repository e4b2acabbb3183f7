//! What goes wrong in a block, in the host or on the disk costs that block, and only for a while.

use crate::{
    chain::{TestHost, Tree},
    model::{
        Reader, check_archive, check_block, config, options, settle, start, start_with, wait_for,
    },
};
use alloy_primitives::U256;
use prestate_host::{BundleSlice, CommittedBlock, Notification};
use prestate_pipeline::{
    Backoff, BlockFailure, CutReason, Pipeline, PipelineConfig, StartError, Update,
};
use prestate_store::{
    Access, Archive, ArchiveOptions, Disk, KeptBlock, Medium, Retention, SpaceState,
};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// For a subscriber's side.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_block_that_panics_or_cannot_be_read_is_listed_passed_over_and_made_good() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    let good = tree.extend(tree.genesis, 10, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let mut reader = Reader::new(&pipeline, good);

    // The next block's parent state panics, that of the one after is not to be had.
    host.explosive.lock().insert(good.hash);
    let panics = tree.grow(good.hash, 20);
    host.unreadable.lock().insert(panics.hash);
    let unreadable = tree.grow(panics.hash, 21);
    let head = tree.extend(unreadable, 30, 3);
    tree.tell(&host);
    wait_for("the head to be published", || pipeline.head() == Some(head));
    wait_for("both failures to be listed", || pipeline.status().failed.len() == 2);
    let failed = pipeline.status().failed;
    assert_eq!([failed[0].block, failed[1].block], [panics, unreadable]);
    assert!(failed[0].reason.contains("panic"), "{}", failed[0].reason);
    assert!(failed[1].reason.contains("not now"), "{}", failed[1].reason);
    wait_for("the last block to be written", || {
        pipeline.archive().unwrap().is_canonical(&head.hash).unwrap()
    });
    // Nothing above the hole is acknowledged, and nobody is led across it.
    assert_eq!(pipeline.status().durable, Some(good));
    assert_eq!(host.acks.lock().last(), Some(&good));
    let cut = runtime().block_on(reader.subscription.next());
    let expected = CutReason::Unavailable { number: panics.number };
    assert!(matches!(cut, Some(Update::Cut(reason)) if reason == expected));
    assert!(runtime().block_on(reader.subscription.next()).is_none());

    host.explosive.lock().clear();
    host.unreadable.lock().clear();
    settle(&pipeline, &*host);
    wait_for("the failures to be off the list", || pipeline.status().failed.is_empty());
    check_archive(&tree, pipeline.archive().unwrap(), 1, head);
    wait_for("the head to be acknowledged", || host.acks.lock().last() == Some(&head));
    runtime().block_on(Reader::new(&pipeline, good).follow(&tree, head));
}

#[test]
fn a_block_that_never_works_is_given_up_and_no_longer_holds_the_node_back() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig { retry: Backoff { attempts: 3, ..config().retry }, ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    let good = tree.extend(tree.genesis, 10, 2);
    host.unreadable.lock().insert(good.hash);
    let head = tree.extend(good, 20, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let failed = pipeline.status().failed;
    assert_eq!(failed.len(), 1);
    assert!(failed[0].given_up);
    assert_eq!(failed[0].attempts, 3);
    wait_for("the head to be acknowledged", || host.acks.lock().last() == Some(&head));
}

#[test]
fn transactions_that_do_not_add_up_are_neither_kept_nor_served() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    // The watchdog must not be first with the block.
    let config = PipelineConfig { watchdog: Duration::from_secs(3600), ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    let good = tree.extend(tree.genesis, 10, 2);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let wrong = tree.grow(good.hash, 20);
    let told = tree.told();
    let Notification::Committed(new) = &told[0] else { panic!("{told:?}") };
    // The node says that an account got one wei more than executing the block gives.
    let mut bundle = (*new[0].bundle.as_ref().unwrap().bundle).clone();
    let address = bundle.reverts[0][0].0;
    let info = bundle.state.get_mut(&address).unwrap().info.as_mut().unwrap();
    info.balance += U256::ONE;
    let bundle = Some(BundleSlice { bundle: Arc::new(bundle), index: 0 });
    let tampered = CommittedBlock { block: new[0].block.clone(), bundle };
    host.send.try_send(Notification::Committed(vec![tampered])).unwrap();
    wait_for("the block", || pipeline.head() == Some(wrong));
    let published = pipeline.block(&wrong.hash).unwrap().unwrap();
    assert_ne!(*published.diff(), tree.difference(&wrong.hash));
    let facts = runtime().block_on(published.facts());
    assert!(matches!(facts, Err(BlockFailure::Invariant(_))), "{facts:?}");
    let head = tree.grow(wrong.hash, 30);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let archive = pipeline.archive().unwrap();
    let kept = archive.block(&wrong.hash).unwrap().unwrap();
    let KeptBlock::DiffOnly(kept) = kept else { panic!("{kept:?}") };
    assert_eq!(kept.diff, *published.diff());
    check_block(&tree, archive, head);
    // Trying again compares with what the node said, and does not make it good.
    wait_for("another attempt", || pipeline.status().failed[0].attempts > 2);
    assert!(archive.facts(&wrong.hash).unwrap().is_none());
    let failed = &pipeline.status().failed;
    assert!(failed[0].reason.contains("do not add up"), "{}", failed[0].reason);
}

#[test]
fn blocks_committed_together_are_told_apart_without_executing_them() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig { watchdog: Duration::from_secs(3600), ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    let base = tree.extend(tree.genesis, 10, 2);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let head = tree.extend(base, 20, 5);
    let run = tree.line(head)[3..].to_vec();
    let together = tree.told_together();
    let bundle = together[0].bundle.clone().unwrap().bundle;
    // The state between them cannot be read, so none but the first can be executed.
    host.unreadable.lock().extend(run.iter().map(|block| block.hash));
    host.send.try_send(Notification::Committed(together)).unwrap();
    wait_for("the run to be published", || pipeline.head() == Some(head));
    for block in &run {
        let published = pipeline.block(&block.hash).unwrap().unwrap();
        assert_eq!(*published.diff(), tree.difference(&block.hash), "block {block}");
    }
    // The block diffs are durable by themselves; the rest is made good later.
    settle(&pipeline, &*host);
    let kept = pipeline.archive().unwrap().block(&head.hash).unwrap().unwrap();
    assert!(matches!(kept, KeptBlock::DiffOnly(_)), "{kept:?}");
    host.unreadable.lock().clear();
    wait_for("all facts", || pipeline.status().failed.is_empty());
    check_archive(&tree, pipeline.archive().unwrap(), 1, head);

    // Half a run does not fit its bundle: it is executed.
    let next = tree.extend(head, 40, 2);
    let new: Vec<_> = tree.told().iter().flat_map(Notification::committed).cloned().collect();
    let odd = new.iter().map(|block| CommittedBlock {
        block: block.block.clone(),
        bundle: Some(BundleSlice { bundle: bundle.clone(), index: 1 }),
    });
    host.send.try_send(Notification::Committed(odd.collect())).unwrap();
    settle(&pipeline, &*host);
    check_archive(&tree, pipeline.archive().unwrap(), 1, next);
}

#[test]
fn a_silent_host_and_a_panicking_one_are_followed_all_the_same() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    // Not one notification.
    let fork = tree.extend(tree.genesis, 10, 9);
    tree.told();
    settle(&pipeline, &*host);
    // The loop itself panics for a while.
    host.heads_panic.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(120));
    let sixth = tree.line(fork)[6];
    let head = tree.extend(sixth, 40, 7);
    tree.chain.set_head(head.hash).unwrap();
    tree.told();
    host.heads_panic.store(false, Ordering::Relaxed);
    settle(&pipeline, &*host);
    check_archive(&tree, pipeline.archive().unwrap(), 1, head);
}

#[test]
fn more_notifications_than_there_is_room_for_are_healed() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig {
        max_queued_notifications: 2,
        max_in_flight_blocks: 3,
        watchdog: Duration::from_secs(3600),
        ..config()
    };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    let head = tree.extend(tree.genesis, 10, 60);
    tree.tell(&host);
    settle(&pipeline, &*host);
    assert_eq!(pipeline.status().queued_notifications, 0);
    let first = pipeline.archive().unwrap().range().unwrap().unwrap().0;
    check_archive(&tree, pipeline.archive().unwrap(), first.number, head);
}

#[test]
fn nothing_above_the_finalized_block_is_acknowledged() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let blocks = tree.extend(tree.genesis, 10, 8);
    let third = tree.line(blocks)[3];
    *host.finalized.lock() = Some(third);
    let pipeline = start(&tree, host.clone(), folder.path());
    tree.tell(&host);
    settle(&pipeline, &*host);
    let head = tree.extend(blocks, 30, 2);
    tree.tell(&host);
    settle(&pipeline, &*host);
    assert_eq!(pipeline.status().acknowledged, Some(third));
    let acks = host.acks.lock().clone();
    assert!(acks.iter().all(|acked| acked.number <= third.number), "{acks:?}");
    // Every batch is answered, though the answer is the same.
    assert!(host.acks.lock().len() > 1);
    *host.finalized.lock() = Some(head);
    let above = tree.grow(head.hash, 50);
    tree.tell(&host);
    settle(&pipeline, &*host);
    assert_eq!(host.acks.lock().last(), Some(&head));
    assert_ne!(above, head);
}

#[test]
fn without_an_archive_the_newest_blocks_are_published_from_memory() {
    let mut tree = Tree::new();
    let host = TestHost::new(&tree.chain);
    let pipeline = Pipeline::start(host.clone(), None, config()).unwrap();
    wait_for("genesis", || pipeline.head() == Some(tree.genesis));
    let mut reader = Reader::new(&pipeline, tree.genesis);
    let old = tree.extend(tree.genesis, 10, 12);
    tree.tell(&host);
    settle(&pipeline, &*host);
    runtime().block_on(reader.follow(&tree, old));
    let fifth = tree.line(old)[5];
    let head = tree.extend(fifth, 40, 9);
    tree.chain.set_head(head.hash).unwrap();
    tree.tell(&host);
    settle(&pipeline, &*host);
    runtime().block_on(reader.follow(&tree, head));
    assert_eq!(host.acks.lock().last(), Some(&head));
    assert!(pipeline.backfill(1..=2).is_err());
    let second = Pipeline::start(host, None, config());
    assert!(matches!(second, Err(StartError::ListenerTaken)));
}

#[test]
fn too_long_an_absence_leaves_a_gap_that_a_back_fill_closes() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig { max_heal_blocks: 10, ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config.clone());
    let known = tree.extend(tree.genesis, 10, 6);
    tree.tell(&host);
    settle(&pipeline, &*host);
    pipeline.shutdown();
    drop(pipeline);
    // Two of the blocks are replaced, and many come.
    let fourth = tree.line(known)[4];
    let head = tree.extend(fourth, 40, 30);
    tree.chain.set_head(head.hash).unwrap();
    tree.told();
    let host = TestHost::new(&tree.chain);
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    settle(&pipeline, &*host);
    let archive = pipeline.archive().unwrap();
    assert_eq!(archive.gaps(1..=head.number).unwrap(), [5..=head.number - 1]);
    let mut reader = Reader::new(&pipeline, fourth);
    let cut = runtime().block_on(reader.subscription.next());
    assert!(matches!(cut, Some(Update::Cut(CutReason::Unavailable { number: 5 }))), "{cut:?}");
    let mut backfill = pipeline.backfill(1..=head.number).unwrap();
    let progress = runtime().block_on(backfill.finished());
    assert_eq!((progress.done, progress.failed), (head.number, 0), "{progress:?}");
    check_archive(&tree, archive, 1, head);
    runtime().block_on(Reader::new(&pipeline, known).follow(&tree, head));
}

/// A disk whose free space the test sets.
#[derive(Debug)]
struct Tight {
    free: AtomicU64,
}

impl Medium for Tight {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn redb::StorageBackend>> {
        Disk.open(path, access)
    }

    fn available_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.free.load(Ordering::Relaxed))
    }
}

#[test]
fn a_full_disk_stops_writing_and_nothing_else() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let disk = Arc::new(Tight { free: AtomicU64::new(1 << 40) });
    let options = ArchiveOptions { reserve_bytes: 1 << 20, medium: disk.clone(), ..options() };
    let archive = Archive::open_or_create(folder.path(), tree.chain_id(), &options).unwrap();
    let pipeline = Pipeline::start(host.clone(), Some(archive), config()).unwrap();
    wait_for("genesis", || pipeline.head() == Some(tree.genesis));
    let old = tree.extend(tree.genesis, 10, 5);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let mut reader = Reader::new(&pipeline, tree.line(old)[1]);

    disk.free.store(1000, Ordering::Relaxed);
    let third = tree.line(old)[3];
    let head = tree.extend(third, 40, 6);
    tree.chain.set_head(head.hash).unwrap();
    tree.tell(&host);
    wait_for("the head", || pipeline.head() == Some(head));
    runtime().block_on(reader.follow(&tree, head));
    wait_for("the state to show", || {
        let status = pipeline.status();
        matches!(status.space, Some(SpaceState::Low { .. })) && status.unwritten_blocks == 6
    });
    assert_eq!(pipeline.status().durable, Some(third));
    assert_eq!(host.acks.lock().last(), Some(&third));
    assert!(!pipeline.archive().unwrap().is_canonical(&head.hash).unwrap());

    disk.free.store(1 << 40, Ordering::Relaxed);
    settle(&pipeline, &*host);
    check_archive(&tree, pipeline.archive().unwrap(), 1, head);
    wait_for("nothing to be owed", || pipeline.status().failed.is_empty());
    wait_for("the head to be acknowledged", || host.acks.lock().last() == Some(&head));
}

#[test]
fn old_blocks_are_pruned_and_readers_that_need_them_told() {
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let config = PipelineConfig { retention: Retention::Blocks(64), ..config() };
    let pipeline = start_with(&tree, host.clone(), folder.path(), config);
    let third = tree.extend(tree.genesis, 10, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let mut late = pipeline.subscribe(Some(third.hash)).unwrap();
    let head = tree.extend(third, 100, 120);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let archive = pipeline.archive().unwrap();
    wait_for("pruning", || archive.range().unwrap().unwrap().0.number > 30);
    let lowest = archive.range().unwrap().unwrap().0;
    check_archive(&tree, archive, lowest.number, head);
    let cut = runtime().block_on(late.next());
    assert!(matches!(cut, Some(Update::Cut(CutReason::Unavailable { number: 4 }))), "{cut:?}");
}

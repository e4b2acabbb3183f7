//! What must be there, and waiting until it is.

use crate::chain::{TestHost, Tree};
use prestate_host::Host;
use prestate_pipeline::{
    Backoff, CutReason, Pipeline, PipelineConfig, PipelineHandle, Subscription, Update,
};
use prestate_store::{Archive, ArchiveOptions, ArchiveReader, KeptBlock};
use prestate_types::BlockRef;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Only to give up on a test that hangs.
const HANG: Duration = Duration::from_secs(60);

pub(crate) fn options() -> ArchiveOptions {
    ArchiveOptions { cache_bytes: 4 << 20, reserve_bytes: 0, ..ArchiveOptions::default() }
}

pub(crate) fn config() -> PipelineConfig {
    PipelineConfig {
        workers: 2,
        watchdog: Duration::from_millis(50),
        retry: Backoff {
            first: Duration::from_millis(20),
            longest: Duration::from_millis(100),
            attempts: 1000,
        },
        ..PipelineConfig::default()
    }
}

/// A pipeline over an archive in a folder, once it stands on a block.
pub(crate) fn start(tree: &Tree, host: Arc<TestHost>, folder: &Path) -> PipelineHandle {
    start_with(tree, host, folder, config())
}

pub(crate) fn start_with(
    tree: &Tree,
    host: Arc<TestHost>,
    folder: &Path,
    config: PipelineConfig,
) -> PipelineHandle {
    let archive = Archive::open_or_create(folder, tree.chain_id(), &options()).unwrap();
    let pipeline = Pipeline::start(host, Some(archive), config).unwrap();
    wait_for("a first block", || pipeline.head().is_some());
    pipeline
}

/// Waits until something holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < HANG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the chain's head is published and durable.
pub(crate) fn settle(pipeline: &PipelineHandle, host: &dyn Host) {
    let head = host.head().unwrap();
    wait_for("the head to be durable", || {
        let status = pipeline.status();
        status.head == Some(head) && status.durable == Some(head)
    });
}

/// The archive holds the chain up to `tip` from `from` on, block by block as it must be, and
/// nothing else is canonical.
pub(crate) fn check_archive(tree: &Tree, archive: &ArchiveReader, from: u64, tip: BlockRef) {
    let line = tree.line(tip);
    let held = archive.canonical_blocks(0..=u64::MAX, usize::MAX).unwrap();
    assert_eq!(held, line[from as usize..], "canonical chain in the archive");
    for block in &held {
        check_block(tree, archive, *block);
    }
}

/// One block's facts, held against whole states.
pub(crate) fn check_block(tree: &Tree, archive: &ArchiveReader, block: BlockRef) {
    let kept = archive.block(&block.hash).unwrap().unwrap();
    let KeptBlock::Facts(facts) = &kept else { panic!("block {block} without facts") };
    assert_eq!(facts.summary.block, block);
    assert_eq!(facts.fold(), tree.difference(&block.hash), "block {block}");
    let body = tree.committed(block.hash).block;
    let hashes: Vec<_> = body.body().transactions.iter().map(|tx| *tx.tx_hash()).collect();
    assert_eq!(facts.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), hashes);
}

/// A subscriber that keeps the whole state and checks that it is right wherever it stands.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) subscription: Subscription,
    pub(crate) at: BlockRef,
    pub(crate) steps: u64,
}

impl Reader {
    pub(crate) fn new(pipeline: &PipelineHandle, from: BlockRef) -> Self {
        let subscription = pipeline.subscribe(Some(from.hash)).unwrap();
        Self { subscription, at: from, steps: 0 }
    }

    /// Follows up to a block.
    pub(crate) async fn follow(&mut self, tree: &Tree, to: BlockRef) {
        while self.at != to {
            let next = tokio::time::timeout(HANG, self.subscription.next());
            let update = next.await.expect("no update came").expect("the stream ended");
            self.apply(tree, &update).await;
        }
    }

    async fn apply(&mut self, tree: &Tree, update: &Update) {
        self.steps += 1;
        self.at = apply(tree, self.at, update).await;
        assert_eq!(self.at, self.subscription.position());
    }
}

/// A subscriber that reads without a pause, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Listener {
    updates: std::sync::mpsc::Receiver<Update>,
    thread: std::thread::JoinHandle<()>,
    at: BlockRef,
}

impl Listener {
    pub(crate) fn new(pipeline: &PipelineHandle) -> Self {
        let mut subscription = pipeline.subscribe(None).unwrap();
        let at = subscription.position();
        let (send, updates) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                while let Some(update) = subscription.next().await {
                    if matches!(&update, Update::Cut(CutReason::Stopped)) {
                        return;
                    }
                    send.send(update).unwrap();
                }
            });
        });
        Self { updates, thread, at }
    }

    /// Checks everything that came, which has to lead to a block.
    pub(crate) async fn check(&mut self, tree: &Tree, to: BlockRef) -> u64 {
        let mut steps = 0;
        while self.at != to {
            let update = self.updates.recv_timeout(HANG).expect("no update came");
            self.at = apply(tree, self.at, &update).await;
            steps += 1;
        }
        steps
    }

    /// Waits for its end, which comes with the pipeline's.
    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

/// Checks one step from a block and returns where it leads.
async fn apply(tree: &Tree, from: BlockRef, update: &Update) -> BlockRef {
    match update {
        Update::Commit(block) => {
            let at = block.summary().block;
            assert_eq!(block.summary().parent_hash, from.hash, "gap before {at}");
            assert_eq!(*block.diff(), tree.difference(&at.hash), "block {at}");
            let facts = block.facts().await.unwrap();
            assert_eq!(facts.fold(), *block.diff(), "transactions of block {at}");
            at
        }
        Update::Revert(block) => {
            let summary = block.summary();
            assert_eq!(summary.block, from, "reverted what was not the tip");
            assert_eq!(*block.diff(), tree.difference(&from.hash));
            BlockRef::new(from.number - 1, summary.parent_hash)
        }
        Update::Cut(reason) => panic!("cut off: {reason}"),
    }
}

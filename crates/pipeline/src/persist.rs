use crate::{
    chain::Chain,
    compute::{Given, TracedBlock},
    error::panic_message,
    feed::Feed,
    metrics,
    redo::Redo,
    run::Diffs,
    work::{Traced, Work},
};
use parking_lot::Mutex;
use prestate_host::Host;
use prestate_store::{
    Appended, ArchiveBatch, ArchiveWriter, EncodedBlock, PruneReport, Retention, SpaceState,
    WriteError,
};
use prestate_types::{BlockRef, Codes};
use std::{
    collections::{BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Instant,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Blocks in one durable batch. A batch costs a sync, whatever its size.
const MAX_BATCH_BLOCKS: usize = 64;
/// Blocks between two looks at what may be pruned.
const PRUNE_EVERY_BLOCKS: usize = 32;

/// What the loop has written, in the order of publishing.
#[derive(Debug)]
pub(crate) enum Op {
    /// A block on top of the chain. The permit is given back once it is dealt with.
    Commit(Arc<Work>, OwnedSemaphorePermit),
    /// The chain begins above this block, which is not looked at.
    Base(BlockRef),
    /// The chain was taken back: it ends below this height.
    Truncate(u64),
    /// A block of the chain that was missing, or its facts were.
    Fill(Fill),
    /// Blocks of a run that is not on the chain yet, from the top down.
    Diffs(Diffs),
    /// This block is missing for good.
    GiveUp(BlockRef),
}

/// A missing block, and who waits for it to be durable.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) traced: Arc<TracedBlock>,
    pub(crate) reply: oneshot::Sender<Result<(), String>>,
}

/// Durable and acknowledged blocks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) durable: Option<BlockRef>,
    pub(crate) acked: Option<BlockRef>,
    pub(crate) holes: u64,
    pub(crate) space: Option<SpaceState>,
}

/// The one that writes: makes blocks durable in order, then acknowledges them.
pub(crate) struct Persist {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) writer: Option<ArchiveWriter>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) redo: Arc<Redo>,
    pub(crate) progress: Arc<Mutex<Progress>>,
    pub(crate) retention: Retention,
    /// The chain as far as it was dealt with. The published one may be ahead, and elsewhere.
    chain: Chain,
    /// Heights of it that are not written.
    holes: BTreeSet<u64>,
    /// Heights from here on in the archive are off the chain, and could not be taken off yet.
    owed_truncation: Option<u64>,
    since_prune: usize,
}

impl std::fmt::Debug for Persist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Persist").field("tip", &self.chain.tip()).finish_non_exhaustive()
    }
}

impl Persist {
    pub(crate) fn new(
        host: Arc<dyn Host>,
        writer: Option<ArchiveWriter>,
        feed: Arc<Feed>,
        redo: Arc<Redo>,
        retention: Retention,
    ) -> Self {
        let chain = feed.chain(Chain::clone);
        Self {
            host,
            writer,
            feed,
            redo,
            progress: Arc::default(),
            retention,
            chain,
            holes: BTreeSet::new(),
            owed_truncation: None,
            since_prune: 0,
        }
    }

    /// Heights that the archive lacks from the start.
    pub(crate) fn missing(&mut self, heights: impl IntoIterator<Item = u64>) {
        self.holes.extend(heights);
    }

    /// Runs until all senders are gone and all is written.
    pub(crate) async fn run(mut self, mut ops: mpsc::UnboundedReceiver<Op>) {
        let mut ahead = VecDeque::new();
        // A host that never hears of us keeps everything for ever.
        self.acknowledge();
        loop {
            let op = match ahead.pop_front() {
                Some(op) => op,
                None => match ops.recv().await {
                    Some(op) => op,
                    None => return,
                },
            };
            match op {
                Op::Commit(work, permit) => {
                    let mut batch = vec![(work.done().await, work, permit)];
                    while batch.len() < MAX_BATCH_BLOCKS {
                        let Some(op) = ahead.pop_front().or_else(|| ops.try_recv().ok()) else {
                            break;
                        };
                        match op {
                            Op::Commit(work, permit) if let Some(traced) = work.now() => {
                                batch.push((traced, work, permit));
                            }
                            other => {
                                ahead.push_front(other);
                                break;
                            }
                        }
                    }
                    let mut reason = "writing it panicked".to_owned();
                    self.guarded(|this| {
                        if let Err(error) = this.commit(&batch) {
                            reason = error.to_string();
                        }
                    });
                    for (_, work, _) in batch.iter().filter(|(_, work, _)| !work.is_durable()) {
                        self.redo.owe(work.block, &reason);
                    }
                }
                Op::Truncate(first) => self.guarded(|this| this.truncate(first)),
                Op::Fill(first) => {
                    let mut fills = vec![first];
                    while fills.len() < MAX_BATCH_BLOCKS {
                        match ahead.pop_front().or_else(|| ops.try_recv().ok()) {
                            Some(Op::Fill(fill)) => fills.push(fill),
                            Some(other) => {
                                ahead.push_front(other);
                                break;
                            }
                            None => break,
                        }
                    }
                    self.guarded(|this| this.fill(fills));
                }
                Op::Base(block) => self.chain.push(block),
                Op::Diffs(diffs) => {
                    let mut result = Err("writing them panicked".to_owned());
                    self.guarded(|this| result = this.append_diffs(&diffs));
                    // Whoever asked may have gone.
                    let _ = diffs.reply.send(result);
                }
                Op::GiveUp(block) => {
                    if self.chain.contains(&block) {
                        self.holes.remove(&block.number);
                    }
                }
            }
            self.guarded(|this| {
                this.prune();
                this.acknowledge();
            });
        }
    }

    /// A panic costs what was being written, not the writer.
    fn guarded(&mut self, run: impl FnOnce(&mut Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(self))) {
            metrics::count(metrics::PANICS, 1);
            tracing::error!(panic = panic_message(&*panic), "writing panicked");
        }
    }

    fn commit(
        &mut self,
        batch: &[(Traced, Arc<Work>, OwnedSemaphorePermit)],
    ) -> Result<(), WriteError> {
        let started = Instant::now();
        // Whatever happens below, a block is a hole until it is known to be durable.
        for (_, work, _) in batch {
            self.chain.push(work.block);
            self.holes.insert(work.block.number);
        }
        self.since_prune += batch.len();
        let written = self.write(|this, archive| {
            let mut holes = Vec::new();
            for (traced, work, _) in batch {
                if !this.append(archive, traced, work)? {
                    holes.push(work.block.number);
                }
            }
            Ok(holes)
        });
        let holes = written.inspect_err(|error| self.refused(error))?;
        for (_, work, _) in batch {
            if !holes.contains(&work.block.number) {
                self.holes.remove(&work.block.number);
                work.set_durable();
            }
        }
        metrics::stage("persist", started.elapsed());
        self.show_size();
        ::metrics::histogram!(metrics::BATCH).record(batch.len() as f64);
        Ok(())
    }

    /// Appends what is known of a block; false if that is nothing.
    fn append(
        &self,
        archive: &mut ArchiveBatch<'_>,
        traced: &Traced,
        work: &Work,
    ) -> Result<bool, WriteError> {
        let empty = Codes::default();
        match (traced, &work.given) {
            (Ok(traced), _) => {
                append_on_top(archive, &traced.encoded, &traced.codes)?;
                Ok(true)
            }
            (Err(_), Some(given)) => {
                let block =
                    prestate_types::BlockDiff { summary: given.summary, diff: given.diff.clone() };
                let Ok(encoded) = EncodedBlock::of_block_diff(&block) else { return Ok(false) };
                let codes = self.all_codes(&encoded, given);
                match append_on_top(archive, &encoded, codes.as_ref().unwrap_or(&empty)) {
                    Err(WriteError::MissingCode { .. }) => Ok(false),
                    other => other.map(|_| true),
                }
            }
            (Err(_), None) => Ok(false),
        }
    }

    /// Appends block diffs of a run. Codes are their own proof: any state may give them.
    fn append_diffs(&mut self, diffs: &Diffs) -> Result<(), String> {
        let written = self.write(|this, archive| {
            let mut codes = Codes::default();
            for block in &diffs.blocks {
                loop {
                    let missing = match archive.append(block, &codes, true) {
                        Err(WriteError::MissingCode { code, .. }) => code,
                        Err(error) => return Err(error),
                        Ok(_) => break,
                    };
                    // Without it the block stays a gap.
                    let code = diffs.run.code(&*this.host, block.summary(), missing);
                    let Some(code) = code else { break };
                    codes.insert(missing, code);
                }
            }
            Ok(())
        });
        self.show_size();
        written.inspect_err(|error| self.refused(error)).map_err(|error| error.to_string())
    }

    /// The codes a block diff speaks of: those the node's commit brought, others from its state.
    fn all_codes(&self, encoded: &EncodedBlock, given: &Given) -> Option<Codes> {
        let summary = encoded.summary();
        let mut codes = given.codes.clone();
        for hash in encoded.code_hashes() {
            if codes.contains(hash) {
                continue;
            }
            let states = [given.run_parent, summary.parent_hash, summary.block.hash];
            let code = states
                .into_iter()
                .filter_map(|block| self.host.state_after(block).ok()?.code(*hash).ok())
                .next()?;
            codes.insert(*hash, code.original_bytes());
        }
        Some(codes)
    }

    fn truncate(&mut self, first: u64) {
        self.holes.split_off(&first);
        self.chain.truncate(first);
        self.owed_truncation = Some(self.owed_truncation.map_or(first, |owed| owed.min(first)));
        // Done by itself: a crash right after must not bring the old chain back.
        if let Err(error) = self.write(|_, _| Ok(())) {
            self.refused(&error);
        }
    }

    /// Stores blocks that were missing. Those on the chain take their place there.
    fn fill(&mut self, fills: Vec<Fill>) {
        let written = self.write(|this, archive| {
            let append = |fill: &Fill| match this.fill_one(archive, &fill.traced) {
                // The batch is useless after that.
                Err(WriteError::Engine(error)) => Err(WriteError::Engine(error)),
                Err(error) => Ok(Err(error.to_string())),
                Ok(()) => Ok(Ok(())),
            };
            fills.iter().map(append).collect::<Result<Vec<_>, _>>()
        });
        let results = match written {
            Ok(results) => results,
            Err(error) => {
                self.refused(&error);
                vec![Err(error.to_string()); fills.len()]
            }
        };
        for (fill, result) in fills.into_iter().zip(results) {
            if result.is_ok() {
                self.holes.remove(&fill.traced.facts.summary.block.number);
                self.since_prune += 1;
            }
            // Whoever asked may have gone.
            let _ = fill.reply.send(result);
        }
    }

    fn fill_one(
        &self,
        archive: &mut ArchiveBatch<'_>,
        traced: &TracedBlock,
    ) -> Result<(), WriteError> {
        let block = traced.facts.summary.block;
        let TracedBlock { encoded, codes, .. } = traced;
        match self.chain.get(block.number) {
            Some(ours) if ours == block => append_on_top(archive, encoded, codes)?,
            // Off the chain by now; kept under its hash.
            Some(_) => archive.append(encoded, codes, false)?,
            // A height the chain in memory does not hold is vouched for by whoever asked, as far as
            // the archive agrees.
            None => {
                let below = self.chain.tip().is_some_and(|tip| block.number < tip.number);
                archive.append(encoded, codes, below)?
            }
        };
        Ok(())
    }

    /// One durable batch, beginning with what earlier ones owe. Without an archive nothing is
    /// written, and nothing missed.
    fn write<T: Default>(
        &mut self,
        run: impl FnOnce(&Self, &mut ArchiveBatch<'_>) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let Some(mut writer) = self.writer.take() else { return Ok(T::default()) };
        let written = catch_unwind(AssertUnwindSafe(|| {
            let mut batch = writer.batch()?;
            if let Some(first) = self.owed_truncation {
                batch.revert_from(first)?;
            }
            let result = run(self, &mut batch)?;
            batch.commit()?;
            Ok(result)
        }));
        self.writer = Some(writer);
        let written = written.unwrap_or_else(|panic| resume_unwind(panic));
        if written.is_ok() {
            self.owed_truncation = None;
        }
        written
    }

    fn show_size(&self) {
        // Reading them records them.
        let _ = self.feed.archive.as_ref().map(|archive| archive.stats());
    }

    fn refused(&self, error: &WriteError) {
        metrics::count(metrics::WRITE_ERRORS, 1);
        match error {
            WriteError::LowSpace { .. } => tracing::warn!(%error, "writing stopped"),
            error => tracing::error!(%error, "the archive did not take blocks"),
        }
    }

    fn prune(&mut self) {
        if self.retention == Retention::Forever || self.since_prune < PRUNE_EVERY_BLOCKS {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        let mut report = PruneReport::default();
        match writer.prune_step(self.retention, &mut report) {
            // One bounded batch between two others, so that live blocks never wait long.
            Ok(true) => {}
            Ok(false) => self.since_prune = 0,
            Err(error) => {
                self.since_prune = 0;
                tracing::error!(%error, "pruning failed");
            }
        }
        metrics::count(metrics::PRUNED, report.blocks);
    }

    /// Everything up to this block is written, or given up.
    fn durable(&self) -> Option<BlockRef> {
        match self.holes.first() {
            Some(hole) => self.chain.below(*hole),
            None => self.chain.tip(),
        }
    }

    /// Tells the host, every time anew: a node wakes its extensions by their answers (reth's ExEx
    /// manager), and it must not prune or skip above what is finalized (reth #19755).
    fn acknowledge(&mut self) {
        let durable = self.durable();
        let acked = durable.and_then(|durable| match self.host.finalized() {
            Ok(Some(finalized)) if finalized.number < durable.number => {
                // Only what is on the chain that was written.
                let below = self.chain.first().is_some_and(|first| finalized.number < first.number);
                (below || self.chain.contains(&finalized)).then_some(finalized)
            }
            Ok(_) => Some(durable),
            Err(_) => None,
        });
        if let Some(acked) = acked {
            self.host.ack(acked);
            metrics::set(metrics::ACKED, acked.number);
        }
        if let Some(durable) = durable {
            metrics::set(metrics::DURABLE, durable.number);
        }
        metrics::set(metrics::HOLES, self.holes.len() as u64);
        let space = self.writer.as_ref().map(|writer| writer.space().last_state());
        let mut progress = self.progress.lock();
        progress.space = space;
        progress.durable = durable;
        progress.acked = acked.or(progress.acked);
        progress.holes = self.holes.len() as u64;
    }
}

/// Appends a block as canonical. The published chain decides: what stands in the way is taken off.
fn append_on_top(
    archive: &mut ArchiveBatch<'_>,
    block: &EncodedBlock,
    codes: &Codes,
) -> Result<Appended, WriteError> {
    let number = block.summary().block.number;
    loop {
        let first = match archive.append(block, codes, true) {
            Err(WriteError::Occupied { .. }) => number,
            Err(WriteError::ParentMismatch { .. }) => number.saturating_sub(1),
            Err(WriteError::ChildMismatch { .. }) => number.saturating_add(1),
            other => return other,
        };
        tracing::warn!(block = %block.summary().block, first, "the archive was on another chain");
        if archive.revert_from(first)?.is_empty() {
            return archive.append(block, codes, true);
        }
    }
}

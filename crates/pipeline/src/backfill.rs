use crate::{
    BackfillError,
    compute::{self, TracedBlock},
    metrics,
    persist::{Fill, Op},
    pool::{Pool, Priority},
};
use prestate_host::Host;
use prestate_store::ArchiveReader;
use prestate_types::BlockRef;
use std::{collections::VecDeque, ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// Heights looked at in one go.
const STRIDE: u64 = 1024;
/// Blocks executed and not durable yet; they share a sync. Some MB each at worst.
const MAX_WRITING: usize = 16;
/// How long to wait before looking again whether live blocks are done.
const YIELD_PAUSE: Duration = Duration::from_millis(5);
/// Failures kept with their reasons.
const MAX_LISTED: usize = 64;

/// How far a back-fill got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackfillProgress {
    /// Lowest height asked for.
    pub from: u64,
    /// Highest height asked for.
    pub to: u64,
    /// Heights done: written now, held already, or failed.
    pub done: u64,
    /// Blocks written.
    pub written: u64,
    /// Heights that failed.
    pub failed: u64,
    /// The first of them, with reasons.
    pub failures: Vec<(u64, String)>,
    /// Whether it ended: all heights are done, or it was cancelled.
    pub finished: bool,
}

impl BackfillProgress {
    /// Heights asked for.
    pub const fn total(&self) -> u64 {
        self.to - self.from + 1
    }
}

/// A back-fill under way. Dropping this does not end it.
#[derive(Debug)]
pub struct Backfill {
    progress: watch::Receiver<BackfillProgress>,
    cancel: watch::Sender<bool>,
}

impl Backfill {
    pub(crate) const fn new(
        progress: watch::Receiver<BackfillProgress>,
        cancel: watch::Sender<bool>,
    ) -> Self {
        Self { progress, cancel }
    }

    /// How far it is, to look at or to wait on.
    pub fn progress(&self) -> watch::Receiver<BackfillProgress> {
        self.progress.clone()
    }

    /// Ends it after the blocks under way. Asking for the same range again goes on from there.
    pub fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Waits for its end.
    pub async fn finished(&mut self) -> BackfillProgress {
        // An error means that the run is gone, with the pipeline.
        let _ = self.progress.wait_for(|progress| progress.finished).await;
        self.progress.borrow().clone()
    }
}

/// Fills a range from its top down: what is asked for most is near the head.
pub(crate) struct BackfillRun {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) archive: ArchiveReader,
    pub(crate) pool: Arc<Pool>,
    pub(crate) ops: mpsc::WeakUnboundedSender<Op>,
    pub(crate) range: RangeInclusive<u64>,
    pub(crate) workers: usize,
    pub(crate) pause: Duration,
    pub(crate) progress: watch::Sender<BackfillProgress>,
    pub(crate) cancel: watch::Receiver<bool>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl std::fmt::Debug for BackfillRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackfillRun").field("range", &self.range).finish_non_exhaustive()
    }
}

/// Heights under way, highest first: executed, then written.
#[derive(Debug, Default)]
struct UnderWay {
    executing: VecDeque<(u64, oneshot::Receiver<Result<TracedBlock, String>>)>,
    writing: VecDeque<(u64, oneshot::Receiver<Result<(), String>>)>,
}

impl BackfillRun {
    pub(crate) fn checked(range: &RangeInclusive<u64>) -> Result<(), BackfillError> {
        if range.is_empty() {
            return Err(BackfillError::EmptyRange { from: *range.start(), to: *range.end() });
        }
        Ok(())
    }

    pub(crate) async fn run(self) {
        let mut under_way = UnderWay::default();
        let (from, mut to) = (*self.range.start(), *self.range.end());
        'strides: loop {
            let low = from.max(to.saturating_sub(STRIDE - 1));
            let missing = match self.archive.without_facts(low..=to) {
                Ok(missing) => missing,
                Err(error) => {
                    self.failed(low, &error.to_string());
                    break;
                }
            };
            let held = to - low + 1 - missing.len() as u64;
            self.progress.send_modify(|progress| progress.done += held);
            for number in missing.into_iter().rev() {
                // Genesis has no transactions and nothing before it.
                if number == 0 {
                    self.progress.send_modify(|progress| progress.done += 1);
                    continue;
                }
                while self.pool.live_waiting() > 0 && !self.ends() {
                    tokio::time::sleep(YIELD_PAUSE).await;
                }
                if self.ends() {
                    break 'strides;
                }
                under_way.executing.push_back((number, self.execute(number)));
                self.settle(&mut under_way, self.workers, MAX_WRITING).await;
                if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
            }
            if low == from {
                break;
            }
            to = low - 1;
        }
        self.settle(&mut under_way, 0, 0).await;
        self.progress.send_modify(|progress| progress.finished = true);
    }

    fn ends(&self) -> bool {
        *self.cancel.borrow() || *self.stop.borrow()
    }

    fn execute(&self, number: u64) -> oneshot::Receiver<Result<TracedBlock, String>> {
        let (reply, result) = oneshot::channel();
        let (host, archive) = (self.host.clone(), self.archive.clone());
        self.pool.submit(Priority::Late, move || {
            // Nobody waits once the back-fill is gone.
            let _ = reply.send(trace(&*host, &archive, number));
        });
        result
    }

    /// Waits until no more than so many heights are under way.
    async fn settle(&self, under_way: &mut UnderWay, max_executing: usize, max_writing: usize) {
        while under_way.executing.len() > max_executing {
            let Some((number, traced)) = under_way.executing.pop_front() else { break };
            match traced.await {
                Ok(Ok(traced)) => under_way.writing.push_back((number, self.write(traced))),
                Ok(Err(reason)) => self.failed(number, &reason),
                // The pool closed; the height is left for the next time.
                Err(_) => {}
            }
        }
        while under_way.writing.len() > max_writing {
            let Some((number, written)) = under_way.writing.pop_front() else { break };
            match written.await {
                Ok(Ok(())) => {
                    metrics::count(metrics::BACKFILLED, 1);
                    self.progress.send_modify(|progress| {
                        progress.done += 1;
                        progress.written += 1;
                    });
                }
                Ok(Err(reason)) => self.failed(number, &reason),
                // The writer ended, likewise.
                Err(_) => {}
            }
        }
    }

    fn write(&self, traced: TracedBlock) -> oneshot::Receiver<Result<(), String>> {
        let (reply, written) = oneshot::channel();
        if let Some(ops) = self.ops.upgrade() {
            // A writer that is gone drops the reply.
            let _ = ops.send(Op::Fill(Fill { traced: traced.into(), reply }));
        }
        written
    }

    fn failed(&self, number: u64, reason: &str) {
        metrics::count(metrics::FAILURES, 1);
        tracing::warn!(number, reason, "a block could not be filled in");
        self.progress.send_modify(|progress| {
            progress.done += 1;
            progress.failed += 1;
            if progress.failures.len() < MAX_LISTED {
                progress.failures.push((number, reason.to_owned()));
            }
        });
    }
}

fn trace(host: &dyn Host, archive: &ArchiveReader, number: u64) -> Result<TracedBlock, String> {
    let hash = host.canonical_hash(number).map_err(|error| error.to_string())?;
    let hash = hash.ok_or("the host holds no canonical block of this height")?;
    // What the node committed, where that is kept, still has to be met.
    let committed = archive.block(&hash).map_err(|error| error.to_string())?;
    let committed = committed.map(|kept| kept.block_diff());
    compute::trace(host, BlockRef::new(number, hash), None, committed.as_ref())
        .map_err(|failure| failure.to_string())
}

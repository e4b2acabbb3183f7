use crate::{
    BackfillError, compute, metrics,
    persist::Op,
    pool::{Pool, Priority},
};
use prestate_host::Host;
use prestate_store::ArchiveReader;
use prestate_types::BlockRef;
use std::{collections::VecDeque, ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// Heights looked at in one go.
const STRIDE: u64 = 1024;
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

type Pending = (u64, oneshot::Receiver<Result<(), String>>);

impl BackfillRun {
    pub(crate) fn checked(range: &RangeInclusive<u64>) -> Result<(), BackfillError> {
        if range.is_empty() {
            return Err(BackfillError::EmptyRange { from: *range.start(), to: *range.end() });
        }
        Ok(())
    }

    pub(crate) async fn run(self) {
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let (from, mut to) = (*self.range.start(), *self.range.end());
        'strides: loop {
            let low = from.max(to.saturating_sub(STRIDE - 1));
            let missing: Vec<u64> = match self.archive.gaps(low..=to) {
                Ok(gaps) => gaps.into_iter().rev().flat_map(Iterator::rev).collect(),
                Err(error) => {
                    self.failed(low, &error.to_string());
                    break;
                }
            };
            let held = to - low + 1 - missing.len() as u64;
            self.progress.send_modify(|progress| progress.done += held);
            for number in missing {
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
                pending.push_back((number, self.submit(number)));
                while pending.len() > self.workers {
                    self.settle(pending.pop_front()).await;
                }
                if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
            }
            if low == from {
                break;
            }
            to = low - 1;
        }
        while !pending.is_empty() {
            self.settle(pending.pop_front()).await;
        }
        self.progress.send_modify(|progress| progress.finished = true);
    }

    fn ends(&self) -> bool {
        *self.cancel.borrow() || *self.stop.borrow()
    }

    fn submit(&self, number: u64) -> oneshot::Receiver<Result<(), String>> {
        let (reply, result) = oneshot::channel();
        let (host, ops) = (self.host.clone(), self.ops.clone());
        self.pool.submit(Priority::Late, move || {
            // Nobody waits once the back-fill is gone.
            let _ = reply.send(fill(&*host, &ops, number));
        });
        result
    }

    async fn settle(&self, pending: Option<Pending>) {
        let Some((number, result)) = pending else { return };
        match result.await {
            Ok(Ok(())) => {
                metrics::count(metrics::BACKFILLED, 1);
                self.progress.send_modify(|progress| {
                    progress.done += 1;
                    progress.written += 1;
                });
            }
            Ok(Err(reason)) => self.failed(number, &reason),
            // The pool closed; the height is left for the next time.
            Err(_) => {}
        }
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

fn fill(host: &dyn Host, ops: &mpsc::WeakUnboundedSender<Op>, number: u64) -> Result<(), String> {
    let hash = host.canonical_hash(number).map_err(|error| error.to_string())?;
    let hash = hash.ok_or("the host holds no canonical block of this height")?;
    let traced = compute::trace(host, BlockRef::new(number, hash), None, None);
    let traced = traced.map_err(|failure| failure.to_string())?;
    let (reply, filled) = oneshot::channel();
    let stopped = "the pipeline stopped";
    ops.upgrade().ok_or(stopped)?.send(Op::Fill(traced.into(), reply)).map_err(|_| stopped)?;
    filled.blocking_recv().map_err(|_| stopped)?.map_err(|error| error.to_string())
}

use crate::run::Run;
use crate::{compute::Bundle, metrics};
use alloy_primitives::{B256, map::B256Map};
use parking_lot::Mutex;
use prestate_host::{BundleSlice, CommittedBlock, Notification, Notifications, RecoveredBlock};
use prestate_types::BlockRef;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::{Notify, watch};

/// What a notification asks to look at. The host has the last word.
#[derive(Debug, Clone)]
pub(crate) enum Hint {
    /// This became the newest block.
    Tip(BlockRef),
    /// These became the newest blocks, too many to be executed before they are told.
    Run(Arc<Run>),
    /// This was taken back, with everything above it.
    Reverted(BlockRef),
}

/// A block that came with a notification.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) block: Arc<RecoveredBlock>,
    pub(crate) bundle: Option<Bundle>,
}

/// Takes notifications off the host as they come, so that a slow block never makes the host drop
/// any. What waits is bounded: references by number, blocks with bundles by number.
#[derive(Debug)]
pub(crate) struct Intake {
    inbox: Mutex<Inbox>,
    arrived: Notify,
    max_hints: usize,
    max_told: usize,
}

#[derive(Debug, Default)]
struct Inbox {
    hints: VecDeque<Hint>,
    told: B256Map<Told>,
    told_order: VecDeque<B256>,
    overflowed: bool,
}

impl Intake {
    pub(crate) fn new(max_hints: usize, max_told: usize) -> Self {
        Self { inbox: Mutex::default(), arrived: Notify::new(), max_hints, max_told }
    }

    /// Runs until the host closes the stream or `stop` changes.
    pub(crate) async fn drain(&self, mut from: Notifications, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                notification = from.recv() => match notification {
                    Some(notification) => self.take(notification),
                    None => return tracing::info!("the host closed its notifications"),
                },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    pub(crate) fn take(&self, notification: Notification) {
        let kind = match notification {
            Notification::Committed(_) => "committed",
            Notification::Reorged { .. } => "reorged",
            Notification::Reverted { .. } => "reverted",
        };
        ::metrics::counter!(metrics::NOTIFICATIONS, "kind" => kind).increment(1);
        let new = notification.committed();
        let run = (new.len() > self.max_told).then(|| Run::of(new)).flatten();
        let hint = match (run, new.last(), notification.reverted().first()) {
            (Some(run), ..) => Hint::Run(Arc::new(run)),
            (None, Some(tip), _) => Hint::Tip(tip.block_ref()),
            (None, None, Some(first)) => Hint::Reverted(*first),
            (None, None, None) => return,
        };
        let mut inbox = self.inbox.lock();
        // A run may take some GB: one waits at most, and an older one is left to a back-fill.
        if matches!(hint, Hint::Run(_)) {
            inbox.hints.retain(|waiting| !matches!(waiting, Hint::Run(_)));
        }
        if inbox.hints.len() >= self.max_hints {
            inbox.hints.clear();
            inbox.overflowed = true;
            metrics::count(metrics::OVERFLOWS, 1);
        }
        inbox.hints.push_back(hint);
        metrics::set(metrics::QUEUE, inbox.hints.len() as u64);
        // Of a longer run the bundle is kept as a whole, or nothing: it is executed again then.
        if new.len() <= self.max_told {
            for (hash, told) in told(new) {
                if inbox.told.insert(hash, told).is_none() {
                    inbox.told_order.push_back(hash);
                }
            }
            while inbox.told_order.len() > self.max_told {
                if let Some(oldest) = inbox.told_order.pop_front() {
                    inbox.told.remove(&oldest);
                }
            }
        }
        drop(inbox);
        self.arrived.notify_one();
    }

    /// The next hint, if there is one, and whether some were lost before it.
    pub(crate) fn next(&self) -> (Option<Hint>, bool) {
        let mut inbox = self.inbox.lock();
        let next = inbox.hints.pop_front();
        metrics::set(metrics::QUEUE, inbox.hints.len() as u64);
        (next, std::mem::take(&mut inbox.overflowed))
    }

    /// Waits for a hint.
    pub(crate) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    pub(crate) fn waiting(&self) -> usize {
        self.inbox.lock().hints.len()
    }

    /// The block as a notification brought it.
    pub(crate) fn told(&self, hash: &B256) -> Option<Told> {
        self.inbox.lock().told.get(hash).cloned()
    }

    /// The block is taken up: it need not be kept here.
    pub(crate) fn forget(&self, hash: &B256) {
        let mut inbox = self.inbox.lock();
        if inbox.told.remove(hash).is_some() {
            inbox.told_order.retain(|other| other != hash);
        }
    }
}

/// Blocks with their bundles, as far as a bundle fits its run: it must have one entry of reverts a
/// block, and the run must be there from its start.
fn told(new: &[CommittedBlock]) -> impl Iterator<Item = (B256, Told)> + '_ {
    new.iter().enumerate().map(move |(at, committed)| {
        let bundle = committed.bundle.as_ref().and_then(|slice| bundle(new, at, slice));
        (committed.block.hash(), Told { block: committed.block.clone(), bundle })
    })
}

fn bundle(new: &[CommittedBlock], at: usize, slice: &BundleSlice) -> Option<Bundle> {
    let start = at.checked_sub(slice.index)?;
    let run = new[start..]
        .iter()
        .zip(0..)
        .take_while(|(block, index)| {
            block.bundle.as_ref().is_some_and(|other| {
                Arc::ptr_eq(&other.bundle, &slice.bundle) && other.index == *index
            })
        })
        .count();
    (slice.index < run && slice.bundle.reverts.len() == run)
        .then(|| Bundle { slice: slice.clone(), run_parent: new[start].block.parent_hash })
}

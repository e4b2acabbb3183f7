use alloy_primitives::B256;
use prestate_host::{Notification, RecoveredBlock};
use prestate_types::BlockRef;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::broadcast;

/// Changes of the chain that a slow subscriber may be behind.
const CHAIN_BUFFER: usize = 1_024;
/// Transactions that a slow subscriber may be behind: a heavy block's.
const PENDING_BUFFER: usize = 65_536;

/// A change of the canonical chain.
#[derive(Debug, Clone)]
pub(crate) struct ChainEvent {
    /// No longer canonical, ascending.
    pub(crate) old: Vec<BlockRef>,
    /// Canonical now, ascending.
    pub(crate) new: Vec<Arc<RecoveredBlock>>,
}

impl From<Notification> for ChainEvent {
    fn from(notification: Notification) -> Self {
        Self {
            old: notification.reverted().to_vec(),
            new: notification.committed().iter().map(|new| new.block.clone()).collect(),
        }
    }
}

/// What filters and subscriptions tell of.
#[derive(Debug)]
pub(crate) struct Events {
    /// Changes of the chain.
    pub(crate) chain: Stream<ChainEvent>,
    /// Transactions that came into the pool.
    pub(crate) pending: Stream<B256>,
}

impl Default for Events {
    fn default() -> Self {
        Self { chain: Stream::new(CHAIN_BUFFER), pending: Stream::new(PENDING_BUFFER) }
    }
}

/// Events of one kind, as they come and for a while after.
#[derive(Debug)]
pub(crate) struct Stream<T> {
    live: broadcast::Sender<T>,
    /// The newest, for filters that are polled; older ones are lost to them.
    kept: VecDeque<T>,
    capacity: usize,
    /// Events so far.
    count: u64,
}

impl<T: Clone> Stream<T> {
    fn new(capacity: usize) -> Self {
        let (live, _) = broadcast::channel(capacity);
        Self { live, kept: VecDeque::new(), capacity, count: 0 }
    }

    pub(crate) fn push(&mut self, event: T) {
        if self.kept.len() == self.capacity {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        self.count += 1;
        // Nobody may be listening.
        let _ = self.live.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T> {
        self.live.subscribe()
    }

    /// Where a new filter begins.
    pub(crate) fn now(&self) -> u64 {
        self.count
    }

    /// Events after the first `from`, with the number to go on from.
    pub(crate) fn since(&self, from: u64) -> (Vec<T>, u64) {
        let lost = self.count - self.kept.len() as u64;
        let skip = from.saturating_sub(lost) as usize;
        (self.kept.iter().skip(skip).cloned().collect(), self.count)
    }
}

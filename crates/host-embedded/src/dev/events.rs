use alloy_primitives::B256;
use prestate_host::{Notification, RecoveredBlock};
use prestate_types::BlockRef;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::broadcast;

/// Events that a slow subscriber may be behind before it misses some.
const SUBSCRIBER_BUFFER: usize = 4096;
/// Events kept for filters that are polled; older ones are lost to them.
const KEPT_EVENTS: usize = 16_384;

/// Something that filters and subscriptions tell of.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// The canonical chain changed.
    Chain {
        /// No longer canonical, ascending.
        old: Vec<BlockRef>,
        /// Canonical now, ascending.
        new: Vec<Arc<RecoveredBlock>>,
    },
    /// A transaction came into the pool.
    Pending(B256),
}

impl From<Notification> for Event {
    fn from(notification: Notification) -> Self {
        Self::Chain {
            old: notification.reverted().to_vec(),
            new: notification.committed().iter().map(|new| new.block.clone()).collect(),
        }
    }
}

/// Events as they come and for a while after.
#[derive(Debug)]
pub(crate) struct Events {
    live: broadcast::Sender<Event>,
    kept: VecDeque<Event>,
    /// Events so far.
    count: u64,
}

impl Default for Events {
    fn default() -> Self {
        let (live, _) = broadcast::channel(SUBSCRIBER_BUFFER);
        Self { live, kept: VecDeque::new(), count: 0 }
    }
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.kept.len() == KEPT_EVENTS {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        self.count += 1;
        // Nobody may be listening.
        let _ = self.live.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.live.subscribe()
    }

    /// Where a new filter begins.
    pub(crate) fn now(&self) -> u64 {
        self.count
    }

    /// Events after the first `from`, with their number to go on from.
    pub(crate) fn since(&self, from: u64) -> (Vec<Event>, u64) {
        let lost = self.count - self.kept.len() as u64;
        let skip = from.saturating_sub(lost) as usize;
        (self.kept.iter().skip(skip).cloned().collect(), self.count)
    }
}

use crate::{chain::Chain, metrics, published::PublishedBlock};
use alloy_primitives::{B256, map::B256Map};
use parking_lot::RwLock;
use prestate_store::{ArchiveReader, ReadError};
use prestate_types::BlockRef;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::watch;

/// The published chain, and the newest blocks on it and off it. The loop writes, subscribers read
/// at their own pace: nothing is buffered per subscriber.
#[derive(Debug)]
pub(crate) struct Feed {
    view: RwLock<View>,
    changed: watch::Sender<u64>,
    pub(crate) archive: Option<ArchiveReader>,
    subscribers: AtomicU64,
    recent_blocks: usize,
    max_recent_blocks: usize,
}

#[derive(Debug, Default)]
struct View {
    chain: Chain,
    recent: B256Map<Arc<PublishedBlock>>,
    order: VecDeque<B256>,
}

/// Where a reader goes from a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nowhere: it is the newest.
    Stay,
    /// It is not canonical (any more).
    Back,
    /// To its canonical child.
    On {
        next: BlockRef,
        /// Blocks up to the newest.
        behind: u64,
    },
    /// Its child was jumped over.
    Gap { number: u64 },
}

impl Feed {
    pub(crate) fn new(
        chain: Chain,
        archive: Option<ArchiveReader>,
        recent_blocks: usize,
        max_in_flight_blocks: usize,
    ) -> Self {
        Self {
            view: RwLock::new(View { chain, ..View::default() }),
            changed: watch::Sender::new(0),
            archive,
            subscribers: AtomicU64::new(0),
            recent_blocks: recent_blocks.max(1),
            // While the archive takes nothing, blocks are let go here without being durable.
            max_recent_blocks: recent_blocks.max(1) + max_in_flight_blocks,
        }
    }

    /// Reads the chain as it is at this moment.
    pub(crate) fn chain<T>(&self, read: impl FnOnce(&Chain) -> T) -> T {
        read(&self.view.read().chain)
    }

    /// Puts a block on top; `None` where nothing is known of what it changed.
    pub(crate) fn push(&self, block: BlockRef, published: Option<Arc<PublishedBlock>>) {
        let mut view = self.view.write();
        view.chain.push(block);
        if let Some(published) = published
            && view.recent.insert(block.hash, published).is_none()
        {
            view.order.push_back(block.hash);
        }
        while view.order.len() > self.recent_blocks {
            let durable = |hash: &B256| {
                let block = view.recent.get(hash);
                block.and_then(|block| block.work()).is_none_or(|work| work.is_durable())
            };
            let excess = view.order.len() > self.max_recent_blocks;
            let Some(at) = view.order.iter().position(|hash| excess || durable(hash)) else {
                break;
            };
            // The newest stay: they are what readers at the head ask for.
            if !excess && view.order.len() - at <= self.recent_blocks {
                break;
            }
            if let Some(oldest) = view.order.remove(at) {
                view.recent.remove(&oldest);
            }
        }
        drop(view);
        metrics::set(metrics::HEAD, block.number);
        self.changed.send_modify(|version| *version += 1);
    }

    /// Takes all blocks from a height on off the chain; returns how many.
    pub(crate) fn truncate(&self, first: u64) -> usize {
        let taken = self.view.write().chain.truncate(first);
        if taken > 0 {
            self.changed.send_modify(|version| *version += 1);
        }
        taken
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// A published block that is in memory, canonical or not.
    pub(crate) fn recent(&self, hash: &B256) -> Option<Arc<PublishedBlock>> {
        self.view.read().recent.get(hash).cloned()
    }

    /// A block from memory or archive. May read the disk.
    pub(crate) fn load(&self, hash: &B256) -> Result<Option<Arc<PublishedBlock>>, ReadError> {
        if let Some(block) = self.recent(hash) {
            return Ok(Some(block));
        }
        let Some(archive) = &self.archive else { return Ok(None) };
        Ok(archive.block(hash)?.map(|kept| Arc::new(PublishedBlock::from(kept))))
    }

    /// Where to go from a block. May read the disk for blocks below those in memory.
    pub(crate) fn step(&self, from: BlockRef) -> Result<Step, ReadError> {
        let view = self.view.read();
        // Between the last block taken back and the first one put on.
        let Some(tip) = view.chain.tip() else { return Ok(Step::Stay) };
        let canonical = |number: u64| {
            if let Some(block) = view.chain.get(number) {
                return Ok::<_, ReadError>(Some(block));
            }
            let Some(archive) = &self.archive else { return Ok(None) };
            Ok(archive.canonical_hash(number)?.map(|hash| BlockRef::new(number, hash)))
        };
        // Where nothing is known at the height, the block itself is taken for canonical: its
        // child's parent hash tells.
        if from.number > tip.number || canonical(from.number)?.is_some_and(|block| block != from) {
            return Ok(Step::Back);
        }
        if from == tip {
            return Ok(Step::Stay);
        }
        let number = from.number + 1;
        Ok(match canonical(number)? {
            Some(next) => Step::On { next, behind: tip.number - from.number },
            None => Step::Gap { number },
        })
    }

    pub(crate) fn subscribers(&self) -> u64 {
        self.subscribers.load(Ordering::Relaxed)
    }

    pub(crate) fn subscriber_came(&self) {
        let count = self.subscribers.fetch_add(1, Ordering::Relaxed) + 1;
        metrics::set(metrics::SUBSCRIBERS, count);
    }

    pub(crate) fn subscriber_left(&self) {
        let count = self.subscribers.fetch_sub(1, Ordering::Relaxed) - 1;
        metrics::set(metrics::SUBSCRIBERS, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64, fork: u8) -> BlockRef {
        BlockRef::new(number, B256::repeat_byte(fork))
    }

    #[test]
    fn a_reader_below_waits_while_the_whole_chain_is_replaced() {
        let (below, old, new) = (block(6, 1), block(7, 2), block(7, 3));
        let feed = Feed::new(Chain::new([old]), None, 1, 1);
        let step = |from| feed.step(from).unwrap();
        assert_eq!(step(below), Step::On { next: old, behind: 1 });
        assert_eq!(feed.truncate(7), 1);
        assert_eq!(step(below), Step::Stay);
        feed.push(below, None);
        assert_eq!((step(below), step(old)), (Step::Stay, Step::Back));
        feed.push(new, None);
        assert_eq!((step(below), step(old)), (Step::On { next: new, behind: 1 }, Step::Back));
    }

    #[test]
    fn a_jump_shows_as_a_gap() {
        let feed = Feed::new(Chain::new([block(7, 1)]), None, 1, 1);
        feed.push(block(20, 1), None);
        assert_eq!(feed.step(block(7, 1)).unwrap(), Step::Gap { number: 8 });
        assert_eq!(feed.step(block(20, 1)).unwrap(), Step::Stay);
    }
}

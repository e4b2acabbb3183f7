use crate::{Backoff, BlockFailure, metrics};
use parking_lot::Mutex;
use prestate_types::BlockRef;
use std::{collections::BTreeMap, time::Instant};

/// Failures listed; the oldest go first.
const MAX_ENTRIES: usize = 4096;

/// A block that has to be done again.
#[derive(Debug, Clone)]
pub struct FailedBlock {
    /// The block.
    pub block: BlockRef,
    /// Why, the last time.
    pub reason: String,
    /// Attempts so far. Zero: it was never tried, the archive just could not take it.
    pub attempts: u32,
    /// Whether it is not tried any more.
    pub given_up: bool,
}

/// Blocks whose facts are not in the archive: failed ones, and ones it could not take.
#[derive(Debug)]
pub(crate) struct Redo {
    entries: Mutex<BTreeMap<BlockRef, Entry>>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Entry {
    reason: String,
    attempts: u32,
    next: Option<Instant>,
}

impl Redo {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { entries: Mutex::default(), backoff }
    }

    /// Notes a failed attempt; returns whether the block is given up now.
    pub(crate) fn failed(&self, block: BlockRef, failure: &BlockFailure) -> bool {
        let mut entries = self.entries.lock();
        let attempts = entries.get(&block).map_or(0, |entry| entry.attempts) + 1;
        let given_up = attempts >= self.backoff.attempts;
        let next = (!given_up).then(|| Instant::now() + self.backoff.pause(attempts));
        entries.insert(block, Entry { reason: failure.to_string(), attempts, next });
        Self::bound(&mut entries);
        given_up
    }

    /// Notes a block that is to be done without having failed, unless it is listed already.
    pub(crate) fn owe(&self, block: BlockRef, reason: &str) {
        let mut entries = self.entries.lock();
        let next = Some(Instant::now() + self.backoff.first);
        let entry = || Entry { reason: reason.to_owned(), attempts: 0, next };
        entries.entry(block).or_insert_with(entry);
        Self::bound(&mut entries);
    }

    /// Notes that a block was done, but could not be written.
    pub(crate) fn unwritten(&self, block: BlockRef, reason: &str) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(&block) {
            reason.clone_into(&mut entry.reason);
            entry.next = Some(Instant::now() + self.backoff.first);
        }
    }

    pub(crate) fn done(&self, block: &BlockRef) {
        let mut entries = self.entries.lock();
        entries.remove(block);
        metrics::set(metrics::FAILED, entries.len() as u64);
    }

    /// Forgets the blocks that are not wanted any more.
    pub(crate) fn retain(&self, wanted: impl Fn(&BlockRef) -> bool) {
        let mut entries = self.entries.lock();
        entries.retain(|block, _| wanted(block));
        metrics::set(metrics::FAILED, entries.len() as u64);
    }

    /// Some blocks whose time has come; they are not due again until a result is noted.
    pub(crate) fn due(&self, limit: usize) -> Vec<BlockRef> {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let due = entries.iter_mut().filter(|(_, entry)| entry.next.is_some_and(|at| at <= now));
        let due = due.take(limit).map(|(block, entry)| {
            entry.next = None;
            *block
        });
        due.collect()
    }

    pub(crate) fn list(&self) -> Vec<FailedBlock> {
        let entries = self.entries.lock();
        let listed = entries.iter().map(|(block, entry)| FailedBlock {
            block: *block,
            reason: entry.reason.clone(),
            attempts: entry.attempts,
            given_up: entry.attempts >= self.backoff.attempts,
        });
        listed.collect()
    }

    fn bound(entries: &mut BTreeMap<BlockRef, Entry>) {
        while entries.len() > MAX_ENTRIES {
            entries.pop_first();
        }
        metrics::set(metrics::FAILED, entries.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use std::time::Duration;

    #[test]
    fn a_block_is_tried_until_given_up_and_stays_listed() {
        let at_once = Duration::ZERO;
        let redo = Redo::new(Backoff { first: at_once, longest: at_once, attempts: 3 });
        let block = BlockRef::new(7, B256::with_last_byte(7));
        let failure = BlockFailure::UnknownBlock(block);
        assert!(!redo.failed(block, &failure));
        assert_eq!(redo.due(9), [block]);
        assert!(redo.due(9).is_empty(), "under way");
        assert!(!redo.failed(block, &failure));
        assert_eq!(redo.due(9), [block]);
        assert!(redo.failed(block, &failure));
        assert!(redo.due(9).is_empty());
        assert!(redo.list()[0].given_up);
        redo.done(&block);
        assert!(redo.list().is_empty());
    }
}

//! What is known of the watched slots, and how to take blocks back. No I/O.

use alloy_primitives::{Address, B256};
use prestate_types::BlockRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A storage slot of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// The account.
    pub address: Address,
    /// The slot.
    pub slot: B256,
}

impl SlotKey {
    /// A key from its two parts.
    pub const fn new(address: Address, slot: B256) -> Self {
        Self { address, slot }
    }
}

/// A watched slot that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotChange {
    /// Which.
    pub key: SlotKey,
    /// Value reported before; `None`: this is the first.
    pub old: Option<B256>,
    /// Value now.
    pub new: B256,
}

/// A block at which the values are known, and how to get back to the one before.
#[derive(Debug, Clone)]
struct Checkpoint {
    block: BlockRef,
    /// Values at the checkpoint before, of slots that changed since; `None`: not known there.
    undo: Vec<(SlotKey, Option<B256>)>,
}

/// Watched slots with their values at one block, and the way back over the last blocks.
///
/// Invariant: a value that is `Some` is the chain's at [`Self::head`]. Slots whose value is not
/// known are "cold".
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    slots: BTreeMap<SlotKey, Option<B256>>,
    /// Keys without a value, so that they need not be searched for.
    cold: BTreeSet<SlotKey>,
    /// Oldest first; the last is the head.
    checkpoints: VecDeque<Checkpoint>,
    /// Most checkpoints kept.
    keep: usize,
    /// Values as last reported, of slots touched since.
    reported: BTreeMap<SlotKey, Option<B256>>,
}

impl Ledger {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            slots: BTreeMap::new(),
            cold: BTreeSet::new(),
            checkpoints: VecDeque::new(),
            keep: keep.max(1),
            reported: BTreeMap::new(),
        }
    }

    pub(crate) fn watch(&mut self, key: SlotKey) -> bool {
        let new = !self.slots.contains_key(&key);
        if new {
            self.slots.insert(key, None);
            self.cold.insert(key);
        }
        new
    }

    pub(crate) fn unwatch(&mut self, key: &SlotKey) -> bool {
        self.cold.remove(key);
        self.reported.remove(key);
        self.slots.remove(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn head(&self) -> Option<BlockRef> {
        self.checkpoints.back().map(|checkpoint| checkpoint.block)
    }

    pub(crate) fn value(&self, key: &SlotKey) -> Option<B256> {
        self.slots.get(key).copied().flatten()
    }

    pub(crate) fn is_watched(&self, key: &SlotKey) -> bool {
        self.slots.contains_key(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = SlotKey> + '_ {
        self.slots.keys().copied()
    }

    /// Watched slots of one account.
    pub(crate) fn slots_of(&self, address: Address) -> impl Iterator<Item = SlotKey> + '_ {
        let range =
            SlotKey::new(address, B256::ZERO)..=SlotKey::new(address, B256::repeat_byte(0xff));
        self.slots.range(range).map(|(key, _)| *key)
    }

    pub(crate) fn cold(&self) -> impl ExactSizeIterator<Item = SlotKey> + '_ {
        self.cold.iter().copied()
    }

    /// Whether it is one of the blocks that the ledger can go back to.
    pub(crate) fn knows(&self, hash: &B256) -> bool {
        self.checkpoints.iter().any(|checkpoint| checkpoint.block.hash == *hash)
    }

    /// The oldest block it can go back to.
    pub(crate) fn oldest(&self) -> Option<BlockRef> {
        self.checkpoints.front().map(|checkpoint| checkpoint.block)
    }

    /// Known blocks above one, newest first.
    pub(crate) fn above(&self, hash: &B256) -> Vec<BlockRef> {
        let newest_first = self.checkpoints.iter().rev().map(|checkpoint| checkpoint.block);
        newest_first.take_while(|block| block.hash != *hash).collect()
    }

    /// The newest known block that is not above a height.
    pub(crate) fn newest_up_to(&self, number: u64) -> Option<BlockRef> {
        let newest_first = self.checkpoints.iter().rev().map(|checkpoint| checkpoint.block);
        newest_first.into_iter().find(|block| block.number <= number)
    }

    /// Goes on to a block. What is not in `values` did not change since the head; `None` says that
    /// a value is not known any more.
    pub(crate) fn advance(
        &mut self,
        block: BlockRef,
        values: impl IntoIterator<Item = (SlotKey, Option<B256>)>,
    ) {
        let mut undo = Vec::new();
        for (key, value) in values {
            if let Some(old) = self.set(key, value) {
                undo.push((key, old));
            }
        }
        self.checkpoints.push_back(Checkpoint { block, undo });
        if self.checkpoints.len() > self.keep {
            self.checkpoints.pop_front();
        }
    }

    /// Values of cold slots, at the head. Slots that are known or not watched are left alone.
    pub(crate) fn fill(&mut self, values: impl IntoIterator<Item = (SlotKey, B256)>) {
        for (key, value) in values {
            if !self.cold.contains(&key) {
                continue;
            }
            self.set(key, Some(value));
            if let Some(head) = self.checkpoints.back_mut()
                && !head.undo.iter().any(|(undone, _)| *undone == key)
            {
                // At the checkpoint before it may have been anything.
                head.undo.push((key, None));
            }
        }
    }

    /// Takes blocks back until a known one is the head. `false`, and nothing done, if it is not
    /// known.
    pub(crate) fn roll_back_to(&mut self, hash: &B256) -> bool {
        if !self.knows(hash) {
            return false;
        }
        while self.checkpoints.back().is_some_and(|last| last.block.hash != *hash) {
            let undo = self.checkpoints.pop_back().map(|last| last.undo).unwrap_or_default();
            for (key, old) in undo {
                self.set(key, old);
            }
        }
        true
    }

    /// Goes over to another branch of which every value is known that is not in `unknown`:
    /// `ancestor` is the newest known block on it, `None` if it has none of them.
    pub(crate) fn replace(
        &mut self,
        ancestor: Option<&B256>,
        block: BlockRef,
        values: BTreeMap<SlotKey, Option<B256>>,
    ) {
        if !ancestor.is_some_and(|hash| self.roll_back_to(hash)) {
            // Nothing before the new block is of its chain.
            self.checkpoints.clear();
        }
        self.advance(block, values);
    }

    /// What changed since this was last asked, by value: what came back to its old one is left
    /// out, as is what is cold.
    pub(crate) fn take_changes(&mut self) -> Vec<SlotChange> {
        let mut cold_still = BTreeMap::new();
        let mut changes = Vec::new();
        for (key, old) in std::mem::take(&mut self.reported) {
            match self.value(&key) {
                Some(new) if old != Some(new) => changes.push(SlotChange { key, old, new }),
                Some(_) => {}
                None => {
                    cold_still.insert(key, old);
                }
            }
        }
        self.reported = cold_still;
        changes
    }

    /// The value before, if it differs.
    fn set(&mut self, key: SlotKey, value: Option<B256>) -> Option<Option<B256>> {
        let entry = self.slots.get_mut(&key)?;
        if *entry == value {
            return None;
        }
        let old = std::mem::replace(entry, value);
        match value {
            Some(_) => self.cold.remove(&key),
            None => self.cold.insert(key),
        };
        self.reported.entry(key).or_insert(old);
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> SlotKey {
        SlotKey::new(Address::with_last_byte(n % 3), B256::with_last_byte(n))
    }

    fn word(n: u8) -> B256 {
        B256::with_last_byte(n)
    }

    fn block(number: u64, branch: u8) -> BlockRef {
        let mut hash = B256::with_last_byte(branch);
        hash.0[..8].copy_from_slice(&number.to_be_bytes());
        BlockRef::new(number, hash)
    }

    #[test]
    fn a_slot_read_late_is_unknown_again_before_that() {
        let mut ledger = Ledger::new(8);
        ledger.watch(key(1));
        ledger.advance(block(1, 0), [(key(1), Some(word(5)))]);
        ledger.watch(key(2));
        assert_eq!(ledger.cold().collect::<Vec<_>>(), [key(2)]);
        ledger.advance(block(2, 0), [(key(1), Some(word(6)))]);
        ledger.fill([(key(2), word(9)), (key(1), word(0))]);
        assert_eq!((ledger.value(&key(1)), ledger.value(&key(2))), (Some(word(6)), Some(word(9))));
        assert_eq!(ledger.take_changes().len(), 2);

        assert!(!ledger.roll_back_to(&block(7, 7).hash));
        assert!(ledger.roll_back_to(&block(1, 0).hash));
        assert_eq!((ledger.value(&key(1)), ledger.value(&key(2))), (Some(word(5)), None));
        ledger.fill([(key(2), word(9))]);
        let changes = ledger.take_changes();
        assert_eq!(changes, [SlotChange { key: key(1), old: Some(word(6)), new: word(5) }]);
    }

    #[test]
    fn going_back_is_bounded() {
        let mut ledger = Ledger::new(3);
        for n in 1..=5 {
            ledger.advance(block(n, 0), []);
        }
        assert_eq!(ledger.oldest(), Some(block(3, 0)));
        assert_eq!(ledger.above(&block(4, 0).hash), [block(5, 0)]);
        assert_eq!(ledger.newest_up_to(4), Some(block(4, 0)));
        assert_eq!(ledger.newest_up_to(2), None);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Watch(u8),
        Unwatch(u8),
        /// Writes of a block; whether the ledger is told each write or only that it is not known.
        Block(Vec<(u8, u8, bool)>),
        /// Cold slots are read.
        Fill,
        /// Back by so many checkpoints, then on with another block.
        Back(usize),
        /// Over to another branch in one step.
        Replace(usize, Vec<(u8, u8)>),
    }

    fn op() -> impl Strategy<Value = Op> {
        let writes = prop::collection::vec((0_u8..12, 0_u8..4, any::<bool>()), 0..6);
        let plain = prop::collection::vec((0_u8..12, 0_u8..4), 0..6);
        prop_oneof![
            (0_u8..12).prop_map(Op::Watch),
            (0_u8..12).prop_map(Op::Unwatch),
            writes.prop_map(Op::Block),
            Just(Op::Fill),
            (0_usize..5).prop_map(Op::Back),
            ((0_usize..9), plain).prop_map(|(depth, writes)| Op::Replace(depth, writes)),
        ]
    }

    type Model = BTreeMap<u8, u8>;

    proptest! {
        /// Against whole states kept by block: whatever happens, a value that the ledger claims to
        /// know is the chain's, and what it reports as changed leads from state to state.
        #[test]
        fn a_known_value_is_always_the_chains(ops in prop::collection::vec(op(), 1..60)) {
            let mut ledger = Ledger::new(6);
            let mut chain: Vec<(BlockRef, Model)> = vec![(block(0, 0), Model::new())];
            let mut branch = 0_u8;
            let mut mirror: BTreeMap<SlotKey, B256> = BTreeMap::new();
            ledger.advance(block(0, 0), []);
            for op in ops {
                let state = chain.last().unwrap().1.clone();
                let number = chain.last().unwrap().0.number + 1;
                let value = |state: &Model, n: u8| word(state.get(&n).copied().unwrap_or(0));
                match op {
                    Op::Watch(n) => { ledger.watch(key(n)); }
                    Op::Unwatch(n) => { ledger.unwatch(&key(n)); mirror.remove(&key(n)); }
                    Op::Block(writes) => {
                        let mut next = state;
                        let mut told = BTreeMap::new();
                        for (n, v, known) in writes {
                            next.insert(n, v);
                            told.insert(key(n), known.then_some(word(v)));
                        }
                        ledger.advance(block(number, branch), told);
                        chain.push((block(number, branch), next));
                    }
                    Op::Fill => {
                        let cold: Vec<_> = ledger.cold().collect();
                        let read = cold.into_iter().map(|key| (key, value(&state, key.slot[31])));
                        let read: Vec<_> = read.collect();
                        ledger.fill(read);
                    }
                    Op::Back(depth) => {
                        let depth = depth.min(chain.len() - 1);
                        chain.truncate(chain.len() - depth);
                        let to = chain.last().unwrap().0;
                        branch = branch.wrapping_add(1);
                        if !ledger.roll_back_to(&to.hash) {
                            prop_assert!(ledger.oldest().unwrap().number > to.number);
                            let all = ledger.keys().map(|key| (key, None)).collect();
                            ledger.replace(None, to, all);
                        }
                    }
                    Op::Replace(depth, writes) => {
                        let depth = depth.min(chain.len() - 1);
                        chain.truncate(chain.len() - depth);
                        let (ancestor, mut next) = chain.last().unwrap().clone();
                        branch = branch.wrapping_add(1);
                        next.extend(writes);
                        let at = block(ancestor.number + 1, branch);
                        let values = ledger.keys().map(|key| (key, Some(value(&next, key.slot[31]))));
                        let values = values.collect();
                        ledger.replace(Some(&ancestor.hash), at, values);
                        chain.push((at, next));
                    }
                }
                let (head, state) = chain.last().unwrap();
                prop_assert_eq!(ledger.head(), Some(*head));
                let keys: Vec<_> = ledger.keys().collect();
                for key in &keys {
                    if let Some(known) = ledger.value(key) {
                        prop_assert_eq!(known, value(state, key.slot[31]));
                    }
                }
                let cold: BTreeSet<_> = keys.iter().filter(|key| ledger.value(key).is_none()).copied().collect();
                prop_assert_eq!(ledger.cold().collect::<BTreeSet<_>>(), cold);
                for SlotChange { key, old, new } in ledger.take_changes() {
                    prop_assert_eq!(mirror.insert(key, new), old);
                    prop_assert!(old != Some(new));
                }
                for (key, value) in &mirror {
                    prop_assert!(ledger.value(key).is_none_or(|known| known == *value));
                }
            }
        }
    }
}

use alloy_primitives::B256;
use prestate_types::BlockRef;
use std::collections::BTreeMap;

/// Heights kept. Deeper than any reorg that is walked back to, and 1 MB at most.
const WINDOW: usize = 16_384;

/// The canonical chain as it was published: its upper end, by height.
///
/// A height may be missing where blocks were jumped over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain(BTreeMap<u64, B256>);

impl Chain {
    pub(crate) fn new(blocks: impl IntoIterator<Item = BlockRef>) -> Self {
        Self(blocks.into_iter().map(|block| (block.number, block.hash)).collect())
    }

    pub(crate) const fn window() -> usize {
        WINDOW
    }

    pub(crate) fn first(&self) -> Option<BlockRef> {
        self.0.first_key_value().map(|(number, hash)| BlockRef::new(*number, *hash))
    }

    pub(crate) fn tip(&self) -> Option<BlockRef> {
        self.0.last_key_value().map(|(number, hash)| BlockRef::new(*number, *hash))
    }

    pub(crate) fn get(&self, number: u64) -> Option<BlockRef> {
        self.0.get(&number).map(|hash| BlockRef::new(number, *hash))
    }

    pub(crate) fn contains(&self, block: &BlockRef) -> bool {
        self.0.get(&block.number) == Some(&block.hash)
    }

    /// The highest block below a height.
    pub(crate) fn below(&self, number: u64) -> Option<BlockRef> {
        self.0.range(..number).next_back().map(|(number, hash)| BlockRef::new(*number, *hash))
    }

    /// Puts a block on top.
    pub(crate) fn push(&mut self, block: BlockRef) {
        self.0.insert(block.number, block.hash);
        if self.0.len() > WINDOW {
            self.0.pop_first();
        }
    }

    /// Takes everything from a height on off; returns how many blocks that were.
    pub(crate) fn truncate(&mut self, first: u64) -> usize {
        self.0.split_off(&first).len()
    }

    /// Blocks from the top down.
    pub(crate) fn descending(&self) -> impl Iterator<Item = BlockRef> {
        self.0.iter().rev().map(|(number, hash)| BlockRef::new(*number, *hash))
    }
}

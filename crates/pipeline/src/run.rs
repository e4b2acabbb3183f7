use alloy_primitives::{B256, Bytes};
use prestate_diff::RunDiffs;
use prestate_host::{BundleSlice, CommittedBlock, Host, summary};
use prestate_store::EncodedBlock;
use prestate_types::{BlockDiff, BlockRef, BlockSummary};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Blocks in one durable batch.
const BATCH_BLOCKS: usize = 64;

/// A run of blocks that was committed together, and what it changed.
///
/// A node that syncs in stages commits hundreds of thousands of blocks at once. It then answers
/// questions about states in between wrongly or not at all (reth #22162, #21571), so the run's
/// bundle is all that is asked about them.
#[derive(Debug)]
pub(crate) struct Run {
    blocks: Vec<BlockSummary>,
    /// Its first block's part; the bundle is the same for all.
    changes: BundleSlice,
}

/// Blocks of a run for the archive, highest first, and who waits for them to be durable.
#[derive(Debug)]
pub(crate) struct Diffs {
    pub(crate) run: Arc<Run>,
    pub(crate) blocks: Vec<EncodedBlock>,
    pub(crate) reply: oneshot::Sender<Result<(), String>>,
}

impl Run {
    /// `None` unless one bundle is of all these blocks, and stands on each other in order.
    pub(crate) fn of(new: &[CommittedBlock]) -> Option<Self> {
        let changes = new.first()?.bundle.clone()?;
        let fits = new.iter().enumerate().all(|(at, block)| {
            let slice = block.bundle.as_ref();
            slice.is_some_and(|slice| {
                slice.index == at && Arc::ptr_eq(&slice.bundle, &changes.bundle)
            })
        });
        let blocks: Vec<_> = new.iter().map(|block| summary(&block.block)).collect();
        let linked = blocks.windows(2).all(|pair| {
            let [below, above] = pair else { return false };
            above.parent_hash == below.block.hash && above.block.number == below.block.number + 1
        });
        (fits && linked && changes.bundle.reverts.len() == blocks.len())
            .then_some(Self { blocks, changes })
    }

    /// The newest block.
    pub(crate) fn tip(&self) -> BlockRef {
        self.blocks.last().map(|block| block.block).unwrap_or_default()
    }

    /// Where the part of it begins that is above all blocks known; `None` if that is nothing.
    pub(crate) fn first_unknown(&self, known: impl Fn(&BlockRef) -> bool) -> Option<usize> {
        let first = self.blocks.iter().rposition(|block| known(&block.block));
        Some(first.map_or(0, |known| known + 1)).filter(|first| *first < self.blocks.len())
    }

    /// The parent of one of its blocks.
    pub(crate) fn below(&self, index: usize) -> BlockRef {
        let block = &self.blocks[index];
        BlockRef::new(block.block.number.saturating_sub(1), block.parent_hash)
    }

    /// Blocks from an index on.
    pub(crate) fn len_from(&self, first: usize) -> u64 {
        (self.blocks.len() - first) as u64
    }

    /// The newest blocks from an index on, ascending.
    pub(crate) fn newest(&self, most: usize, first: usize) -> impl Iterator<Item = BlockRef> + '_ {
        let first = first.max(self.blocks.len().saturating_sub(most));
        self.blocks[first..].iter().map(|block| block.block)
    }

    /// What its blocks changed, from the top down to an index.
    pub(crate) fn diffs(&self, first: usize) -> Batches<'_> {
        let mut left = self.blocks[first..].iter();
        let diffs = RunDiffs::new(&self.changes.bundle)
            .map_while(move |diff| Some((*left.next_back()?, diff)));
        Batches(Box::new(diffs.filter_map(|(summary, diff)| {
            // A block that the bundle does not tell in full stays a gap, for a back-fill.
            EncodedBlock::of_block_diff(&BlockDiff { summary, diff: diff? }).ok()
        })))
    }

    /// A code that one of its blocks speaks of.
    pub(crate) fn code(&self, host: &dyn Host, block: &BlockSummary, hash: B256) -> Option<Bytes> {
        if let Some(code) = self.changes.bundle.contracts.get(&hash) {
            return Some(code.original_bytes());
        }
        let states = [self.below(0).hash, block.block.hash];
        let code = states.into_iter().find_map(|at| host.state_after(at).ok()?.code(hash).ok())?;
        Some(code.original_bytes())
    }
}

/// See [`Run::diffs`].
pub(crate) struct Batches<'a>(Box<dyn Iterator<Item = EncodedBlock> + Send + 'a>);

impl Batches<'_> {
    /// The next blocks; none at the end.
    pub(crate) fn batch(&mut self) -> Vec<EncodedBlock> {
        self.0.by_ref().take(BATCH_BLOCKS).collect()
    }
}

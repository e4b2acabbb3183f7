use crate::{SlotChange, SlotKey, Source};
use alloy_primitives::B256;
use prestate_types::BlockRef;

/// Known blocks that left the canonical chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorg {
    /// The newest block known before that is still canonical; `None` if there is none among those
    /// kept, and every slot was read anew.
    pub common_ancestor: Option<BlockRef>,
    /// Blocks known before that are not canonical any more, newest first. Blocks that were jumped
    /// over are not among them.
    pub dropped: Vec<BlockRef>,
}

/// What one block did to the watched slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockUpdate {
    /// The block.
    pub block: BlockRef,
    /// Slots that it touched, with the value after it. Those that a trace could not tell are only
    /// in [`Update::changes`].
    pub slots: Vec<(SlotKey, B256)>,
}

/// What a resync found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Where the last update ended; `None` for the first.
    pub from: Option<BlockRef>,
    /// Where the values are now.
    pub head: BlockRef,
    /// If `from` left the chain.
    pub reorg: Option<Reorg>,
    /// Every watched slot whose value differs from the one reported before.
    pub changes: Vec<SlotChange>,
    /// Block by block, for those that were traced.
    pub blocks: Vec<BlockUpdate>,
    /// Sources that worked, in order; none if nothing had to be asked.
    pub sources: Vec<Source>,
    /// What it cost.
    pub compute_units: u64,
}

use crate::RecoveredBlock;
use prestate_types::BlockRef;
use revm::database::BundleState;
use std::sync::Arc;

/// One block's part of the state changes of a run of blocks that was committed together.
#[derive(Debug, Clone)]
pub struct BundleSlice {
    /// The changes of the whole run. Its reverts hold one entry a block.
    pub bundle: Arc<BundleState>,
    /// Which of the blocks this is, from zero.
    pub index: usize,
}

/// A block that became canonical.
#[derive(Debug, Clone)]
pub struct CommittedBlock {
    /// The block.
    pub block: Arc<RecoveredBlock>,
    /// What it changed, where the host has it; without it the block is executed again.
    pub bundle: Option<BundleSlice>,
}

impl CommittedBlock {
    /// Number and hash.
    pub fn block_ref(&self) -> BlockRef {
        BlockRef::new(self.block.number, self.block.hash())
    }
}

/// What a host tells about its canonical chain. Blocks ascend; `old` ascends too.
#[derive(Debug, Clone)]
pub enum Notification {
    /// Blocks were added on top.
    Committed(Vec<CommittedBlock>),
    /// Blocks were replaced. `new` may be empty or shorter than `old`.
    Reorged {
        /// No longer canonical.
        old: Vec<BlockRef>,
        /// Canonical instead.
        new: Vec<CommittedBlock>,
    },
    /// Blocks were taken back.
    Reverted {
        /// No longer canonical.
        old: Vec<BlockRef>,
    },
}

impl Notification {
    /// What became canonical.
    pub fn committed(&self) -> &[CommittedBlock] {
        match self {
            Self::Committed(new) | Self::Reorged { new, .. } => new,
            Self::Reverted { .. } => &[],
        }
    }

    /// What ceased to be canonical.
    pub fn reverted(&self) -> &[BlockRef] {
        match self {
            Self::Committed(_) => &[],
            Self::Reorged { old, .. } | Self::Reverted { old } => old,
        }
    }
}

/// The receiving end of a host's notifications.
pub type Notifications = tokio::sync::mpsc::Receiver<Notification>;

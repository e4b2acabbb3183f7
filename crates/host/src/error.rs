use alloy_primitives::{Address, B256};
use prestate_types::BlockRef;

/// Why a read of state failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The host knows no block of this hash.
    #[error("block {0} is not known")]
    UnknownBlock(B256),
    /// The block is known; its state is no longer there.
    #[error("state of block {requested} is pruned, the earliest kept is that of block {earliest}")]
    Pruned {
        /// Number asked for.
        requested: u64,
        /// Lowest number whose state is there.
        earliest: u64,
    },
    /// The block is known; the host never had its state (block files hold their parent's only).
    #[error("state after block {0} is not in the data")]
    NotHeld(BlockRef),
    /// Block files: a read of a slot that the file does not hold. Never taken for zero.
    #[error("the data holds no slot {slot} of account {address}")]
    MissingSlot {
        /// Whose slot.
        address: Address,
        /// Which.
        slot: B256,
    },
    /// A code that the account's code hash names is not there.
    #[error("the data holds no code of hash {0}")]
    MissingCode(B256),
    /// The hash of an ancestor, as BLOCKHASH asks for it, is not there.
    #[error("the data holds no hash of block {0}")]
    MissingBlockHash(u64),
    /// The host's own storage failed. The text is for the log.
    #[error("reading state failed: {0}")]
    Backend(String),
}

/// Why a question about blocks failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The block existed; its body is no longer there.
    #[error("block {requested} is pruned, the earliest kept is {earliest}")]
    Pruned {
        /// Number asked for.
        requested: u64,
        /// Lowest number kept.
        earliest: u64,
    },
    /// The host's own storage failed. The text is for the log.
    #[error("reading blocks failed: {0}")]
    Backend(String),
}

use alloy_primitives::B256;
use prestate_host::StateError;
use prestate_types::{BlockRef, Mismatch};

/// Why a block could not be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Reading state failed before the first or after the last transaction.
    #[error("block {block}: {source}")]
    State {
        /// The block replayed.
        block: BlockRef,
        /// The read that failed.
        source: StateError,
    },
    /// Reading state failed inside a transaction.
    #[error("block {block}, transaction {index} ({hash}): {source}")]
    TxState {
        /// The block replayed.
        block: BlockRef,
        /// Index of the transaction.
        index: u64,
        /// Its hash.
        hash: B256,
        /// The read that failed.
        source: StateError,
    },
    /// The rules of the chain refuse a transaction: the state read is not the one the block was
    /// built on, or the chain's rules are not the ones given.
    #[error("block {block}, transaction {index} ({hash}) is not valid: {reason}")]
    InvalidTx {
        /// The block replayed.
        block: BlockRef,
        /// Index of the transaction.
        index: u64,
        /// Its hash.
        hash: B256,
        /// The EVM's reason.
        reason: String,
    },
    /// System calls, requests, withdrawals or rewards failed.
    #[error("block {block}: {reason}")]
    System {
        /// The block replayed.
        block: BlockRef,
        /// The executor's reason.
        reason: String,
    },
    /// The deadline passed; the EVM was stopped.
    #[error("execution timeout")]
    Timeout {
        /// Index of the transaction that was running.
        index: u64,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The block has uncles whose headers the data lacks: their rewards cannot be computed, so
    /// what the block as a whole changed is not known. Its transactions' changes are.
    #[error("block {0} has uncles whose headers are not in the data, so its rewards are not known")]
    MissingUncles(BlockRef),
}

/// The parts of a block do not add up to the whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("block {block}: transaction diffs do not add up to the block diff: {mismatch}")]
pub struct InvariantError {
    /// The block.
    pub block: BlockRef,
    /// The first difference: the parts so far on the left; the part that does not meet them, or the
    /// committed block, on the right.
    pub mismatch: Mismatch,
}

use super::{AccountsError, admission::Inadmissible, journal::JournalError, pool::PoolError};
use crate::ImportError;
use alloy_primitives::Address;
use prestate_host::StateError;

/// Why a dev chain could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The accounts.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The file.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The chain in the folder is another one.
    #[error(
        "the chain in {folder} has {what} {stored}, not {asked}: start it with that, or in another folder"
    )]
    OtherChain {
        /// The folder.
        folder: String,
        /// `chain id` or `hardfork`.
        what: &'static str,
        /// As on disk.
        stored: String,
        /// As asked.
        asked: String,
    },
    /// A block on disk does not execute as it did.
    #[error("the chain on disk: {0}")]
    Replay(#[from] ImportError),
}

/// Why something was not done to a dev chain. The chain is as it was before, except where said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// The transaction is no candidate for any block; Geth's words.
    #[error("{0}")]
    Refused(String),
    /// The block could not be executed.
    #[error("building a block failed: {0}")]
    Build(String),
    /// A number is beyond its limit.
    #[error("{what} is {given}, at most {limit}")]
    Limit {
        /// Which number.
        what: &'static str,
        /// The most.
        limit: u64,
        /// What was given.
        given: u64,
    },
    /// A reorg needs at least one block and cannot drop the genesis block.
    #[error("depth is {given}; the chain has {blocks} blocks after its genesis")]
    Depth {
        /// Blocks that can be dropped.
        blocks: u64,
        /// What was given.
        given: u64,
    },
    /// Slots of an account that is empty afterwards would be gone with it (EIP-161).
    #[error("account {0} is empty: slots need an account with a balance, a nonce or code")]
    EmptyAccount(Address),
    /// No key for this account.
    #[error("unknown account")]
    UnknownAccount,
    /// State could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The block was not taken.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The block could not be kept: nothing of it is visible, and the disk is as it was.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<Inadmissible> for DevError {
    fn from(error: Inadmissible) -> Self {
        Self::Refused(error.0)
    }
}

impl From<PoolError> for DevError {
    fn from(error: PoolError) -> Self {
        Self::Refused(error.to_string())
    }
}

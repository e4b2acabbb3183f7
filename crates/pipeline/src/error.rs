use alloy_primitives::B256;
use prestate_diff::{InvariantError, ReplayError};
use prestate_host::{HeaderMismatch, HostError, StateError};
use prestate_store::{ReadError, RecordError};
use prestate_types::BlockRef;
use std::io;

/// Why a pipeline did not start. Nothing runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Somebody else listens to the host already.
    #[error("the host's notifications are taken by another listener")]
    ListenerTaken,
    /// The archive's chain could not be read.
    #[error("reading the archive's chain: {0}")]
    Archive(#[from] ReadError),
    /// A thread could not be started.
    #[error("starting thread {name}: {source}")]
    Thread {
        /// Name of the thread.
        name: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why the diffs of a block's transactions are not there. The block is tried again with growing
/// pauses unless said otherwise.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFailure {
    /// The host does not know the block (any more).
    #[error("the host does not hold block {0}")]
    UnknownBlock(BlockRef),
    /// The host could not look for the block.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The state of its parent could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// It could not be executed again.
    #[error(transparent)]
    Replay(Box<ReplayError>),
    /// Executing it again gave something else than its header states.
    #[error(transparent)]
    Header(Box<HeaderMismatch>),
    /// Its transactions' diffs do not add up to what the node committed.
    #[error(transparent)]
    Invariant(Box<InvariantError>),
    /// It cannot be written down.
    #[error("block {block}: {source}")]
    Record {
        /// The block.
        block: BlockRef,
        /// What is wrong with it.
        source: RecordError,
    },
    /// Working on it panicked.
    #[error("block {block}: panic: {message}")]
    Panic {
        /// The block.
        block: BlockRef,
        /// The panic's message.
        message: String,
    },
    /// The archive holds the block's change as a whole only. Not tried again by whoever reads it.
    #[error("of block {0} only the change as a whole is kept")]
    NotKept(BlockRef),
    /// The pipeline stopped before the block was done.
    #[error("the pipeline stopped before block {0} was done")]
    Stopped(BlockRef),
}

/// Why a subscription was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// Neither memory nor archive knows the block to start from: the subscriber has to start anew
    /// from a state it reads.
    #[error("block {0} is not known here")]
    UnknownBlock(B256),
    /// There is no chain yet to start from.
    #[error("no block was seen yet")]
    NoHead,
    /// The archive could not be read.
    #[error(transparent)]
    Archive(#[from] ReadError),
}

/// Why a back-fill was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackfillError {
    /// There is no archive to fill.
    #[error("there is no archive to fill")]
    NoArchive,
    /// The range ends below where it starts.
    #[error("blocks {from}..={to} are none")]
    EmptyRange {
        /// First height asked for.
        from: u64,
        /// Last height asked for.
        to: u64,
    },
    /// Another back-fill runs.
    #[error("a back-fill of blocks {from}..={to} is running")]
    Running {
        /// Its first height.
        from: u64,
        /// Its last height.
        to: u64,
    },
    /// A thread could not be started.
    #[error("starting the back-fill: {0}")]
    Thread(io::Error),
}

macro_rules! boxed {
    ($($variant:ident of $error:ty;)*) => {$(
        impl From<$error> for BlockFailure {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )*};
}

// They hold values of both sides, and are moved about far more often than looked at.
boxed! {
    Replay of ReplayError;
    Header of HeaderMismatch;
    Invariant of InvariantError;
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("of unknown kind").to_owned()
}

use super::ChainId;
use crate::RecordError;
use alloy_primitives::B256;
use prestate_types::BlockRef;
use std::{fmt, io, path::PathBuf};
use thiserror::Error;

/// The engine under the archive failed.
#[derive(Debug, Error)]
#[error("{operation} {}: {cause}", path.display())]
pub struct EngineError {
    /// What was being done.
    pub operation: &'static str,
    /// File it was done to.
    pub path: PathBuf,
    /// Why it failed.
    pub cause: EngineCause,
}

/// Why the engine failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineCause {
    /// The file system said no: disk full, no permission, device gone.
    #[error(transparent)]
    Io(io::Error),
    /// The engine's own structures do not hold together.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// The archive is closed after a failed write, and could not be opened again yet. Every read
    /// and write tries anew.
    #[error("not open after an earlier failure: {0}")]
    Closed(String),
    /// Anything else the engine reports.
    #[error(transparent)]
    Other(Box<redb::Error>),
}

impl EngineError {
    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(&self.cause, EngineCause::Io(error)
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

impl From<redb::Error> for EngineCause {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) => Self::Io(error),
            redb::Error::Corrupted(what) => Self::Damaged(what),
            redb::Error::PreviousIo => Self::Closed("an earlier write failed".into()),
            redb::Error::DatabaseClosed => Self::Closed("it was closed".into()),
            other => Self::Other(Box::new(other)),
        }
    }
}

/// Which record of the archive is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordId {
    /// Facts of a block.
    Block(BlockRef),
    /// A contract's code.
    Code(B256),
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => write!(f, "block {block}"),
            Self::Code(hash) => write!(f, "code {hash}"),
        }
    }
}

/// Why an archive could not be opened or made. Nothing on disk was changed, except that
/// [`OpenError::Io`] and [`OpenError::Engine`] while making one may leave its unfinished files,
/// which the next attempt replaces.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing at the path.
    #[error("no archive at {}", path.display())]
    NotFound {
        /// The folder asked for.
        path: PathBuf,
    },
    /// Something else is at the path.
    #[error("{} is no archive: {reason}", path.display())]
    NotAnArchive {
        /// The folder asked for.
        path: PathBuf,
        /// What gives it away.
        reason: &'static str,
    },
    /// There is an archive where one was to be made.
    #[error("there is an archive at {} already", path.display())]
    Exists {
        /// The folder asked for.
        path: PathBuf,
    },
    /// Written by a newer version of the program.
    #[error(
        "archive {} has format version {found}; this program reads up to {supported}",
        path.display()
    )]
    NewerVersion {
        /// The folder asked for.
        path: PathBuf,
        /// Version of the archive.
        found: u16,
        /// Newest version known here.
        supported: u16,
    },
    /// The archive belongs to another chain.
    #[error("archive {} is of {found}, not of {expected}", path.display())]
    OtherChain {
        /// The folder asked for.
        path: PathBuf,
        /// The archive's chain.
        found: ChainId,
        /// The caller's chain.
        expected: ChainId,
    },
    /// Another process writes to it.
    #[error("archive {} is in use by another process", path.display())]
    Locked {
        /// The file that is locked.
        path: PathBuf,
    },
    /// The last writer did not close the archive, and a reader may not repair it. Opening it for
    /// writing once does.
    #[error("archive {} was not closed by its last writer and has to be opened for writing once", path.display())]
    NeedsWriter {
        /// The file that needs it.
        path: PathBuf,
    },
    /// A file of the archive is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system said no.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// File or folder it was done to.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The engine failed otherwise.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why something could not be read. Reading changes nothing; trying again helps only where the
/// cause went away.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A record is torn or corrupt. It is never served; other records are not affected.
    #[error("{record} in {}: {source}", path.display())]
    Record {
        /// File it is in.
        path: PathBuf,
        /// Which.
        record: RecordId,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why a change was not made. Unless said otherwise the batch is as it was before the call.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Too little space is left on the disk. Nothing was written; reading goes on, and writing
    /// resumes by itself once there is space.
    #[error(
        "{available_bytes} bytes are free at {}, {reserve_bytes} are kept in reserve; \
         writing stopped until there is space",
        path.display()
    )]
    LowSpace {
        /// The archive's folder.
        path: PathBuf,
        /// Free bytes.
        available_bytes: u64,
        /// Bytes that stay free.
        reserve_bytes: u64,
    },
    /// A block does not continue the canonical chain at its height.
    #[error("block {block} has parent {parent}, but {canonical} is canonical below it")]
    ParentMismatch {
        /// The block.
        block: BlockRef,
        /// Its parent.
        parent: B256,
        /// The canonical block one below.
        canonical: B256,
    },
    /// A block is not the parent of the canonical block above it.
    #[error("block {block} is below {above}, whose parent is {parent}")]
    ChildMismatch {
        /// The block.
        block: BlockRef,
        /// The canonical block one above.
        above: BlockRef,
        /// The parent of that.
        parent: B256,
    },
    /// Another block is canonical at this height; it has to be reverted first.
    #[error("block {block} cannot be canonical: {canonical} is")]
    Occupied {
        /// The block.
        block: BlockRef,
        /// The canonical block of the same height.
        canonical: B256,
    },
    /// The archive does not hold the block.
    #[error("block {hash} is not in the archive")]
    UnknownBlock {
        /// Its hash.
        hash: B256,
    },
    /// The block to revert to is not canonical.
    #[error("block {block} is not canonical")]
    NotCanonical {
        /// The block.
        block: BlockRef,
    },
    /// A block speaks of a code that neither came with it nor is in the archive.
    #[error("block {block} refers to code {code}, which is not known")]
    MissingCode {
        /// The block.
        block: BlockRef,
        /// Hash of the code.
        code: B256,
    },
    /// A record cannot be made or read.
    #[error("{record} in {}: {source}", path.display())]
    Record {
        /// File it is or would be in.
        path: PathBuf,
        /// Which.
        record: RecordId,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The engine failed. The batch is lost; what was committed before is untouched.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Record { path, record, source } => Self::Record { path, record, source },
            ReadError::Engine(error) => Self::Engine(error),
        }
    }
}

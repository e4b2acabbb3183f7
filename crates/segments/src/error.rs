use alloy_primitives::B256;
use prestate_store::{ChainId, ExportError, ImportError, ReadError, WriteError};
use std::{io, path::PathBuf};
use thiserror::Error;

/// Why a location cannot be used. Nothing was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The text names no place.
    #[error("{given}: {reason}")]
    Malformed {
        /// As given.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The folder cannot be made or entered.
    #[error("{operation} {}: {source}", path.display())]
    Folder {
        /// What was being done.
        operation: &'static str,
        /// The folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The bucket's settings do not do: region, endpoint, credentials.
    #[error("{given}: {source}")]
    Bucket {
        /// As given.
        given: String,
        /// What is wrong with them.
        source: object_store::Error,
    },
    /// The runtime that talks to the location could not be started.
    #[error("starting the runtime failed: {0}")]
    Runtime(io::Error),
}

/// Why an export or import ended. Doing it again goes on where it ended: segments that are there
/// are passed over.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SegmentsError {
    /// The folder or bucket said no.
    #[error("{operation} {object}: {source}")]
    Object {
        /// What was being done.
        operation: &'static str,
        /// What it was done to, the location included.
        object: String,
        /// Why it failed.
        source: object_store::Error,
    },
    /// The location holds no exported archive.
    #[error("no exported archive at {location}: it has no manifest.json")]
    NoManifest {
        /// The location.
        location: String,
    },
    /// The manifest makes no sense.
    #[error("{object} is damaged: {reason}")]
    Manifest {
        /// The manifest, the location included.
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Written by a newer version of the program.
    #[error("{object} has version {found}; this program reads up to {supported}")]
    NewerVersion {
        /// The manifest, the location included.
        object: String,
        /// Version of the manifest.
        found: u16,
        /// Newest version known here.
        supported: u16,
    },
    /// Segments and archive are of different chains.
    #[error("the segments at {location} are of {segments}, the archive of {archive}")]
    OtherChain {
        /// The location.
        location: String,
        /// Chain of the segments.
        segments: ChainId,
        /// Chain of the archive.
        archive: ChainId,
    },
    /// A segment that the manifest lists is not what it says. Nothing of it was taken in.
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// The segment, the location included.
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A segment's blocks below the archive's would be lost if it were replaced, and its chain is
    /// not the archive's any more. Nothing was changed; export to another place.
    #[error(
        "segment {digest} at {location} is of another branch and reaches below the archive's \
         block {lowest}; it is not replaced"
    )]
    WouldLose {
        /// The location.
        location: String,
        /// The segment.
        digest: B256,
        /// Lowest block at hand.
        lowest: u64,
    },
    /// The archive holds no canonical block of the stretch.
    #[error("no blocks from {first} to {last} in the archive")]
    Empty {
        /// Start asked for.
        first: u64,
        /// End asked for.
        last: u64,
    },
    /// A segment could not be made.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A segment could not be taken in. The ones before it are.
    #[error("{object}: {source}")]
    Import {
        /// The segment, the location included.
        object: String,
        /// Why.
        source: ImportError,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The archive could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

//! Kept results: memory cache and crash-safe archive.
//!
//! [`ReplyCache`] keeps finished replies in memory, bounded by the bytes they really take.
//!
//! [`Archive`] keeps the facts of blocks on disk: what changed, not how it is written down. Any
//! view is rendered from them. One [`ArchiveWriter`] writes, any number of [`ArchiveReader`]s
//! read. Every byte on disk is described in `FORMAT.md` at the root of the repository.
//!
//! Nothing here parses JSON, knows the EVM, a host or a socket.

mod archive;
mod cache;
mod codec;

pub use archive::{
    Access, Appended, Archive, ArchiveBatch, ArchiveOptions, ArchiveReader, ArchiveStats,
    ArchiveWriter, ChainId, CompactReport, DEFAULT_CACHE_BYTES, DEFAULT_RESERVE_BYTES, Descriptor,
    Disk, EngineCause, EngineError, ExportError, FORMAT_VERSION, ImportError, ImportReport,
    MIN_KEPT_BLOCKS, Medium, OpenError, Problem, PruneReport, ReadError, RecordId, Retention,
    SegmentInfo, SpaceGuard, SpaceState, SweepReport, TxPlace, VerifyReport, WriteError,
};
pub use cache::{CacheStats, Outcome, ReplyCache, ReplyKey};
pub use codec::{EncodedBlock, KeptBlock, RecordError, decode_block};

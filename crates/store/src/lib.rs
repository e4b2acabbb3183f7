//! Kept results: memory cache and crash-safe archive.
//!
//! [`ReplyCache`] keeps finished replies in memory, bounded by the bytes they really take, and has
//! one caller compute what many ask for at once.
//!
//! [`Archive`] keeps the facts of blocks on disk: what changed, not how it is written down. Any
//! view is rendered from them. One [`ArchiveWriter`] writes, any number of [`ArchiveReader`]s
//! read, also from other processes. Every byte on disk is described in `FORMAT.md` at the root of
//! the repository.
//!
//! Nothing here parses JSON, knows the EVM, a host or a socket.
//!
//! ```
//! use alloy_primitives::B256;
//! use prestate_store::{Archive, ArchiveOptions, ChainId};
//! use prestate_types::{BlockFacts, BlockRef, BlockSummary, Codes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("archive");
//! let chain = ChainId { chain_id: 1, genesis_hash: B256::ZERO };
//! let options = ArchiveOptions { reserve_bytes: 0, ..ArchiveOptions::default() };
//! let (mut writer, reader) = Archive::open_or_create(&path, chain, &options)?;
//!
//! let block = BlockRef::new(7, B256::repeat_byte(7));
//! let facts = BlockFacts {
//!     summary: BlockSummary { block, ..BlockSummary::default() },
//!     ..BlockFacts::default()
//! };
//! // Durable once this returns.
//! writer.append(&facts, &Codes::default(), true)?;
//! assert_eq!(reader.canonical_hash(7)?, Some(block.hash));
//! assert_eq!(reader.facts(&block.hash)?, Some(facts));
//!
//! // The chain took another way: the block loses its height and stays under its hash.
//! let mut batch = writer.batch()?;
//! assert_eq!(batch.revert_from(7)?, [block]);
//! batch.commit()?;
//! assert_eq!(reader.canonical_hash(7)?, None);
//! assert!(reader.facts(&block.hash)?.is_some());
//! # Ok(())
//! # }
//! ```

mod archive;
mod cache;
mod codec;
mod metrics;

pub use archive::{
    Access, Appended, Archive, ArchiveBatch, ArchiveOptions, ArchiveReader, ArchiveStats,
    ArchiveWriter, ChainId, CompactReport, DEFAULT_CACHE_BYTES, DEFAULT_RESERVE_BYTES, Descriptor,
    Disk, EngineCause, EngineError, ExportError, FORMAT_VERSION, ImportError, ImportReport,
    MIN_KEPT_BLOCKS, Medium, OpenError, Problem, PruneReport, ReadError, RecordId, Retention,
    RetentionError, SegmentHeader, SegmentInfo, SpaceGuard, SpaceState, SweepReport, TxPlace,
    VerifyReport, WriteError,
};
pub use cache::{CacheStats, Outcome, ReplyCache, ReplyKey};
pub use codec::{EncodedBlock, KeptBlock, RecordError, decode_block};
pub use metrics::METRICS;

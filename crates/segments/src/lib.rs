//! Sealed, content-addressed segments of an archive, in a folder or a bucket.
//!
//! What `prestate archive export` writes and `import` reads: objects `segments/DIGEST.segment`
//! that never change, and one `manifest.json` that lists them. Both are described in `FORMAT.md`
//! at the root of the repository.
//!
//! A [`Location`] is a local folder or an S3-compatible bucket, and owns the small runtime that
//! talks to it: everything here blocks the calling thread and must not be called from a task.
//!
//! Nothing here looks into a block.
//!
//! ```
//! use alloy_primitives::B256;
//! use prestate_segments::{ExportOptions, ImportOptions, Location, export, import};
//! use prestate_store::{Archive, ArchiveOptions, ChainId};
//! use prestate_types::{BlockFacts, BlockRef, BlockSummary, Codes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (from, to, between) =
//! #     (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
//! # let between = between.to_str().ok_or("UTF-8")?;
//! let chain = ChainId { chain_id: 1, genesis_hash: B256::ZERO };
//! let options = ArchiveOptions { reserve_bytes: 0, ..ArchiveOptions::default() };
//! let (mut writer, reader) = Archive::create(&from, chain, &options)?;
//! let block = BlockRef::new(7, B256::repeat_byte(7));
//! let summary = BlockSummary { block, ..BlockSummary::default() };
//! writer.append(&BlockFacts { summary, ..BlockFacts::default() }, &Codes::default(), true)?;
//!
//! let location = Location::create(between, None)?;
//! let report = export(&reader, &location, &ExportOptions::default(), |_, _| {})?;
//! assert_eq!((report.written, report.blocks), (1, 1));
//!
//! let (mut writer, copy) = Archive::create(&to, location.manifest()?.chain(), &options)?;
//! let report = import(&mut writer, &location, &ImportOptions::default(), |_, _| {})?;
//! assert_eq!((report.segments, report.stored), (1, 1));
//! assert_eq!(copy.facts(&block.hash)?, reader.facts(&block.hash)?);
//! # Ok(())
//! # }
//! ```

mod error;
mod export;
mod http;
mod import;
mod location;
mod manifest;
mod plan;

pub use error::{LocationError, SegmentsError};
pub use export::{DEFAULT_SEGMENT_BLOCKS, ExportOptions, ExportReport, export};
pub use import::{ImportOptions, ImportReport, import};
pub use location::Location;
pub use manifest::{MANIFEST_VERSION, Manifest, SegmentEntry};

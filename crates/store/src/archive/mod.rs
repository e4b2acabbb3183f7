//! Facts of blocks on disk.
//!
//! Nothing here parses JSON or knows a rendering: what a block changed is kept, and every view is
//! made from it.

mod descriptor;
mod error;
mod layout;
mod maintain;
mod prune;
mod reader;
mod segment;
mod segment_header;
mod space;
mod store;
mod verify;
mod writer;

pub use descriptor::Descriptor;
pub use error::{EngineCause, EngineError, OpenError, ReadError, RecordId, WriteError};
pub use layout::FORMAT_VERSION;
pub use maintain::{CompactReport, SweepReport};
pub use prune::{MIN_KEPT_BLOCKS, PruneReport, Retention, RetentionError};
pub use reader::{ArchiveReader, TxPlace};
pub use segment::{ExportError, ImportError, ImportReport, SegmentInfo};
pub use segment_header::SegmentHeader;
pub use space::{Access, Disk, Medium, SpaceGuard, SpaceState};
pub use verify::{Problem, VerifyReport};
pub use writer::{Appended, ArchiveBatch, ArchiveWriter};

use crate::metrics;
use alloy_primitives::{B256, map::B256Set};
use descriptor::Found;
use layout::{BLOCKS, CANONICAL, CODES, FACTS, META, TRANSACTIONS};
use prestate_types::BlockRef;
use std::{fmt, path::Path, sync::Arc};
use store::{EngineResult, Store};

/// A chain: two with one id and different genesis blocks are different chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainId {
    /// As of EIP-155.
    pub chain_id: u64,
    /// Hash of block zero.
    pub genesis_hash: B256,
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chain {} with genesis {}", self.chain_id, self.genesis_hash)
    }
}

/// How an archive is opened.
#[derive(Debug, Clone)]
pub struct ArchiveOptions {
    /// Memory the engine may use to keep pages, in bytes.
    pub cache_bytes: usize,
    /// Free space below which nothing is written, in bytes.
    pub reserve_bytes: u64,
    /// Where the bytes lie.
    pub medium: Arc<dyn Medium>,
}

/// 64 MiB: the upper levels of the tables of a million blocks, and the pages of a batch.
pub const DEFAULT_CACHE_BYTES: usize = 64 << 20;
/// 1 GiB: room for the node beside us to notice, and for some thousand blocks meanwhile.
pub const DEFAULT_RESERVE_BYTES: u64 = 1 << 30;

impl Default for ArchiveOptions {
    fn default() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BYTES,
            reserve_bytes: DEFAULT_RESERVE_BYTES,
            medium: Arc::new(Disk),
        }
    }
}

/// Counts and sizes of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveStats {
    /// Chain whose blocks it holds.
    pub chain: ChainId,
    /// Version of the layout.
    pub format_version: u16,
    /// Blocks held, canonical or not.
    pub blocks: u64,
    /// Canonical blocks held.
    pub canonical_blocks: u64,
    /// Lowest and highest canonical block.
    pub range: Option<(BlockRef, BlockRef)>,
    /// Bytes of the records of all blocks.
    pub facts_bytes: u64,
    /// Contract codes held.
    pub codes: u64,
    /// Bytes of their records.
    pub code_bytes: u64,
    /// Transactions of all blocks held.
    pub transactions: u64,
    /// Space the store's file takes on the disk, pages free for new blocks included. The file's
    /// length may be twice that: it grows ahead, with holes.
    pub disk_bytes: u64,
    /// Space on the disk.
    pub space: SpaceState,
}

impl ArchiveStats {
    fn record(&self) {
        metrics::set(metrics::ARCHIVE_BLOCKS, self.blocks);
        metrics::set(metrics::ARCHIVE_FACTS_BYTES, self.facts_bytes);
        metrics::set(metrics::ARCHIVE_CODES, self.codes);
        metrics::set(metrics::ARCHIVE_CODE_BYTES, self.code_bytes);
        metrics::set(metrics::ARCHIVE_DISK_BYTES, self.disk_bytes);
        if let Some((first, last)) = self.range {
            metrics::set(metrics::ARCHIVE_FIRST, first.number);
            metrics::set(metrics::ARCHIVE_LAST, last.number);
        }
    }
}

/// Opens and makes archives.
///
/// # Copies
///
/// To read on one machine from several processes, open the one folder read-only in each. To read
/// on other machines, either carry segments over ([`ArchiveReader::export`],
/// [`ArchiveWriter::import`]), or copy the folder: with the writer stopped, or from a snapshot of
/// the file system. A copy taken file by file while the writer works is of no use. A copy of an
/// archive whose writer was not stopped is opened for writing once, see
/// [`OpenError::NeedsWriter`]; from then on it is an archive of its own. Network file systems
/// without byte-range locks cannot be shared between processes.
#[derive(Debug, Clone, Copy)]
pub struct Archive;

impl Archive {
    /// What the folder at `path` says of itself, without opening or touching anything else.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotFound`] and [`OpenError::NotAnArchive`]; [`OpenError::NewerVersion`],
    /// [`OpenError::Damaged`] and [`OpenError::Io`] for the descriptor.
    pub fn describe(path: impl AsRef<Path>) -> Result<Descriptor, OpenError> {
        let path = path.as_ref();
        match Descriptor::find(path)? {
            Found::Archive(descriptor) => Ok(descriptor),
            Found::Vacant | Found::Nothing => Err(OpenError::NotFound { path: path.to_owned() }),
        }
    }

    /// Makes an archive in an empty folder, which is made as well if need be.
    ///
    /// # Errors
    ///
    /// [`OpenError::Exists`] where there is one; else as [`Self::open`].
    pub fn create(
        path: impl AsRef<Path>,
        chain: ChainId,
        options: &ArchiveOptions,
    ) -> Result<(ArchiveWriter, ArchiveReader), OpenError> {
        let path = path.as_ref();
        if let Found::Archive(_) = Descriptor::find(path)? {
            return Err(OpenError::Exists { path: path.to_owned() });
        }
        Descriptor { format_version: FORMAT_VERSION, chain }.prepare(path)?;
        let store = Store::open(path, options.medium.clone(), options.cache_bytes, Access::Create)?;
        let make_tables = || {
            let failed = "make tables in";
            let transaction = store.begin_write()?;
            transaction.open_table(FACTS).at(store.during(failed))?;
            transaction.open_table(CODES).at(store.during(failed))?;
            transaction.open_table(BLOCKS).at(store.during(failed))?;
            transaction.open_table(CANONICAL).at(store.during(failed))?;
            transaction.open_table(TRANSACTIONS).at(store.during(failed))?;
            transaction.open_table(META).at(store.during(failed))?;
            transaction.commit().at(store.during(failed))
        };
        make_tables()?;
        Descriptor::finish(path)?;
        Ok(handles(store, chain, options))
    }

    /// Opens an archive for writing, as the only process that writes to it.
    ///
    /// Batches that were committed are all there, whatever ended the last writer.
    ///
    /// # Errors
    ///
    /// Nothing on disk is changed: [`OpenError::NotFound`], [`OpenError::NotAnArchive`],
    /// [`OpenError::NewerVersion`], [`OpenError::OtherChain`], [`OpenError::Locked`],
    /// [`OpenError::Damaged`], [`OpenError::Io`] for missing permissions and the like,
    /// [`OpenError::Engine`].
    pub fn open(
        path: impl AsRef<Path>,
        chain: ChainId,
        options: &ArchiveOptions,
    ) -> Result<(ArchiveWriter, ArchiveReader), OpenError> {
        let path = path.as_ref();
        expect_chain(path, chain)?;
        let store = Store::open(path, options.medium.clone(), options.cache_bytes, Access::Write)?;
        Ok(handles(store, chain, options))
    }

    /// Opens an archive for writing, or makes it where there is none.
    ///
    /// # Errors
    ///
    /// As [`Self::open`] and [`Self::create`].
    pub fn open_or_create(
        path: impl AsRef<Path>,
        chain: ChainId,
        options: &ArchiveOptions,
    ) -> Result<(ArchiveWriter, ArchiveReader), OpenError> {
        let path = path.as_ref();
        match Descriptor::find(path)? {
            Found::Archive(_) => Self::open(path, chain, options),
            Found::Vacant | Found::Nothing => Self::create(path, chain, options),
        }
    }

    /// Opens an archive for reading only. Any number of processes may, also while another one
    /// writes; each read sees the writer's last commit.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and [`OpenError::NeedsWriter`] where the last writer was killed and none
    /// has opened the archive since.
    pub fn open_read_only(
        path: impl AsRef<Path>,
        options: &ArchiveOptions,
    ) -> Result<ArchiveReader, OpenError> {
        let path = path.as_ref();
        let descriptor = Self::describe(path)?;
        let store = Store::open(path, options.medium.clone(), options.cache_bytes, Access::Read)?;
        Ok(handles(store, descriptor.chain, options).1)
    }
}

/// Space a file takes on the disk.
fn disk_bytes(file: &Path) -> u64 {
    #[cfg(unix)]
    let of = |metadata: std::fs::Metadata| {
        // In blocks of 512 bytes whatever the file system's own (stat(2)).
        std::os::unix::fs::MetadataExt::blocks(&metadata) * 512
    };
    #[cfg(not(unix))]
    let of = |metadata: std::fs::Metadata| metadata.len();
    std::fs::metadata(file).map_or(0, of)
}

fn expect_chain(path: &Path, expected: ChainId) -> Result<(), OpenError> {
    let found = Archive::describe(path)?.chain;
    if found == expected {
        Ok(())
    } else {
        Err(OpenError::OtherChain { path: path.to_owned(), found, expected })
    }
}

fn handles(
    store: Store,
    chain: ChainId,
    options: &ArchiveOptions,
) -> (ArchiveWriter, ArchiveReader) {
    let folder = store.folder.clone();
    let space = SpaceGuard::new(options.medium.clone(), folder, options.reserve_bytes);
    let reader = ArchiveReader { store: Arc::new(store), space: Arc::new(space), chain };
    (ArchiveWriter { reader: reader.clone(), held_codes: B256Set::default() }, reader)
}

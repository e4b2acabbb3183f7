//! A stretch of canonical blocks in one stream, with all codes it needs: what goes to a folder, a
//! bucket or another archive. Mirrors `FORMAT.md`, "Segment".

use super::{
    Appended, ArchiveBatch, ArchiveReader, ArchiveWriter, ChainId, ReadError, RecordId,
    SegmentHeader, WriteError,
};
use crate::{
    RecordError,
    codec::{self, EncodedBlock, KeptBlock},
};
use alloy_primitives::{B256, Keccak256, keccak256, map::B256Set};
use prestate_types::{BlockRef, Codes};
use std::{
    io::{self, Read, Write},
    ops::RangeInclusive,
};
use thiserror::Error;

const ENTRY_END: u8 = 0;
const ENTRY_CODE: u8 = 1;
const ENTRY_BLOCK: u8 = 2;
/// Hash and length before a record.
const ENTRY_HASH_LEN: usize = 32;

/// Largest record read from a segment: three full sections and a header.
const MAX_RECORD_BYTES: u32 = 200 << 20;
/// Blocks imported in one batch.
const BATCH_BLOCKS: usize = 256;
/// Bytes after which a batch is committed early.
const BATCH_BYTES: usize = 16 << 20;

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its lowest block.
    pub first: BlockRef,
    /// Its highest block.
    pub last: BlockRef,
    /// Number of blocks.
    pub blocks: u64,
    /// Of those, with all facts: the others hold the change of the block as a whole only.
    pub facts: u64,
    /// Number of codes.
    pub codes: u64,
    /// Length of the stream.
    pub bytes: u64,
    /// Keccak-256 of the stream up to this hash, which is its last 32 bytes: equal segments have
    /// equal names.
    pub digest: B256,
}

/// Why a segment could not be made. What was written so far has no end and is refused by an
/// import.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A height of the stretch is not held.
    #[error("block {number} is not in the archive")]
    Gap {
        /// The height.
        number: u64,
    },
    /// The stretch is empty.
    #[error("no blocks from {first} to {last}")]
    Empty {
        /// Start asked for.
        first: u64,
        /// End asked for.
        last: u64,
    },
    /// A block speaks of a code that is not held.
    #[error("code {code} of block {block} is not in the archive")]
    MissingCode {
        /// The block.
        block: BlockRef,
        /// Hash of the code.
        code: B256,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stream could not be written.
    #[error("write segment: {0}")]
    Io(#[from] io::Error),
}

/// Why a segment could not be taken in. Blocks imported before stay: each is whole and fits its
/// neighbours. Importing again goes on where it ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The stream is something else.
    #[error("no segment: its first bytes are of something else")]
    NotASegment,
    /// Written by a newer version of the program.
    #[error("segment has version {found}; this program reads up to {supported}")]
    NewerVersion {
        /// Version of the segment.
        found: u16,
        /// Newest version known here.
        supported: u16,
    },
    /// The segment belongs to another chain than the archive.
    #[error("segment is of {found}, the archive of {expected}")]
    OtherChain {
        /// The segment's chain.
        found: ChainId,
        /// The archive's chain.
        expected: ChainId,
    },
    /// A record is torn or corrupt.
    #[error("{record}: {source}")]
    Record {
        /// Which.
        record: RecordId,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The stream makes no sense.
    #[error("malformed segment: {what}")]
    Malformed {
        /// The part that makes no sense.
        what: &'static str,
    },
    /// The stream is not what was exported.
    #[error("segment's digest is {computed}, {stored} was written")]
    Digest {
        /// As written.
        stored: B256,
        /// Of the bytes as they are.
        computed: B256,
    },
    /// The archive did not take a block.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The stream could not be read, or ends early.
    #[error("read segment: {0}")]
    Io(#[from] io::Error),
}

/// What was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Blocks in the segment.
    pub blocks: u64,
    /// Of those, new to the archive.
    pub stored: u64,
    /// Codes in the segment.
    pub codes: u64,
    /// The segment's digest.
    pub digest: B256,
}

/// Counts and hashes what goes through.
struct Digested<T> {
    inner: T,
    hasher: Keccak256,
    bytes: u64,
}

impl<T> Digested<T> {
    fn new(inner: T) -> Self {
        Self { inner, hasher: Keccak256::new(), bytes: 0 }
    }
}

impl<T: Write> Digested<T> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn entry(&mut self, kind: u8, hash: &B256, record: &[u8]) -> io::Result<()> {
        self.put(&[kind])?;
        self.put(hash.as_slice())?;
        // A record has at most three sections of 64 MiB.
        self.put(&(record.len() as u32).to_le_bytes())?;
        self.put(record)
    }
}

impl<T: Read> Digested<T> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hasher.update(bytes);
        self.bytes += N as u64;
        Ok(bytes)
    }

    /// Grows with what is there, so that a made-up length allocates nothing.
    fn record(&mut self) -> Result<Vec<u8>, ImportError> {
        let length = u32::from_le_bytes(self.array()?);
        if length > MAX_RECORD_BYTES {
            return Err(ImportError::Malformed { what: "record over 200 MiB" });
        }
        let mut record = Vec::new();
        (&mut self.inner).take(u64::from(length)).read_to_end(&mut record)?;
        if record.len() != length as usize {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.hasher.update(&record);
        self.bytes += u64::from(length);
        Ok(record)
    }
}

impl ArchiveReader {
    /// Writes a stretch of the canonical chain, without a gap, to `out`. Equal stretches make
    /// equal bytes, in whatever archive they lie.
    ///
    /// # Errors
    ///
    /// As [`ExportError`] says; `out` then holds an unfinished segment.
    pub fn export(
        &self,
        numbers: RangeInclusive<u64>,
        out: impl Write,
    ) -> Result<SegmentInfo, ExportError> {
        let (first, last) = (*numbers.start(), *numbers.end());
        if numbers.is_empty() {
            return Err(ExportError::Empty { first, last });
        }
        let mut out = Digested::new(out);
        out.put(&SegmentHeader { chain: self.chain, first, last }.to_bytes())?;

        let mut seen = B256Set::default();
        let (mut blocks, mut facts, mut codes) = (0, 0, 0);
        let mut ends: Option<(BlockRef, BlockRef)> = None;
        for number in numbers {
            let gap = ExportError::Gap { number };
            let Some(hash) = self.canonical_hash(number)? else { return Err(gap) };
            let Some((block, record)) = self.record_of(&hash)? else { return Err(gap) };
            // A corrupt record must not leave the house.
            let kept = self.decode(&block, &record)?;
            let needed = codec::code_hashes(&record).map_err(|source| {
                super::reader::record_error(&self.store, RecordId::Block(block), source)
            })?;
            for code in needed {
                if seen.insert(code) {
                    let missing = ExportError::MissingCode { block, code };
                    let record = self.view(|view| view.code_record(&code))?.ok_or(missing)?;
                    codec::decode_code(&record).map_err(|source| {
                        super::reader::record_error(&self.store, RecordId::Code(code), source)
                    })?;
                    out.entry(ENTRY_CODE, &code, &record)?;
                    codes += 1;
                }
            }
            out.entry(ENTRY_BLOCK, &hash, &record)?;
            blocks += 1;
            facts += u64::from(matches!(kept, KeptBlock::Facts(_)));
            ends = Some((ends.map_or(block, |(first, _)| first), block));
        }
        let Some((first_block, last_block)) = ends else {
            return Err(ExportError::Empty { first, last });
        };
        out.put(&[ENTRY_END])?;
        let digest = out.hasher.finalize();
        out.inner.write_all(digest.as_slice())?;
        out.inner.flush()?;
        let bytes = out.bytes + digest.len() as u64;
        Ok(SegmentInfo {
            first: first_block,
            last: last_block,
            blocks,
            facts,
            codes,
            bytes,
            digest,
        })
    }
}

/// What waits for the next batch.
#[derive(Default)]
struct Pending {
    codes: Vec<(B256, Vec<u8>)>,
    blocks: Vec<EncodedBlock>,
    bytes: usize,
}

impl Pending {
    fn is_full(&self) -> bool {
        self.blocks.len() >= BATCH_BLOCKS || self.bytes >= BATCH_BYTES
    }

    fn write(&mut self, writer: &mut ArchiveWriter) -> Result<u64, WriteError> {
        let mut batch = writer.batch()?;
        let mut stored = 0;
        for (hash, record) in self.codes.drain(..) {
            batch.import_code(&hash, &record)?;
        }
        for block in self.blocks.drain(..) {
            let appended = ArchiveBatch::append(&mut batch, &block, &Codes::default(), true)?;
            stored += u64::from(appended != Appended::Known);
        }
        batch.commit()?;
        self.bytes = 0;
        Ok(stored)
    }
}

impl ArchiveWriter {
    /// Takes in a segment that [`ArchiveReader::export`] wrote. Its blocks become canonical, and
    /// must fit those that are. Blocks held already are passed over.
    ///
    /// # Errors
    ///
    /// As [`ImportError`] says, with what is in the archive then.
    pub fn import(&mut self, input: impl Read) -> Result<ImportReport, ImportError> {
        let mut input = Digested::new(input);
        let header: [u8; SegmentHeader::LEN] = input.array()?;
        let SegmentHeader { chain, first, last } = SegmentHeader::from_bytes(&header)?;
        let expected = self.reader.chain;
        if chain != expected {
            return Err(ImportError::OtherChain { found: chain, expected });
        }
        let mut next = Some(first);
        let mut report = ImportReport::default();
        let mut pending = Pending::default();
        loop {
            let [kind] = input.array()?;
            match kind {
                ENTRY_CODE => {
                    let hash = B256::from(input.array::<ENTRY_HASH_LEN>()?);
                    let record = input.record()?;
                    check_code(&hash, &record)?;
                    report.codes += 1;
                    pending.bytes += record.len();
                    pending.codes.push((hash, record));
                }
                ENTRY_BLOCK => {
                    let hash = B256::from(input.array::<ENTRY_HASH_LEN>()?);
                    let record = input.record()?;
                    pending.bytes += record.len();
                    let number = next
                        .filter(|number| *number <= last)
                        .ok_or(ImportError::Malformed { what: "more blocks than announced" })?;
                    let expected = BlockRef::new(number, hash);
                    let block = EncodedBlock::of_record(record).map_err(|source| {
                        ImportError::Record { record: RecordId::Block(expected), source }
                    })?;
                    if block.summary.block != expected {
                        return Err(ImportError::Malformed { what: "block out of order" });
                    }
                    report.blocks += 1;
                    next = number.checked_add(1);
                    pending.blocks.push(block);
                    if pending.is_full() {
                        report.stored += pending.write(self)?;
                    }
                }
                ENTRY_END => break,
                _ => return Err(ImportError::Malformed { what: "unknown entry" }),
            }
        }
        let computed = input.hasher.clone().finalize();
        let stored = B256::from(input.array::<32>()?);
        if computed != stored {
            return Err(ImportError::Digest { stored, computed });
        }
        if next != last.checked_add(1) {
            return Err(ImportError::Malformed { what: "fewer blocks than announced" });
        }
        report.digest = stored;
        report.stored += pending.write(self)?;
        Ok(report)
    }
}

fn check_code(hash: &B256, record: &[u8]) -> Result<(), ImportError> {
    let error = |source| ImportError::Record { record: RecordId::Code(*hash), source };
    let code = codec::decode_code(record).map_err(error)?;
    if keccak256(&code) == *hash {
        Ok(())
    } else {
        Err(error(RecordError::Malformed { what: "it is another code" }))
    }
}

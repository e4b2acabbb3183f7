//! What an archive of real blocks costs: bytes a block beside their JSON and its gzip, ingest, a
//! random block rendered.

mod render;
mod report;
mod sample;

pub use report::{ArchiveReport, Sizes};

use alloy_primitives::{B256, keccak256};
use prestate_diff::ReplayError;
use prestate_host::ChainSpec;
use prestate_host_embedded::BlockFile;
use prestate_store::{
    Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, ChainId, EncodedBlock, OpenError,
    ReadError, RecordError, WriteError,
};
use prestate_types::{BlockFacts, BlockRef, Codes};
use prestate_wire::{CodeTable, Encoding, MissingCode};
use render::{codes_of, render};
use sample::{Sample, moved, samples};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Blocks committed together while catching up.
const BATCH_BLOCKS: u64 = 512;
/// Blocks committed one by one.
const SINGLE_BLOCKS: u64 = 100;
/// Blocks read at random.
const RANDOM_BLOCKS: u64 = 300;

/// What to measure.
#[derive(Debug, Clone)]
pub struct ArchiveBenchOptions {
    /// Blocks to ingest: the given ones again and again, each time with other numbers, hashes and
    /// transaction hashes. Rounded up to whole batches.
    pub blocks: u64,
    /// Where the archive is made, on the disk to be measured. It must not be there.
    pub folder: PathBuf,
}

/// Why the workload could not run. The folder may hold an unfinished archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveBenchError {
    /// A block does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A code is not at hand.
    #[error(transparent)]
    Code(#[from] MissingCode),
    /// The archive could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The archive could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The archive could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A record could not be made.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A block that was written is not there.
    #[error("block {number} is missing")]
    Missing {
        /// Its number.
        number: u64,
    },
}

/// An archive being filled.
struct Filling<'a> {
    samples: &'a [Sample],
    writer: ArchiveWriter,
    number: u64,
    parent: B256,
}

impl Filling<'_> {
    fn next(&mut self) -> (BlockFacts, &Codes) {
        let sample = &self.samples[self.number as usize % self.samples.len()];
        let facts = moved(sample, self.number, self.parent);
        self.parent = facts.summary.block.hash;
        self.number += 1;
        (facts, &sample.codes)
    }

    /// As the pipeline does: a pool encodes, and one thread writes. Returns the time it took.
    fn batch(&mut self, threads: usize) -> Result<Duration, ArchiveBenchError> {
        let first = self.number;
        let facts: Vec<_> = (0..BATCH_BLOCKS).map(|_| self.next().0).collect();
        let started = Instant::now();
        let encoded = encode(&facts, threads)?;
        let mut batch = self.writer.batch()?;
        for (block, number) in encoded.iter().zip(first..) {
            let sample = &self.samples[number as usize % self.samples.len()];
            batch.append(block, &sample.codes, true)?;
        }
        batch.commit()?;
        Ok(started.elapsed())
    }
}

fn encode(facts: &[BlockFacts], threads: usize) -> Result<Vec<EncodedBlock>, RecordError> {
    let chunks = facts.chunks(facts.len().div_ceil(threads.max(1)).max(1));
    std::thread::scope(|scope| {
        let encode = |chunk: &[BlockFacts]| {
            chunk.iter().map(EncodedBlock::of_facts).collect::<Result<Vec<_>, _>>()
        };
        let running: Vec<_> = chunks.map(|chunk| scope.spawn(move || encode(chunk))).collect();
        let mut encoded = Vec::with_capacity(facts.len());
        for thread in running {
            // It encodes and nothing else; a panic there is one here.
            encoded.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(encoded)
    })
}

/// Runs the workload. `progress` is told blocks ingested.
///
/// # Errors
/// As [`ArchiveBenchError`] says.
pub fn archive(
    spec: &ChainSpec,
    files: Vec<BlockFile>,
    options: &ArchiveBenchOptions,
    mut progress: impl FnMut(u64),
) -> Result<ArchiveReport, ArchiveBenchError> {
    let first = files.iter().map(|file| file.block.number).min().unwrap_or_default();
    let samples = samples(spec, files)?;
    let sizes = render::sizes(&samples)?;
    let chain = ChainId { chain_id: spec.chain_id(), genesis_hash: B256::ZERO };
    let (writer, reader) = Archive::create(&options.folder, chain, &ArchiveOptions::default())?;
    let mut filling = Filling { samples: &samples, writer, number: first, parent: B256::ZERO };

    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut ingest = Vec::new();
    for threads in [1, cores] {
        let (mut spent, mut count) = (Duration::ZERO, 0);
        while count < options.blocks.div_ceil(2) {
            spent += filling.batch(threads)?;
            count += BATCH_BLOCKS;
            progress(BATCH_BLOCKS);
        }
        ingest.push((threads, count as f64 / spent.as_secs_f64()));
    }
    let mut single = Vec::new();
    for _ in 0..SINGLE_BLOCKS {
        let (facts, codes) = filling.next();
        let codes = codes.clone();
        let started = Instant::now();
        filling.writer.append(&facts, &codes, true)?;
        single.push(started.elapsed());
    }
    let stats = reader.stats()?;
    let held = first..filling.number;
    let (read, rendered) = random(&reader, &samples, &held)?;
    let mut writer = filling.writer;
    let compacted = writer.compact()?;
    let started = Instant::now();
    let verified = reader.verify(|_| {})?;
    Ok(ArchiveReport {
        sizes,
        blocks: stats.blocks,
        file_bytes: stats.disk_bytes.saturating_sub(stats.code_bytes),
        compacted_bytes: compacted.bytes_after.saturating_sub(stats.code_bytes),
        code_bytes: stats.code_bytes,
        ingest,
        single,
        read,
        rendered,
        verify_blocks_per_second: verified.blocks as f64 / started.elapsed().as_secs_f64(),
        problems: verified.problem_count,
    })
}

/// Times to read a block, and to read and render it, of blocks anywhere in the archive.
fn random(
    reader: &ArchiveReader,
    samples: &[Sample],
    held: &std::ops::Range<u64>,
) -> Result<(Vec<Duration>, Vec<Duration>), ArchiveBenchError> {
    let table = CodeTable::new();
    // The codes of a server that runs are known: kept by the replies in its cache.
    let mut kept = Vec::new();
    for sample in samples {
        let rope = render(&sample.facts, &table, &sample.codes)?;
        rope.prepare(Encoding::Identity);
        kept.push(rope);
    }
    let (mut read, mut rendered) = (Vec::new(), Vec::new());
    // xorshift64 of a fixed seed.
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..RANDOM_BLOCKS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let number = held.start + state % (held.end - held.start);
        let block = BlockRef::new(number, keccak256(number.to_be_bytes()));
        let started = Instant::now();
        let facts = reader.facts(&block.hash)?.ok_or(ArchiveBenchError::Missing { number })?;
        read.push(started.elapsed());
        let codes = codes_of(reader, &facts)?;
        let rope = render(&facts, &table, &codes)?;
        rendered.push(started.elapsed());
        drop(rope);
    }
    Ok((read, rendered))
}

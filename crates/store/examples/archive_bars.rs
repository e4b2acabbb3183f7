//! The archive's figures on real blocks: bytes a block, ingest rate, time to render a random one.
//!
//! ```text
//! cargo run --release -p prestate-store --example archive_bars -- FIXTURES [BLOCKS] [FOLDER]
//! ```
//!
//! `FIXTURES` is a folder of block files. `BLOCKS` (3,000) are ingested: the blocks of the folder
//! again and again, each time with other numbers, hashes and transaction hashes. `FOLDER` is where
//! the archive is made, on the disk to be measured; a temporary folder otherwise.

use alloy_primitives::{B256, keccak256};
use prestate_diff::{Execution, replay};
use prestate_host::ChainSpec;
use prestate_host_embedded::{block_paths, load_path};
use prestate_store::{
    Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, ChainId, EncodedBlock, decode_block,
};
use prestate_types::{BlockFacts, BlockRef, Codes, GethOptions};
use prestate_wire::{
    CodeTable, Encoding, KnownCodes, Rope, RopeBuilder, TraceList, write_geth_diff,
};
use std::{error::Error, ops::ControlFlow, path::Path, sync::Arc, time::Instant};

/// First block that counts for the bar on size.
const FROM_NUMBER: u64 = 12_000_000;
const BATCH: usize = 512;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Sample {
    facts: BlockFacts,
    codes: Codes,
}

fn load(folder: &Path) -> Result<Vec<Sample>> {
    let spec = ChainSpec::by_chain_id(1)?;
    let mut samples = Vec::new();
    for path in block_paths(folder)? {
        let file = load_path(&path)?;
        if file.block.number < FROM_NUMBER {
            continue;
        }
        let parent = Arc::new(file.prestate);
        let execution = Execution { spec: &spec, block: &file.block };
        let mut txs = Vec::new();
        let mut replayed = replay(execution, parent.clone(), &mut (), |tx, _| {
            txs.push(tx);
            ControlFlow::Continue(())
        })?;
        // Brings the codes of accounts that only the system parts touch.
        replayed.bundle_diff(&parent)?;
        let facts = replayed.facts(txs);
        samples.push(Sample { facts, codes: replayed.codes });
    }
    Ok(samples)
}

/// `debug_traceBlock*` of the block, as the prestate tracer in diff mode prints it.
fn render(facts: &BlockFacts, table: &CodeTable, codes: &Codes) -> Result<Rope> {
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    let codes = KnownCodes::new(table, codes);
    for tx in &facts.txs {
        list.result(&mut out, &tx.hash);
        write_geth_diff(&mut out, tx, GethOptions::default(), &codes)?;
        list.end_entry(&mut out);
    }
    list.close(&mut out);
    Ok(out.finish())
}

fn codes_of(reader: &ArchiveReader, block: &EncodedBlock) -> Result<Codes> {
    let mut codes = Codes::default();
    for hash in block.code_hashes() {
        codes.insert(*hash, reader.code(hash)?.ok_or("a code is missing")?);
    }
    Ok(codes)
}

/// The same changes at another height.
fn moved(sample: &Sample, number: u64, parent_hash: B256) -> BlockFacts {
    let mut facts = sample.facts.clone();
    let hash = keccak256(number.to_be_bytes());
    facts.summary.block = BlockRef::new(number, hash);
    facts.summary.parent_hash = parent_hash;
    for tx in &mut facts.txs {
        tx.hash = keccak256([tx.hash.as_slice(), &number.to_be_bytes()].concat());
    }
    facts
}

fn encode(facts: &[(BlockFacts, &Codes)], threads: usize) -> Result<Vec<EncodedBlock>> {
    let chunks = facts.chunks(facts.len().div_ceil(threads));
    let encode = |chunk: &[(BlockFacts, &Codes)]| {
        chunk.iter().map(|(facts, _)| EncodedBlock::of_facts(facts)).collect::<Vec<_>>()
    };
    let encoded: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = chunks.map(|chunk| scope.spawn(move || encode(chunk))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    });
    Ok(encoded.into_iter().collect::<std::result::Result<_, _>>()?)
}

fn median(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() * 99 / 100])
}

fn sizes(samples: &[Sample]) -> Result<()> {
    let table = CodeTable::new();
    let (mut json, mut records, mut encode, mut decode) = (0, 0, 0.0, 0.0);
    let (mut shape, mut words, mut plain) = (0, 0, 0);
    for Sample { facts, codes } in samples {
        json += render(facts, &table, codes)?.len();
        let started = Instant::now();
        let encoded = EncodedBlock::of_facts(facts)?;
        encode += started.elapsed().as_secs_f64();
        records += encoded.record_bytes();
        let started = Instant::now();
        let decoded = decode_block(encoded.record())?;
        decode += started.elapsed().as_secs_f64();
        assert_eq!(decoded.summary(), &facts.summary);
        let part = |at: usize| {
            let bytes = encoded.record()[at..at + 4].iter().rev();
            bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        shape += part(16);
        words += part(24);
        plain += encoded.record_bytes() - 32 - part(16) - part(24);
    }
    let count = samples.len() as f64;
    println!("{} blocks from {FROM_NUMBER} on", samples.len());
    println!("JSON a block          {:>9.0} bytes", json as f64 / count);
    println!(
        "record a block        {:>9.0} bytes ({:.1}x below the JSON; hashes {:.0}, shape {:.0}, \
         words {:.0})",
        records as f64 / count,
        json as f64 / records as f64,
        plain as f64 / count,
        shape as f64 / count,
        words as f64 / count,
    );
    println!(
        "encode, decode        {:>9.2} ms, {:.2} ms",
        encode / count * 1e3,
        decode / count * 1e3
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let fixtures = args.next().ok_or("usage: archive_bars FIXTURES [BLOCKS] [FOLDER]")?;
    let blocks: u64 = args.next().map_or(Ok(3000), |blocks| blocks.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = args.next().map_or_else(|| temporary.path().join("archive"), Into::into);
    let samples = load(Path::new(&fixtures))?;
    sizes(&samples)?;

    let chain = ChainId { chain_id: 1, genesis_hash: B256::ZERO };
    let (mut writer, reader) = Archive::create(&folder, chain, &ArchiveOptions::default())?;
    let mut parent = B256::ZERO;
    let mut number = FROM_NUMBER;
    let mut ingest = |writer: &mut ArchiveWriter, threads: usize| -> Result<f64> {
        let (mut spent, mut count) = (0.0, 0);
        while count < blocks / 2 {
            let facts: Vec<_> = (0..BATCH)
                .map(|_| {
                    let sample = &samples[number as usize % samples.len()];
                    let facts = moved(sample, number, parent);
                    parent = facts.summary.block.hash;
                    number += 1;
                    (facts, &sample.codes)
                })
                .collect();
            count += facts.len() as u64;
            let started = Instant::now();
            // As the pipeline does: a pool encodes, and one thread writes.
            let encoded = encode(&facts, threads)?;
            let mut batch = writer.batch()?;
            for (block, (_, codes)) in encoded.iter().zip(&facts) {
                batch.append(block, codes, true)?;
            }
            batch.commit()?;
            spent += started.elapsed().as_secs_f64();
        }
        Ok(count as f64 / spent)
    };
    for threads in [1, 2] {
        let rate = ingest(&mut writer, threads)?;
        println!("ingest, {BATCH} a batch   {rate:>9.0} blocks/s, encoded on {threads} thread(s)");
    }

    let mut single = Vec::new();
    for _ in 0..100 {
        let sample = &samples[number as usize % samples.len()];
        let facts = moved(sample, number, parent);
        parent = facts.summary.block.hash;
        number += 1;
        let started = Instant::now();
        writer.append(&facts, &sample.codes, true)?;
        single.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let (p50, p99) = median(single);
    println!("one durable block     {p50:>9.2} ms (p99 {p99:.2} ms)");
    let stats = reader.stats()?;
    println!(
        "file a block          {:>9.0} bytes, codes {:.0} kB in all, file {:.0} MB",
        (stats.disk_bytes - stats.code_bytes) as f64 / stats.blocks as f64,
        stats.code_bytes as f64 / 1e3,
        stats.disk_bytes as f64 / 1e6,
    );

    for (name, keep) in [("codes made anew", false), ("codes shared", true)] {
        let table = CodeTable::new();
        let (mut read, mut all, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = 88_172_645_463_325_252u64;
        for _ in 0..300 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let hash = keccak256((FROM_NUMBER + state % blocks).to_be_bytes());
            let started = Instant::now();
            let facts = reader.facts(&hash)?.ok_or("a block is missing")?;
            read.push(started.elapsed().as_secs_f64() * 1e3);
            let codes = codes_of(&reader, &EncodedBlock::of_facts(&facts)?)?;
            let rope = render(&facts, &table, &codes)?;
            all.push(started.elapsed().as_secs_f64() * 1e3);
            if keep {
                rope.prepare(Encoding::Identity);
                kept.push(rope);
            }
        }
        let ((read, _), (all, p99)) = (median(read), median(all));
        println!("random block, {name}: read {read:.2} ms, rendered {all:.2} ms (p99 {p99:.2} ms)");
    }
    let mut found = Vec::new();
    for _ in 0..300 {
        let sample = &samples[number as usize % samples.len()];
        number -= 7;
        let Some(tx) = sample.facts.txs.first() else { continue };
        let hash = keccak256([tx.hash.as_slice(), &number.to_be_bytes()].concat());
        let started = Instant::now();
        reader.transaction(&hash)?;
        found.push(started.elapsed().as_secs_f64() * 1e3);
    }
    println!("place of a transaction {:.3} ms", median(found).0);
    let compacted = writer.compact()?;
    println!(
        "file a block          {:>9.0} bytes once compacted",
        (compacted.bytes_after - stats.code_bytes) as f64 / stats.blocks as f64,
    );
    let started = Instant::now();
    let report = reader.verify(|_| {})?;
    let rate = report.blocks as f64 / started.elapsed().as_secs_f64();
    println!("verify                {rate:>9.0} blocks/s, {} problems", report.problem_count);
    Ok(())
}

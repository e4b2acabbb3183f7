use super::{ArchiveBenchError, Sizes, sample::Sample};
use libdeflater::{CompressionLvl, Compressor};
use prestate_store::{ArchiveReader, EncodedBlock};
use prestate_types::{BlockFacts, Codes, GethOptions};
use prestate_wire::{
    CodeTable, KnownCodes, MissingCode, Rope, RopeBuilder, TraceList, write_geth_diff,
};

/// `debug_traceBlock*` of the block, as the prestate tracer in diff mode prints it.
pub(super) fn render(
    facts: &BlockFacts,
    table: &CodeTable,
    codes: &Codes,
) -> Result<Rope, MissingCode> {
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

/// The codes a block speaks of, out of the archive.
pub(super) fn codes_of(
    reader: &ArchiveReader,
    facts: &BlockFacts,
) -> Result<Codes, ArchiveBenchError> {
    let mut codes = Codes::default();
    for hash in EncodedBlock::of_facts(facts)?.code_hashes() {
        if let Some(code) = reader.code(hash)? {
            codes.insert(*hash, code);
        }
    }
    Ok(codes)
}

/// Bytes of the given blocks, in each form.
pub(super) fn sizes(samples: &[Sample]) -> Result<Sizes, ArchiveBenchError> {
    let table = CodeTable::new();
    // In range: 0 to 12. 6 is what gzip and nginx take by default.
    let mut gzip = Compressor::new(CompressionLvl::new(6).unwrap_or_default());
    let mut sizes = Sizes { blocks: samples.len() as u64, ..Sizes::default() };
    for Sample { facts, codes } in samples {
        let text = render(facts, &table, codes)?.to_vec();
        let mut out = vec![0; gzip.gzip_compress_bound(text.len())];
        sizes.json_bytes += text.len() as u64;
        // The bound is enough by its definition.
        sizes.gzip_bytes += gzip.gzip_compress(&text, &mut out).unwrap_or(out.len()) as u64;
        sizes.record_bytes += EncodedBlock::of_facts(facts)?.record_bytes();
    }
    Ok(sizes)
}

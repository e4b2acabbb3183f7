//! What compressing a block costs from segments, next to libdeflate and zstd over the whole text.
//!
//! Takes files with replies of `debug_traceBlock*` (prestateTracer, diff mode), such as
//! `prestate diff FILE` prints them:
//!
//! ```text
//! cargo run --release -p prestate-wire --example fill -- REPLY.json…
//! ```
//!
//! Times are medians of rounds in which the two take turns. `first` is the first time a block is
//! compressed, when codes not seen in the files before it are compressed as well; `fill` is every
//! time after. The last lines give medians over the files, and what is held of all of them.

use alloy_primitives::{B256, hex};
use prestate_wire::{
    CodeTable, Encoding, MIN_COMPRESS_BYTES, Rope, RopeBuilder, gzip_once, splice,
};
use std::{error::Error, io::Read, time::Instant};

const ROUNDS: usize = 15;
const CODE: &[u8] = b"\"code\":\"0x";
const CODE_HASH: &[u8] = b",\"codeHash\":\"0x";
const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";

fn main() -> Result<(), Box<dyn Error>> {
    let table = CodeTable::new();
    let mut kept = Vec::new();
    let mut rows: Vec<[f64; 6]> = Vec::new();
    println!(
        "{:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8}  file",
        "JSON KB",
        "first ms",
        "fill ms",
        "one ms",
        "zstd ms",
        "gzip KB",
        "one KB",
        "zstd KB",
        "held KB"
    );
    for path in std::env::args().skip(1) {
        let text = std::fs::read(&path)?;
        let text = text.trim_ascii_end();
        if (text.len() as u64) < MIN_COMPRESS_BYTES {
            continue;
        }
        let rope = rope_of(text, &table)?;
        assert!(rope.to_vec() == text, "the rope is not its text");
        let first = time(|| rope.prepare(Encoding::Gzip));
        rope_of(text, &table)?.prepare(Encoding::Gzip);
        table.improve(usize::MAX);
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        let mut sizes = [0; 3];
        let mut last = rope;
        for _ in 0..ROUNDS {
            let fresh = rope_of(text, &table)?;
            times[0].push(time(|| fresh.prepare(Encoding::Gzip)));
            times[1].push(time(|| sizes[1] = gzip_once(text).len() as u64));
            let ropes = std::slice::from_ref(&fresh);
            sizes[0] = splice(HEAD, ropes, b"", b"}", Encoding::Gzip).len();
            last = rope_of(text, &table)?;
            last.prepare(Encoding::Gzip);
            times[2].push(time(|| fresh.prepare(Encoding::Zstd)));
            sizes[2] = splice(HEAD, ropes, b"", b"}", Encoding::Zstd).len();
        }
        let [fill, one, zstd] = times.map(median);
        let kb = |bytes: u64| bytes as f64 / 1024.0;
        let held = last.owned_bytes();
        println!(
            "{:>9.0} {first:>8.2} {fill:>8.2} {one:>8.2} {zstd:>8.2} {:>9.0} {:>9.0} {:>8.0} {:>8.0}  {path}",
            kb(text.len() as u64),
            kb(sizes[0]),
            kb(sizes[1]),
            kb(sizes[2]),
            kb(held)
        );
        let size = |at: usize| sizes[at] as f64 / sizes[1] as f64;
        let held = held as f64 / text.len() as f64;
        rows.push([one / fill, one / first, size(0), one / zstd, size(2), held]);
        // On a rope of its own: what is held is counted without zstd.
        check(&rope_of(text, &table)?, text)?;
        kept.push(last);
    }
    if rows.is_empty() {
        return Err("no files given".into());
    }
    let [fill, first, gzip, zstd, zstd_size, held] =
        std::array::from_fn(|at| median(rows.iter().map(|row| row[at]).collect()));
    println!("medians, libdeflate level 1 over the whole text being 1:");
    println!("  gzip: {fill:.1} x less time ({first:.1} x the first time), size {gzip:.3}");
    println!("  zstd: {zstd:.1} x less time, size {zstd_size:.3}");
    let json: u64 = kept.iter().map(Rope::len).sum();
    let own: u64 = kept.iter().map(Rope::owned_bytes).sum();
    let share = |bytes: u64| bytes as f64 * 100.0 / json as f64;
    let (count, with_texts) = table.usage();
    table.release_texts();
    table.release_texts();
    let (_, without) = table.usage();
    println!("memory: {:.1} % of the JSON in the median, without codes", held * 100.0);
    println!(
        "  all files: {:.1} %, with {count} codes {:.1} %, with their texts {:.1} %",
        share(own),
        share(own + without),
        share(own + with_texts)
    );
    Ok(())
}

/// Decodes what was measured.
fn check(rope: &Rope, text: &[u8]) -> Result<(), Box<dyn Error>> {
    let expected = [HEAD, text, b"}"].concat();
    let ropes = std::slice::from_ref(rope);
    let gzip = splice(HEAD, ropes, b"", b"}", Encoding::Gzip).to_vec();
    let mut decoded = Vec::new();
    flate2::read::GzDecoder::new(&gzip[..]).read_to_end(&mut decoded)?;
    let zstd = splice(HEAD, ropes, b"", b"}", Encoding::Zstd).to_vec();
    if decoded != expected || zstd::decode_all(&zstd[..])? != expected {
        return Err("a body does not decode to its text".into());
    }
    Ok(())
}

/// Cuts a reply at its codes.
fn rope_of(text: &[u8], table: &CodeTable) -> Result<Rope, hex::FromHexError> {
    let mut out = RopeBuilder::new();
    let mut rest = text;
    while let Some(at) = find(rest, CODE) {
        let (before, code) = rest.split_at(at + CODE.len());
        let end = find(code, b"\"").unwrap_or(code.len());
        let behind = &code[(end + 1).min(code.len())..];
        if end == 0 || !behind.starts_with(CODE_HASH) {
            out.push(before);
            rest = code;
            continue;
        }
        let hash = &behind[CODE_HASH.len()..CODE_HASH.len() + 64];
        let mut known = B256::ZERO;
        hex::decode_to_slice(hash, known.as_mut_slice())?;
        let segment = match table.get(&known) {
            Some(segment) => segment,
            None => table.intern(&known, &hex::decode(&code[..end])?),
        };
        // The segment brings its own `0x`.
        out.push(&before[..before.len() - 2]);
        out.push_code(segment);
        rest = &behind[CODE_HASH.len() + 64..];
    }
    out.push(rest);
    Ok(out.finish())
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == what[0]) {
        if text[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Milliseconds.
fn time(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

use crate::{
    median,
    report::{Bar, Better, Column, Reported, Row, Table},
    stats::millis,
};
use std::{fmt, time::Duration};

/// DESIGN §9: "archive".
const MAX_BLOCK_BYTES: f64 = 60_000.0;
const MIN_INGEST: f64 = 500.0;
const MAX_RENDER_MILLIS: f64 = 5.0;

/// Bytes of the given blocks, summed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sizes {
    /// How many blocks.
    pub blocks: u64,
    /// Their traces as JSON.
    pub json_bytes: u64,
    /// That in gzip, libdeflate level 6, block by block.
    pub gzip_bytes: u64,
    /// Their records, codes apart.
    pub record_bytes: u64,
}

impl Sizes {
    fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / self.blocks.max(1) as f64
    }
}

/// Figures of one run.
#[derive(Debug)]
pub struct ArchiveReport {
    /// The given blocks in each form.
    pub sizes: Sizes,
    /// Blocks ingested.
    pub blocks: u64,
    /// The archive's file after ingest, codes apart.
    pub file_bytes: u64,
    /// The same, compacted.
    pub compacted_bytes: u64,
    /// Records of the codes.
    pub code_bytes: u64,
    /// Threads that encode, and blocks a second.
    pub ingest: Vec<(usize, f64)>,
    /// Times of one block, durable.
    pub single: Vec<Duration>,
    /// Times to read a random block.
    pub read: Vec<Duration>,
    /// Times to read and render it.
    pub rendered: Vec<Duration>,
    /// Pace of `prestate archive verify`.
    pub verify_blocks_per_second: f64,
    /// What it found.
    pub problems: u64,
}

impl ArchiveReport {
    fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / self.blocks.max(1) as f64
    }

    /// Forms of a block, and bytes of each.
    fn forms(&self) -> [(&'static str, f64); 5] {
        let sizes = &self.sizes;
        [
            ("JSON", sizes.each(sizes.json_bytes)),
            ("gzip of it, level 6", sizes.each(sizes.gzip_bytes)),
            ("record, codes apart", sizes.each(sizes.record_bytes)),
            ("file, codes apart", self.each(self.file_bytes)),
            ("file once compacted", self.each(self.compacted_bytes)),
        ]
    }

    fn times(&self) -> [(&'static str, &[Duration]); 3] {
        [
            ("one durable block", &self.single),
            ("random block read", &self.read),
            ("random block rendered", &self.rendered),
        ]
    }
}

impl Reported for ArchiveReport {
    fn tables(&self) -> Vec<Table> {
        let row = |name: &str, cell| Row { name: name.to_owned(), cells: vec![cell] };
        let table = |name: &str, about: &str, rows_are: &str, column, rows| Table {
            name: name.to_owned(),
            about: about.to_owned(),
            rows_are: rows_are.to_owned(),
            columns: vec![column],
            rows,
        };
        vec![
            table(
                "archive-size",
                "Bytes a block; the file's are of the blocks ingested, the given ones moved to \
                 other heights.",
                "form",
                Column::new("bytes", "bytes", Better::Less),
                self.forms().iter().map(|(name, bytes)| row(name, vec![*bytes])).collect(),
            ),
            table(
                "archive-ingest",
                "Blocks a second in durable batches of 512, by threads that encode.",
                "threads",
                Column::new("pace", "blocks/s", Better::More),
                self.ingest.iter().map(|(n, rate)| row(&n.to_string(), vec![*rate])).collect(),
            ),
            table(
                "archive-times",
                "Committing one block durably; a block anywhere in the archive, read, and read and \
                 rendered as `debug_traceBlockByHash` answers it.",
                "what",
                Column::new("time", "ms", Better::Less),
                self.times().iter().map(|(name, times)| row(name, millis(times))).collect(),
            ),
        ]
    }

    fn bars(&self) -> Vec<Bar> {
        let bar = |what: &str, figure, bar, unit: &str, better| Bar {
            what: what.to_owned(),
            figure,
            bar,
            unit: unit.to_owned(),
            better,
        };
        let ingest = self.ingest.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let rendered = median(&self.rendered).as_secs_f64() * 1e3;
        let bytes = self.each(self.compacted_bytes);
        vec![
            bar(
                "archive, bytes a block, codes apart",
                bytes,
                MAX_BLOCK_BYTES,
                "bytes",
                Better::Less,
            ),
            bar("archive, ingest", ingest, MIN_INGEST, "blocks/s", Better::More),
            bar("archive, random block rendered", rendered, MAX_RENDER_MILLIS, "ms", Better::Less),
        ]
    }
}

/// The 99th percentile.
fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

impl fmt::Display for ArchiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let forms = self.forms();
        writeln!(f, "{} blocks given, {} ingested", self.sizes.blocks, self.blocks)?;
        writeln!(f, "{:<28} {:>12} {:>12}", "", "bytes/block", "JSON over it")?;
        for (what, bytes) in forms {
            writeln!(f, "{what:<28} {bytes:>12.0} {:>11.1}x", forms[0].1 / bytes.max(1.0))?;
        }
        writeln!(f, "{:<28} {:>12} in all", "codes, bytes", self.code_bytes)?;
        for (threads, rate) in &self.ingest {
            let what = format!("ingest, encoded by {threads}");
            writeln!(f, "{what:<28} {rate:>12.0} blocks/s")?;
        }
        for (what, times) in self.times() {
            writeln!(f, "{what:<28} {:>12.2} ms, p99 {:.2} ms", ms(median(times)), ms(p99(times)))?;
        }
        let verify = self.verify_blocks_per_second;
        write!(f, "{:<28} {verify:>12.0} blocks/s, {} problems", "verify", self.problems)?;
        for bar in self.bars() {
            let verdict = if bar.is_met() { "met" } else { "missed" };
            let side = if bar.better == Better::Less { "at most" } else { "at least" };
            let Bar { what, figure, bar, unit, .. } = bar;
            write!(f, "\n{what}: {figure:.1} {unit}, {side} {bar:.0} aimed for: {verdict}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_met_or_missed() {
        let ms = |ms| vec![Duration::from_millis(ms); 5];
        let report = ArchiveReport {
            sizes: Sizes {
                blocks: 2,
                json_bytes: 8_000_000,
                gzip_bytes: 2_000_000,
                record_bytes: 80_000,
            },
            blocks: 10,
            file_bytes: 900_000,
            compacted_bytes: 600_000,
            code_bytes: 5,
            ingest: vec![(1, 300.0), (2, 499.0)],
            single: ms(8),
            read: ms(2),
            rendered: ms(5),
            verify_blocks_per_second: 1.0,
            problems: 0,
        };
        let bars: Vec<_> = report.bars().iter().map(|bar| (bar.figure, bar.is_met())).collect();
        assert_eq!(bars, [(60_000.0, true), (499.0, false), (5.0, true)]);
        let text = report.to_string();
        assert_eq!(text.matches(": missed").count(), 1, "{text}");
        assert_eq!(text.matches(": met").count(), 2, "{text}");
        assert!(text.contains("100.0x"), "{text}");
    }
}

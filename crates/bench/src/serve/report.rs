use super::load::LoadResult;
use std::{fmt, time::Duration};

/// One contestant, one entry a round.
#[derive(Debug)]
pub struct ServeRow {
    /// Who.
    pub name: String,
    /// Replies a second.
    pub rates: Vec<f64>,
    /// Milliseconds of its CPU a reply.
    pub cpu_ms: Vec<f64>,
    /// Bytes of a body on the wire.
    pub body_bytes: u64,
    /// Replies that failed.
    pub errors: u64,
}

impl ServeRow {
    pub(crate) fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, rates: Vec::new(), cpu_ms: Vec::new(), body_bytes: 0, errors: 0 }
    }

    pub(crate) fn add(&mut self, seen: &LoadResult, cpu: Duration) {
        self.rates.push(seen.rate());
        self.cpu_ms.push(cpu.as_secs_f64() * 1e3 / seen.replies.max(1) as f64);
        self.body_bytes = seen.body_bytes / seen.replies.max(1);
        self.errors += seen.errors;
    }

    /// Median of the rates.
    pub fn rate(&self) -> f64 {
        middle(&self.rates)
    }

    /// Median of the CPU a reply.
    pub fn cpu(&self) -> f64 {
        middle(&self.cpu_ms)
    }
}

fn middle(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// The block of tens of thousands of transactions.
#[derive(Debug)]
pub struct HeavyRow {
    /// Its transactions.
    pub transactions: u64,
    /// Bytes of its callTracer reply.
    pub json_bytes: u64,
    /// Time of the first reply.
    pub fill_time: Duration,
    /// How much the server's peak memory grew with it.
    pub fill_memory_bytes: u64,
    /// Hits.
    pub hits: Vec<ServeRow>,
}

/// The whole run.
#[derive(Debug)]
pub struct ServeReport {
    /// Number of the block served.
    pub block: u64,
    /// Bytes of the reply.
    pub json_bytes: u64,
    /// Bytes of our gzip body.
    pub gzip_bytes: u64,
    /// Bytes of our zstd body.
    pub zstd_bytes: u64,
    /// The contestants.
    pub rows: Vec<ServeRow>,
    /// The heavy block.
    pub heavy: HeavyRow,
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, json_bytes, gzip_bytes, zstd_bytes, rows, heavy } = self;
        writeln!(
            f,
            "block {block}: {json_bytes} bytes of JSON, {gzip_bytes} in gzip, {zstd_bytes} in zstd"
        )?;
        let ours = rows.first().map(ServeRow::rate).unwrap_or_default();
        header(f)?;
        for row in rows {
            line(f, row, ours)?;
        }
        writeln!(
            f,
            "\nheavy block: {} transactions, {} bytes of callTracer JSON; first reply {:.0} ms, \
             peak memory grew by {} bytes ({:.2}x the reply)",
            heavy.transactions,
            heavy.json_bytes,
            heavy.fill_time.as_secs_f64() * 1e3,
            heavy.fill_memory_bytes,
            heavy.fill_memory_bytes as f64 / heavy.json_bytes.max(1) as f64
        )?;
        header(f)?;
        for row in &heavy.hits {
            line(f, row, row.rate())?;
        }
        Ok(())
    }
}

fn header(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "{:<30} {:>10} {:>12} {:>12} {:>7} {:>14}",
        "contestant", "replies/s", "CPU ms each", "body bytes", "errors", "first/this one"
    )
}

fn line(f: &mut fmt::Formatter<'_>, row: &ServeRow, ours: f64) -> fmt::Result {
    writeln!(
        f,
        "{:<30} {:>10.1} {:>12.3} {:>12} {:>7} {:>13.2}x",
        row.name,
        row.rate(),
        row.cpu(),
        row.body_bytes,
        row.errors,
        ours / row.rate().max(f64::MIN_POSITIVE)
    )
}

use super::load::LoadResult;
use crate::report::{Bar, Better, Column, Plot, PlotKind, Reported, Row, Series, Table, middle};
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
        middle(&self.rates).unwrap_or_default()
    }

    /// Median of the CPU a reply.
    pub fn cpu(&self) -> f64 {
        middle(&self.cpu_ms).unwrap_or_default()
    }
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

impl Reported for ServeReport {
    fn tables(&self) -> Vec<Table> {
        let hits = table(
            "serve",
            format!("Replies of block {} over loopback, in alternation.", self.block),
            &self.rows,
        );
        let heavy = &self.heavy;
        let mut many = table(
            "serve heavy",
            format!(
                "callTracer replies of a block of {} transactions, {} bytes of JSON; the first took \
                 {:.0} ms.",
                heavy.transactions,
                heavy.json_bytes,
                heavy.fill_time.as_secs_f64() * 1e3
            ),
            &heavy.hits,
        );
        many.rows_are = "hit".to_owned();
        vec![hits, many]
    }

    fn bars(&self) -> Vec<Bar> {
        let rate = |name: &str| self.rows.iter().find(|row| row.name == name).map(ServeRow::rate);
        let heavy =
            |name: &str| self.heavy.hits.iter().find(|row| row.name == name).map(ServeRow::cpu);
        let bar = |what: &str, figure: Option<f64>, bar, unit: &str, better| {
            Some(Bar { what: what.to_owned(), figure: figure?, bar, unit: unit.to_owned(), better })
        };
        let over = |rival| Some(rate("lane, gzip hit")? / rate(rival)?);
        let memory = self.heavy.fill_memory_bytes as f64 / self.heavy.json_bytes.max(1) as f64;
        [
            bar(
                "compressed hit over nginx gzip_static",
                over("nginx gzip_static"),
                1.5,
                "x",
                Better::More,
            ),
            bar(
                "compressed hit over libdeflate per reply",
                over("libdeflate 1 per reply"),
                30.0,
                "x",
                Better::More,
            ),
            bar("CPU of a hit of 20 MB, gzip", heavy("gzip"), 1.0, "ms", Better::Less),
            bar("CPU of a hit of 20 MB, identity", heavy("identity"), 5.0, "ms", Better::Less),
            bar("peak memory of filling it over its JSON", Some(memory), 2.5, "x", Better::Less),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let bytes = [self.json_bytes, self.gzip_bytes, self.zstd_bytes];
        let names = ["identity", "gzip", "zstd"].map(str::to_owned).to_vec();
        let points = bytes.iter().enumerate().map(|(at, bytes)| (at as f64, *bytes as f64 / 1e6));
        vec![Plot {
            name: "serve-bytes".to_owned(),
            title: format!("Bytes on the wire, block {}", self.block),
            x: "encoding".to_owned(),
            y: "MB".to_owned(),
            kind: PlotKind::Bars(names),
            series: vec![Series { name: "body".to_owned(), points: points.collect() }],
        }]
    }
}

fn table(name: &str, about: String, rows: &[ServeRow]) -> Table {
    Table {
        name: name.to_owned(),
        about,
        rows_are: "contestant".to_owned(),
        columns: vec![
            Column::new("replies", "1/s", Better::More),
            Column::new("CPU a reply", "ms", Better::Less),
            Column::new("body", "bytes", Better::Less),
            Column::new("errors", "", Better::Less),
        ],
        rows: rows
            .iter()
            .map(|row| Row {
                name: row.name.clone(),
                cells: vec![
                    row.rates.clone(),
                    row.cpu_ms.clone(),
                    vec![row.body_bytes as f64],
                    vec![row.errors as f64],
                ],
            })
            .collect(),
    }
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

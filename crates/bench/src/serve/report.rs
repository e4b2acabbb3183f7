use super::{first::FirstReplies, load::LoadResult, small::SmallReport};
use crate::{
    Tally,
    report::{Bar, Better, Column, Plot, PlotKind, Reported, Row, Series, Table, middle},
};
use prestate_wire::Encoding;
use std::{fmt, ops::RangeInclusive, time::Duration};

/// Clients at which the bars are looked at.
const BAR_CONNECTIONS: usize = 8;

/// One contestant with one coding and so many clients, one entry a round.
#[derive(Debug)]
pub struct ServeRow {
    /// Who.
    pub contestant: String,
    /// What was asked for.
    pub coding: Encoding,
    /// Clients.
    pub connections: usize,
    /// Replies a second.
    pub rates: Vec<f64>,
    /// Milliseconds of its CPU a reply; empty for a server that runs elsewhere.
    pub cpu_ms: Vec<f64>,
    /// Median time of a reply, in milliseconds.
    pub p50_ms: Vec<f64>,
    /// What nine in ten replies did not take longer than.
    pub p90_ms: Vec<f64>,
    /// Mean time of a reply.
    pub mean_ms: Vec<f64>,
    /// Bytes of a body on the wire.
    pub body_bytes: u64,
    /// Requests that failed.
    pub failures: Tally,
}

impl ServeRow {
    pub(crate) fn new(contestant: &str, coding: Encoding, connections: usize) -> Self {
        Self {
            contestant: contestant.to_owned(),
            coding,
            connections,
            rates: Vec::new(),
            cpu_ms: Vec::new(),
            p50_ms: Vec::new(),
            p90_ms: Vec::new(),
            mean_ms: Vec::new(),
            body_bytes: 0,
            failures: Tally::default(),
        }
    }

    /// A round without a reply has failures and nothing else.
    pub(crate) fn add(&mut self, seen: &LoadResult, cpu: Option<Duration>) {
        self.failures.merge(&seen.failures);
        let Some(last) = seen.times.len().checked_sub(1) else { return };
        let replies = seen.replies as f64;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.rates.push(seen.rate());
        self.cpu_ms.extend(cpu.map(|cpu| ms(cpu) / replies));
        self.p50_ms.push(ms(seen.times[last / 2]));
        self.p90_ms.push(ms(seen.times[last * 9 / 10]));
        self.mean_ms.push(ms(seen.times.iter().sum::<Duration>()) / replies);
        self.body_bytes = seen.body_bytes / seen.replies;
    }

    /// As tables call it.
    pub fn name(&self) -> String {
        let coding = self.coding.header().unwrap_or("identity");
        let clients = if self.connections == 1 { "client" } else { "clients" };
        format!("{}, {coding}, {} {clients}", self.contestant, self.connections)
    }

    /// Median of the rates.
    pub fn rate(&self) -> f64 {
        middle(&self.rates).unwrap_or_default()
    }

    /// Median of the CPU a reply.
    pub fn cpu(&self) -> Option<f64> {
        middle(&self.cpu_ms)
    }
}

/// One kind of reply.
#[derive(Debug)]
pub struct WorkReport {
    /// Of its table.
    pub name: &'static str,
    /// What is served.
    pub about: String,
    /// Bytes of the reply.
    pub json_bytes: u64,
    /// Bytes of our gzip body.
    pub gzip_bytes: u64,
    /// Bytes of our zstd body.
    pub zstd_bytes: u64,
    /// The contestants.
    pub rows: Vec<ServeRow>,
}

impl WorkReport {
    /// The row of a contestant, at the bars' number of clients or the nearest.
    fn row(&self, contestant: &str, coding: Encoding) -> Option<&ServeRow> {
        self.rows
            .iter()
            .filter(|row| row.contestant == contestant && row.coding == coding)
            .min_by_key(|row| row.connections.abs_diff(BAR_CONNECTIONS))
    }

    /// Rate of our gzip over another's.
    fn over(&self, rival: &str) -> Option<f64> {
        let rate = |name| self.row(name, Encoding::Gzip).and_then(|row| middle(&row.rates));
        Some(rate("lane")? / rate(rival)?)
    }

    fn table(&self) -> Table {
        let ms = |name| Column::new(name, "ms", Better::Less);
        Table {
            name: self.name.to_owned(),
            about: format!(
                "{}: {} bytes of JSON, over loopback, in alternation. CPU is the server's.",
                self.about, self.json_bytes
            ),
            rows_are: "contestant, coding and clients".to_owned(),
            columns: vec![
                Column::new("replies", "1/s", Better::More),
                ms("CPU a reply"),
                ms("p50"),
                ms("p90"),
                ms("mean"),
                Column::new("body", "bytes", Better::Less),
                Column::new("failed", "", Better::Less),
            ],
            rows: self
                .rows
                .iter()
                .map(|row| Row {
                    name: row.name(),
                    cells: vec![
                        row.rates.clone(),
                        row.cpu_ms.clone(),
                        row.p50_ms.clone(),
                        row.p90_ms.clone(),
                        row.mean_ms.clone(),
                        // Nothing came: not measured.
                        if row.rates.is_empty() { vec![] } else { vec![row.body_bytes as f64] },
                        vec![row.failures.total() as f64],
                    ],
                })
                .collect(),
        }
    }
}

/// The first reply of the block of tens of thousands of transactions.
#[derive(Debug)]
pub struct HeavyFill {
    /// Bytes of it.
    pub json_bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// How much the server's peak memory grew with it.
    pub memory_bytes: u64,
}

/// The whole run.
#[derive(Debug)]
pub struct ServeReport {
    /// Kinds of replies, the heavy one last.
    pub works: Vec<WorkReport>,
    /// Replies that were not there.
    pub first: FirstReplies,
    /// Compressing a small reply.
    pub small: SmallReport,
    /// Making the heavy one.
    pub heavy: HeavyFill,
}

impl ServeReport {
    fn work(&self, name: &str) -> Option<&WorkReport> {
        self.works.iter().find(|work| work.name == name)
    }

    /// Requests that failed, by kind. `None` if none did.
    fn failures(&self) -> Option<Table> {
        let rows: Vec<_> = self
            .works
            .iter()
            .flat_map(|work| work.rows.iter().map(move |row| (work.name, row)))
            .flat_map(|(work, row)| {
                row.failures.iter().map(move |(kind, count)| Row {
                    name: format!("{work}: {}: {kind}", row.name()),
                    cells: vec![vec![count as f64]],
                })
            })
            .collect();
        (!rows.is_empty()).then(|| Table {
            name: "serve-failures".to_owned(),
            about: "Requests that failed, by kind; they are in no other figure.".to_owned(),
            rows_are: "table, contestant and kind".to_owned(),
            columns: vec![Column::new("requests", "", Better::Less)],
            rows,
        })
    }
}

/// JSON of a block that the bars on hits speak of; what a smaller one costs is the connection.
const HIT_BYTES: RangeInclusive<u64> = 4_000_000..=8_000_000;
/// JSON of a block that the bars on heavy replies speak of.
const HEAVY_BYTES: u64 = 20_000_000;

impl Reported for ServeReport {
    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<_> = self.works.iter().map(WorkReport::table).collect();
        tables.extend([self.first.table(), self.small.table()]);
        tables.extend(self.failures());
        tables
    }

    fn bars(&self) -> Vec<Bar> {
        let bar = |what: &str, figure: Option<f64>, bar, unit: &str, better| {
            Some(Bar { what: what.to_owned(), figure: figure?, bar, unit: unit.to_owned(), better })
        };
        let diffs = self.work("serve").filter(|work| HIT_BYTES.contains(&work.json_bytes));
        let over = |rival| diffs.and_then(|work| work.over(rival));
        let heavy =
            (self.heavy.json_bytes >= HEAVY_BYTES).then(|| self.work("serve-heavy")).flatten();
        let cpu = |coding| heavy?.row("lane", coding)?.cpu();
        let memory = heavy.map(|_| self.heavy.memory_bytes as f64 / self.heavy.json_bytes as f64);
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
            bar("CPU of a hit of 20 MB, gzip", cpu(Encoding::Gzip), 1.0, "ms", Better::Less),
            bar(
                "CPU of a hit of 20 MB, identity (the kernel's copy; no bar of the design)",
                cpu(Encoding::Identity),
                5.0,
                "ms",
                Better::Less,
            ),
            bar("peak memory of filling it over its JSON", memory, 2.5, "x", Better::Less),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let names = ["identity", "gzip", "zstd"].map(str::to_owned).to_vec();
        let series = self.works.iter().map(|work| {
            let bytes = [work.json_bytes, work.gzip_bytes, work.zstd_bytes];
            let points = bytes.iter().enumerate();
            Series {
                name: work.name.to_owned(),
                points: points.map(|(at, bytes)| (at as f64, *bytes as f64 / 1e6)).collect(),
            }
        });
        let mut plots = vec![Plot {
            name: "serve-bytes".to_owned(),
            title: "Bytes on the wire".to_owned(),
            x: "encoding".to_owned(),
            y: "MB".to_owned(),
            kind: PlotKind::Bars(names),
            series: series.collect(),
        }];
        plots.extend(self.work("serve").map(by_clients));
        plots
    }
}

/// Replies a second against clients, gzip.
fn by_clients(work: &WorkReport) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in work.rows.iter().filter(|row| row.coding == Encoding::Gzip) {
        let point = (row.connections as f64, row.rate());
        match series.iter_mut().find(|series| series.name == row.contestant) {
            Some(series) => series.points.push(point),
            None => {
                series.push(Series { name: row.contestant.clone(), points: vec![point] });
            }
        }
    }
    Plot {
        name: "serve-clients".to_owned(),
        title: format!("Replies a second in gzip, {}", work.about.replace('`', "")),
        x: "clients".to_owned(),
        y: "replies a second".to_owned(),
        kind: PlotKind::Lines,
        series,
    }
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for work in &self.works {
            let WorkReport { about, json_bytes, gzip_bytes, zstd_bytes, rows, .. } = work;
            writeln!(f, "{about}: {json_bytes} bytes, {gzip_bytes} in gzip, {zstd_bytes} in zstd")?;
            writeln!(
                f,
                "{:<46} {:>10} {:>11} {:>9} {:>9} {:>9} {:>10}  failed",
                "contestant", "replies/s", "CPU ms each", "p50 ms", "p90 ms", "mean ms", "bytes"
            )?;
            for row in rows {
                let ms = |times: &[f64]| middle(times).unwrap_or_default();
                writeln!(
                    f,
                    "{:<46} {:>10.1} {:>11.3} {:>9.2} {:>9.2} {:>9.2} {:>10}  {}",
                    row.name(),
                    row.rate(),
                    row.cpu().unwrap_or_default(),
                    ms(&row.p50_ms),
                    ms(&row.p90_ms),
                    ms(&row.mean_ms),
                    row.body_bytes,
                    row.failures
                )?;
            }
            writeln!(f)?;
        }
        for table in [self.first.table(), self.small.table()] {
            writeln!(f, "{}", table.markdown())?;
        }
        let heavy = &self.heavy;
        write!(
            f,
            "heavy block: {} bytes, first reply {:.0} ms, peak memory grew by {} bytes ({:.2}x)",
            heavy.json_bytes,
            heavy.time.as_secs_f64() * 1e3,
            heavy.memory_bytes,
            heavy.memory_bytes as f64 / heavy.json_bytes.max(1) as f64
        )
    }
}

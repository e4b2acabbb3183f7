use super::Times;
use crate::{
    median,
    report::{Bar, Better, Column, Reported, Row, Table, middle},
    stats::millis,
};
use std::{fmt, time::Duration};

/// The gas of the bar's block.
const BAR_GAS: f64 = 30e6;
/// Blocks with less gas say little of a full one.
const FULL_GAS: u64 = 10_000_000;

/// One block, one entry a round.
#[derive(Debug)]
pub struct CommitRow {
    /// Its number.
    pub number: u64,
    /// Gas it used.
    pub gas_used: u64,
    /// Block diff and JSON from the node's bundle.
    pub block_diff: Vec<Duration>,
    /// Executing it again, nothing else.
    pub replay: Vec<Duration>,
    /// From commit until the transactions' diffs could be had in gzip, codes known.
    pub served: Vec<Duration>,
    /// The same with none of its codes seen before.
    pub served_codes_new: Vec<Duration>,
    /// From commit until durable and acknowledged.
    pub durable: Vec<Duration>,
}

impl CommitRow {
    pub(super) const fn new(number: u64, gas_used: u64) -> Self {
        Self {
            number,
            gas_used,
            block_diff: Vec::new(),
            replay: Vec::new(),
            served: Vec::new(),
            served_codes_new: Vec::new(),
            durable: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, times: Times) {
        let Times { block_diff, replay, served, served_codes_new, durable } = times;
        self.block_diff.push(block_diff);
        self.replay.push(replay);
        self.served.push(served);
        self.served_codes_new.push(served_codes_new);
        self.durable.push(durable);
    }

    /// Median of the block diff's time, scaled to 30 million gas.
    fn full_block_diff_ms(&self) -> f64 {
        let ms = median(&self.block_diff).as_secs_f64() * 1e3;
        ms * BAR_GAS / (self.gas_used.max(1) as f64)
    }

    /// Milliseconds from commit to served, on top of the replay; medians.
    fn beyond_replay_ms(&self) -> f64 {
        (median(&self.served).as_secs_f64() - median(&self.replay).as_secs_f64()) * 1e3
    }
}

/// All blocks.
#[derive(Debug)]
pub struct CommitReport {
    /// As the blocks were given.
    pub rows: Vec<CommitRow>,
}

impl CommitReport {
    fn medians(&self) -> (f64, f64) {
        let full: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.gas_used >= FULL_GAS)
            .map(CommitRow::full_block_diff_ms)
            .collect();
        let full = if full.is_empty() {
            self.rows.iter().map(CommitRow::full_block_diff_ms).collect()
        } else {
            full
        };
        let beyond: Vec<_> = self.rows.iter().map(CommitRow::beyond_replay_ms).collect();
        (middle(&full).unwrap_or_default(), middle(&beyond).unwrap_or_default())
    }
}

impl Reported for CommitReport {
    fn tables(&self) -> Vec<Table> {
        let ms = |name| Column::new(name, "ms", Better::Less);
        vec![Table {
            name: "commit".to_owned(),
            about: "From a block's commit: the block diff and its JSON from the node's bundle; \
                    executing the block again, by itself; until `debug_traceBlockByHash` is \
                    answered in gzip, with its codes known and with none of them; until the block \
                    is durable in an archive on disk and acknowledged."
                .to_owned(),
            rows_are: "block".to_owned(),
            columns: vec![
                Column::new("gas used", "", None),
                ms("block diff and JSON"),
                ms("replay"),
                ms("served"),
                ms("served, codes new"),
                ms("durable"),
            ],
            rows: self
                .rows
                .iter()
                .map(|row| Row {
                    name: row.number.to_string(),
                    cells: vec![
                        vec![row.gas_used as f64],
                        millis(&row.block_diff),
                        millis(&row.replay),
                        millis(&row.served),
                        millis(&row.served_codes_new),
                        millis(&row.durable),
                    ],
                })
                .collect(),
        }]
    }

    fn bars(&self) -> Vec<Bar> {
        let (full, beyond) = self.medians();
        let bar = |what: &str, figure, bar| Bar {
            what: what.to_owned(),
            figure,
            bar,
            unit: "ms".to_owned(),
            better: Better::Less,
        };
        vec![
            bar("block diff from a bundle with JSON, per 30 M gas, median block", full, 1.0),
            bar(
                "block committed to diffs servable in gzip, beyond its replay, median block",
                beyond,
                5.0,
            ),
        ]
    }
}

impl fmt::Display for CommitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>9} {:>10} {:>11} {:>9} {:>9} {:>10} {:>10} {:>14}",
            "block",
            "gas used",
            "block diff",
            "replay",
            "served",
            "codes new",
            "durable",
            "served-replay"
        )?;
        for row in &self.rows {
            let ms = |times: &[Duration]| median(times).as_secs_f64() * 1e3;
            writeln!(
                f,
                "{:>9} {:>10} {:>8.3} ms {:>9.2} {:>9.2} {:>10.2} {:>10.2} {:>14.2}",
                row.number,
                row.gas_used,
                ms(&row.block_diff),
                ms(&row.replay),
                ms(&row.served),
                ms(&row.served_codes_new),
                ms(&row.durable),
                row.beyond_replay_ms()
            )?;
        }
        let (full, beyond) = self.medians();
        write!(
            f,
            "medians: block diff {full:.3} ms per 30 M gas; served {beyond:.2} ms after the replay alone"
        )
    }
}

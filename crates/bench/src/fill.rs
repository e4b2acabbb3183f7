//! What the first compressed reply of a block costs, and what a cached block weighs: ours beside
//! libdeflate over the whole text.

use crate::{
    encode::{EncodeError, run_diffs, run_ours, write_diffs},
    median,
    report::{Bar, Better, Column, Plot, PlotKind, Reported, Row, Series, Table, middle},
    stats::millis,
};
use libdeflater::{CompressionLvl, Compressor};
use prestate_diff::Execution;
use prestate_host::{ChainSpec, RecoveredBlock};
use prestate_host_embedded::{BlockFile, MapState};
use prestate_wire::{CodeTable, Encoding, Rope, splice};
use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// One block.
#[derive(Debug)]
pub struct FillRow {
    /// Number of the block.
    pub number: u64,
    /// Bytes of JSON.
    pub json_bytes: u64,
    /// Executing the block for its diffs, before the first body can be made.
    pub execute: Vec<Duration>,
    /// Writing their JSON.
    pub encode: Vec<Duration>,
    /// Making our gzip body of a fresh block, its codes compressed before.
    pub ours: Vec<Duration>,
    /// The same with none of its codes seen before.
    pub cold: Vec<Duration>,
    /// libdeflate level 1 over the whole text.
    pub one_shot: Vec<Duration>,
    /// Bytes of our body.
    pub ours_bytes: u64,
    /// Bytes of libdeflate's.
    pub one_shot_bytes: u64,
    /// Bytes held for the block, text and deflate form, each code's divided by the blocks that
    /// share it.
    pub held_bytes: u64,
}

impl FillRow {
    fn speed(&self, ours: &[Duration]) -> f64 {
        median(&self.one_shot).as_secs_f64() / median(ours).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// How many times less time ours takes.
    pub fn times_less(&self) -> f64 {
        self.speed(&self.ours)
    }

    /// Our size over libdeflate's.
    pub fn size(&self) -> f64 {
        self.ours_bytes as f64 / self.one_shot_bytes.max(1) as f64
    }

    /// Memory over JSON.
    pub fn memory(&self) -> f64 {
        self.held_bytes as f64 / self.json_bytes.max(1) as f64
    }
}

/// All blocks.
#[derive(Debug)]
pub struct FillReport {
    /// Ascending by number.
    pub rows: Vec<FillRow>,
}

impl Reported for FillReport {
    fn tables(&self) -> Vec<Table> {
        let ms = |name| Column::new(name, "ms", Better::Less);
        let bytes = |name| Column::new(name, "bytes", Better::Less);
        let rows = self.rows.iter().map(|row| Row {
            name: row.number.to_string(),
            cells: vec![
                vec![row.json_bytes as f64],
                millis(&row.execute),
                millis(&row.encode),
                millis(&row.ours),
                millis(&row.cold),
                millis(&row.one_shot),
                vec![row.ours_bytes as f64],
                vec![row.one_shot_bytes as f64],
                vec![row.held_bytes as f64],
            ],
        });
        vec![Table {
            name: "fill".to_owned(),
            about: "The first gzip body of a fresh block: executing it and writing its JSON, then \
                    compressing that, with its codes compressed before, with none of them seen \
                    before, and by libdeflate level 1 over the whole text."
                .to_owned(),
            rows_are: "block".to_owned(),
            columns: vec![
                Column::new("JSON", "bytes", None),
                ms("execution with diffs"),
                ms("writing JSON"),
                ms("ours"),
                ms("ours, codes new"),
                ms("libdeflate 1"),
                bytes("our body"),
                bytes("libdeflate's body"),
                bytes("memory"),
            ],
            rows: rows.collect(),
        }]
    }

    fn plots(&self) -> Vec<Plot> {
        type Part = fn(&FillRow) -> &[Duration];
        let parts: [(_, Part); 3] = [
            ("execute", |row| &row.execute),
            ("encode", |row| &row.encode),
            ("compress", |row| &row.ours),
        ];
        let series = parts.map(|(name, part)| Series {
            name: name.to_owned(),
            points: (0u32..)
                .zip(&self.rows)
                .map(|(at, row)| (f64::from(at), median(part(row)).as_secs_f64() * 1e3))
                .collect(),
        });
        // Whole numbers would not fit beside each other.
        let names = self.rows.iter().map(|row| format!("{:.1}", row.number as f64 / 1e6));
        vec![Plot {
            name: "fill-time".to_owned(),
            title: "From a block to its first gzip body, codes known".to_owned(),
            x: "block, millions".to_owned(),
            y: "ms".to_owned(),
            kind: PlotKind::Stacked(names.collect()),
            series: series.into(),
        }]
    }

    fn bars(&self) -> Vec<Bar> {
        let bar = |what: &str, figure: fn(&FillRow) -> f64, bar, better| Bar {
            what: what.to_owned(),
            figure: middle(&self.rows.iter().map(figure).collect::<Vec<_>>()).unwrap_or_default(),
            bar,
            unit: "x".to_owned(),
            better,
        };
        vec![
            bar(
                "deflate of a fresh block, times less than libdeflate 1",
                FillRow::times_less,
                6.0,
                Better::More,
            ),
            bar("its size over libdeflate's", FillRow::size, 1.15, Better::Less),
            bar("memory of a cached block over its JSON", FillRow::memory, 0.25, Better::Less),
        ]
    }
}

/// Runs the workload for so many rounds.
///
/// # Errors
/// A block that does not replay ends the run.
pub fn fill(
    spec: &ChainSpec,
    files: Vec<BlockFile>,
    rounds: usize,
    mut progress: impl FnMut(),
) -> Result<FillReport, EncodeError> {
    let table = CodeTable::new();
    let blocks: Vec<_> =
        files.into_iter().map(|file| (file.block, Arc::new(file.prestate))).collect();
    // Kept to the end, as a cache keeps them; twice, since what the first pass leaves to the
    // housekeeping of a server is done before the second.
    let kept = kept_blocks(spec, &blocks, &table)?;
    while table.improve(usize::MAX) > 0 {}
    let first = kept;
    let kept = kept_blocks(spec, &blocks, &table)?;
    drop(first);
    table.release_texts();
    table.release_texts();
    let mut sharing: HashMap<_, u64> = HashMap::new();
    for code in kept.iter().flat_map(Rope::codes) {
        *sharing.entry(*code.hash()).or_default() += 1;
    }
    let held: Vec<u64> = kept
        .iter()
        .map(|rope| {
            let codes = rope.codes();
            let shared: f64 =
                codes.map(|code| code.memory_bytes() as f64 / sharing[code.hash()] as f64).sum();
            rope.owned_bytes() + shared as u64
        })
        .collect();
    // Level 1 is in range: 0 to 12.
    let mut level_1 = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
    let mut rows = Vec::with_capacity(blocks.len());
    for (((block, parent), rope), held_bytes) in blocks.iter().zip(&kept).zip(held) {
        let execution = Execution { spec, block };
        let text = rope.to_vec();
        let mut row = FillRow {
            number: block.number,
            json_bytes: rope.len(),
            execute: Vec::new(),
            encode: Vec::new(),
            ours: Vec::new(),
            cold: Vec::new(),
            one_shot: Vec::new(),
            ours_bytes: 0,
            one_shot_bytes: 0,
            held_bytes,
        };
        for _ in 0..rounds {
            let (time, diffs) = timed(|| run_diffs(execution, parent));
            let (txs, codes) = diffs?;
            row.execute.push(time);
            let (time, fresh) = timed(|| write_diffs(&txs, &codes, &table));
            let fresh = fresh?;
            row.encode.push(time);
            let (time, bytes) = timed(|| gzip(&fresh));
            row.ours.push(time);
            row.ours_bytes = bytes;
            let cold = run_ours(execution, parent, &CodeTable::new())?;
            row.cold.push(timed(|| gzip(&cold)).0);
            let mut out = vec![0; level_1.gzip_compress_bound(text.len())];
            let (time, bytes) =
                timed(|| level_1.gzip_compress(&text, &mut out).unwrap_or_default() as u64);
            row.one_shot.push(time);
            row.one_shot_bytes = bytes;
            progress();
        }
        rows.push(row);
    }
    Ok(FillReport { rows })
}

/// The blocks' ropes, compressed.
fn kept_blocks(
    spec: &ChainSpec,
    blocks: &[(RecoveredBlock, Arc<MapState>)],
    table: &CodeTable,
) -> Result<Vec<Rope>, EncodeError> {
    let made = blocks.iter().map(|(block, parent)| {
        let rope = run_ours(Execution { spec, block }, parent, table)?;
        gzip(&rope);
        Ok(rope)
    });
    made.collect()
}

fn gzip(rope: &Rope) -> u64 {
    let ropes = std::slice::from_ref(rope);
    splice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", ropes, b"", b"}", Encoding::Gzip).len()
}

fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = run();
    (started.elapsed(), result)
}

impl FillReport {
    /// Medians over the blocks: times less than libdeflate, size over libdeflate's, memory over
    /// JSON.
    pub fn medians(&self) -> (f64, f64, f64) {
        let over = |figure: fn(&FillRow) -> f64| {
            middle(&self.rows.iter().map(figure).collect::<Vec<_>>()).unwrap_or_default()
        };
        (over(FillRow::times_less), over(FillRow::size), over(FillRow::memory))
    }
}

impl fmt::Display for FillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>11} {:>7} {:>9} {:>7} {:>8}",
            "block",
            "JSON",
            "exec. ms",
            "write ms",
            "ours ms",
            "cold ms",
            "libdefl. ms",
            "less",
            "cold less",
            "size",
            "memory"
        )?;
        let ms = |times: &[Duration]| median(times).as_secs_f64() * 1e3;
        for row in &self.rows {
            writeln!(
                f,
                "{:>9} {:>10} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>11.2} {:>6.1}x {:>8.2}x {:>6.3}x {:>7.1}%",
                row.number,
                row.json_bytes,
                ms(&row.execute),
                ms(&row.encode),
                ms(&row.ours),
                ms(&row.cold),
                ms(&row.one_shot),
                row.times_less(),
                row.speed(&row.cold),
                row.size(),
                row.memory() * 100.0
            )?;
        }
        let (less, size, memory) = self.medians();
        write!(
            f,
            "median: {less:.1}x less time than libdeflate 1, {size:.3}x its size, memory {:.1}% of JSON",
            memory * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::heavy_block;

    #[test]
    fn a_body_made_step_by_step_is_that_of_one_pass() {
        let (spec, file) = heavy_block(40).unwrap();
        let (block, parent) = (&file.block, Arc::new(file.prestate.clone()));
        let (execution, table) = (Execution { spec: &spec, block }, CodeTable::new());
        let (txs, codes) = run_diffs(execution, &parent).unwrap();
        let (apart, at_once) =
            (write_diffs(&txs, &codes, &table), run_ours(execution, &parent, &table));
        assert_eq!(txs.len(), 40);
        assert_eq!(apart.unwrap().to_vec(), at_once.unwrap().to_vec());

        let report = fill(&spec, vec![file], 2, || {}).unwrap();
        let [row] = &report.rows[..] else { panic!("one block, {} rows", report.rows.len()) };
        for times in [&row.execute, &row.encode, &row.ours, &row.cold, &row.one_shot] {
            assert!(times.len() == 2 && times.iter().all(|time| *time > Duration::ZERO));
        }
        let [plot] = &report.plots()[..] else { panic!("one picture") };
        let parts: Vec<_> = plot.series.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, ["execute", "encode", "compress"]);
        assert!(plot.series.iter().all(|part| part.points.len() == 1));
        assert!(plot.svg().unwrap().contains("execute"));
    }
}

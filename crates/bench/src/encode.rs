//! What diffs cost on top of executing a block: bare execution, ours, and revm-inspectors with
//! serde_json, on the same block and state.

use crate::{
    median,
    report::{Bar, Better, Column, Reported, Row, Table, middle},
    stats::millis,
};
use alloy_evm::Evm;
use alloy_rpc_types_trace::geth::{PreStateConfig, TraceResult};
use prestate_diff::{Driver, Execution, LookupInspector, ReplayError, replay};
use prestate_host::ChainSpec;
use prestate_host_embedded::{BlockFile, MapState};
use prestate_types::{Codes, GethOptions, TxDiff};
use prestate_wire::{
    CodeTable, KnownCodes, MissingCode, Rope, RopeBuilder, TraceList, write_geth_diff,
};
use revm_inspectors::tracing::{TracingInspector, TracingInspectorConfig};
use std::{
    fmt,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

/// Why the workload could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A block does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A code is not in the block's data.
    #[error(transparent)]
    Code(#[from] MissingCode),
    /// The rival failed.
    #[error("revm-inspectors: {0}")]
    Rival(String),
}

/// One block's times, one entry a round.
#[derive(Debug)]
pub struct EncodeRow {
    /// Number of the block.
    pub number: u64,
    /// Its transactions.
    pub transactions: usize,
    /// Bytes of our JSON.
    pub json_bytes: u64,
    /// Executing it, nothing else.
    pub bare: Vec<Duration>,
    /// Executing it, diffs and JSON as ropes.
    pub ours: Vec<Duration>,
    /// Executing it, diffs by revm-inspectors, JSON by serde_json.
    pub rival: Vec<Duration>,
}

impl EncodeRow {
    /// Ours over bare.
    pub fn overhead(&self) -> f64 {
        ratio(&self.ours, &self.bare)
    }

    /// Rival over ours.
    pub fn faster_than_rival(&self) -> f64 {
        ratio(&self.rival, &self.ours)
    }
}

fn ratio(a: &[Duration], b: &[Duration]) -> f64 {
    median(a).as_secs_f64() / median(b).as_secs_f64().max(f64::MIN_POSITIVE)
}

/// All blocks.
#[derive(Debug)]
pub struct EncodeReport {
    /// Ascending by number.
    pub rows: Vec<EncodeRow>,
}

impl Reported for EncodeReport {
    fn tables(&self) -> Vec<Table> {
        let ms = |name| Column::new(name, "ms", Better::Less);
        let rows = self.rows.iter().map(|row| Row {
            name: row.number.to_string(),
            cells: vec![
                vec![row.transactions as f64],
                vec![row.json_bytes as f64],
                millis(&row.bare),
                millis(&row.ours),
                millis(&row.rival),
            ],
        });
        vec![Table {
            name: "encode".to_owned(),
            about: "Executing a block; executing it with transaction diffs and their JSON; the \
                    same by revm-inspectors and serde_json."
                .to_owned(),
            rows_are: "block".to_owned(),
            columns: vec![
                Column::new("transactions", "", None),
                Column::new("JSON", "bytes", None),
                ms("execution"),
                ms("with diffs and JSON"),
                ms("revm-inspectors + serde_json"),
            ],
            rows: rows.collect(),
        }]
    }

    fn bars(&self) -> Vec<Bar> {
        let all = |figure: fn(&EncodeRow) -> f64| {
            middle(&self.rows.iter().map(figure).collect::<Vec<_>>()).unwrap_or_default()
        };
        vec![
            Bar {
                what: "transaction diffs and JSON over bare execution, median block".to_owned(),
                figure: all(EncodeRow::overhead),
                bar: 1.15,
                unit: "x".to_owned(),
                better: Better::Less,
            },
            Bar {
                what: "faster than revm-inspectors + serde_json, median block".to_owned(),
                figure: all(EncodeRow::faster_than_rival),
                bar: 1.4,
                unit: "x".to_owned(),
                better: Better::More,
            },
        ]
    }
}

/// Runs the workload for so many rounds.
///
/// # Errors
/// A block that does not replay ends the run.
pub fn encode(
    spec: &ChainSpec,
    files: Vec<BlockFile>,
    rounds: usize,
    mut progress: impl FnMut(),
) -> Result<EncodeReport, EncodeError> {
    let blocks: Vec<_> =
        files.into_iter().map(|file| (file.block, Arc::new(file.prestate))).collect();
    let mut rows: Vec<_> = blocks
        .iter()
        .map(|(block, _)| EncodeRow {
            number: block.number,
            transactions: block.body().transactions.len(),
            json_bytes: 0,
            bare: Vec::new(),
            ours: Vec::new(),
            rival: Vec::new(),
        })
        .collect();
    // Codes are shared over all blocks, as in a server that runs.
    let table = CodeTable::new();
    let mut kept: Vec<Option<Rope>> = vec![None; blocks.len()];
    for round in 0..=rounds {
        for (at, (block, parent)) in blocks.iter().enumerate() {
            let execution = Execution { spec, block };
            let (bare, ()) = timed(|| run_bare(execution, parent))?;
            let (ours, rope) = timed(|| run_ours(execution, parent, &table))?;
            let (rival, _) = timed(|| run_rival(execution, parent))?;
            progress();
            let row = &mut rows[at];
            row.json_bytes = rope.len();
            kept[at] = Some(rope);
            // The first round warms up.
            if round > 0 {
                row.bare.push(bare);
                row.ours.push(ours);
                row.rival.push(rival);
            }
        }
    }
    Ok(EncodeReport { rows })
}

fn timed<T>(run: impl FnOnce() -> Result<T, EncodeError>) -> Result<(Duration, T), EncodeError> {
    let started = Instant::now();
    let result = run()?;
    Ok((started.elapsed(), result))
}

fn run_bare(execution: Execution<'_>, parent: &Arc<MapState>) -> Result<(), EncodeError> {
    Driver::new(execution, Arc::clone(parent)).run(
        LookupInspector::default(),
        false,
        &mut (),
        |_| Ok(ControlFlow::Continue(())),
    )?;
    Ok(())
}

pub(crate) fn run_ours(
    execution: Execution<'_>,
    parent: &Arc<MapState>,
    table: &CodeTable,
) -> Result<Rope, EncodeError> {
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    let mut missing = None;
    let ran = replay(execution, Arc::clone(parent), &mut (), |tx, codes| {
        list.result(&mut out, &tx.hash);
        let codes = KnownCodes::new(table, codes);
        if let Err(error) = write_geth_diff(&mut out, &tx, GethOptions::default(), &codes) {
            missing = Some(error);
            return ControlFlow::Break(());
        }
        list.end_entry(&mut out);
        ControlFlow::Continue(())
    });
    match missing {
        Some(missing) => Err(missing.into()),
        None => {
            ran?;
            list.close(&mut out);
            Ok(out.finish())
        }
    }
}

/// The block executed for its diffs, which are not written.
pub(crate) fn run_diffs(
    execution: Execution<'_>,
    parent: &Arc<MapState>,
) -> Result<(Vec<TxDiff>, Codes), EncodeError> {
    let mut txs = Vec::with_capacity(execution.block.body().transactions.len());
    let ran = replay(execution, Arc::clone(parent), &mut (), |tx, _| {
        txs.push(tx);
        ControlFlow::Continue(())
    })?;
    Ok((txs, ran.codes))
}

/// Their JSON.
pub(crate) fn write_diffs(
    txs: &[TxDiff],
    codes: &Codes,
    table: &CodeTable,
) -> Result<Rope, EncodeError> {
    let codes = KnownCodes::new(table, codes);
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    for tx in txs {
        list.result(&mut out, &tx.hash);
        write_geth_diff(&mut out, tx, GethOptions::default(), &codes)?;
        list.end_entry(&mut out);
    }
    list.close(&mut out);
    Ok(out.finish())
}

fn run_rival(execution: Execution<'_>, parent: &Arc<MapState>) -> Result<Vec<u8>, EncodeError> {
    let traces = rival_traces(execution, parent)?;
    serde_json::to_vec(&traces).map_err(|error| EncodeError::Rival(error.to_string()))
}

/// Diff-mode traces by revm-inspectors.
pub(crate) fn rival_traces(
    execution: Execution<'_>,
    parent: &Arc<MapState>,
) -> Result<Vec<TraceResult>, EncodeError> {
    let config = PreStateConfig { diff_mode: Some(true), ..Default::default() };
    let inspector =
        TracingInspector::new(TracingInspectorConfig::from_geth_prestate_config(&config));
    let mut results = Vec::new();
    let mut failed = None;
    let ran = Driver::new(execution, Arc::clone(parent)).run(inspector, false, &mut (), |step| {
        let inspector = step.evm.inspector_mut();
        let builder = std::mem::replace(
            inspector,
            TracingInspector::new(TracingInspectorConfig::from_geth_prestate_config(&config)),
        )
        .into_geth_builder();
        match builder.geth_prestate_traces(step.outcome, &config, &**step.evm.db()) {
            Ok(frame) => results
                .push(TraceResult::Success { result: frame.into(), tx_hash: Some(step.hash) }),
            Err(error) => {
                failed = Some(error.to_string());
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    if let Some(error) = failed {
        return Err(EncodeError::Rival(error));
    }
    ran?;
    Ok(results)
}

impl fmt::Display for EncodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>9} {:>5} {:>11} {:>9} {:>9} {:>9} {:>10} {:>11}",
            "block",
            "txs",
            "JSON bytes",
            "bare ms",
            "ours ms",
            "rival ms",
            "ours/bare",
            "rival/ours"
        )?;
        for row in &self.rows {
            let ms = |times: &[Duration]| median(times).as_secs_f64() * 1e3;
            writeln!(
                f,
                "{:>9} {:>5} {:>11} {:>9.2} {:>9.2} {:>9.2} {:>9.3}x {:>10.2}x",
                row.number,
                row.transactions,
                row.json_bytes,
                ms(&row.bare),
                ms(&row.ours),
                ms(&row.rival),
                row.overhead(),
                row.faster_than_rival()
            )?;
        }
        let total = |pick: fn(&EncodeRow) -> &Vec<Duration>| -> f64 {
            self.rows.iter().map(|row| median(pick(row)).as_secs_f64()).sum()
        };
        let (bare, ours, rival) =
            (total(|row| &row.bare), total(|row| &row.ours), total(|row| &row.rival));
        write!(f, "total: ours/bare {:.3}x, rival/ours {:.2}x", ours / bare, rival / ours)
    }
}

use crate::{errors::CommandError, replay::progress};
use indicatif::ProgressBar;
use prestate_diff::{Driver, Execution, LookupInspector, check_invariant, replay};
use prestate_host::{ChainSpec, check_header, summary};
use prestate_host_embedded::{BlockFile, load_path};
use prestate_types::{GethOptions, TxDiff};
use prestate_wire::{CodeTable, KnownCodes, RopeBuilder, TraceList, write_geth_diff};
use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

/// One line of the table.
struct Line {
    number: u64,
    fork: String,
    txs: usize,
    mgas: f64,
    replay_ms: f64,
    diff_ms: f64,
    json_bytes: u64,
}

/// Executes every block, holds it against its header and its parts against the whole, and prints a
/// line a block. The exit code is 1 if a block differs.
pub(crate) fn run(spec: &ChainSpec, paths: &[PathBuf]) -> Result<ExitCode, CommandError> {
    let bar = progress(paths.len(), "checking");
    print(
        &bar,
        &format!(
            "{:>9}  {:<16} {:>5} {:>7} {:>10} {:>13} {:>11}",
            "block", "rules", "txs", "Mgas", "replay ms", "diff+JSON ms", "JSON bytes"
        ),
    )?;
    let table = CodeTable::new();
    let mut differing = 0;
    for path in paths {
        let file = load_path(path)?;
        bar.set_message(format!("block {}", file.block.number));
        let (line, problem) = check(spec, file, &table);
        if let Some(line) = line {
            print(&bar, &line.to_string())?;
        }
        if let Some(problem) = problem {
            differing += 1;
            bar.suspend(|| eprintln!("{}: {problem}", path.display()));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let total = paths.len();
    if differing == 0 {
        print(&bar, &format!("{total} blocks checked, none differs"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&bar, &format!("{total} blocks checked, {differing} differ"))?;
    Ok(ExitCode::FAILURE)
}

fn check(spec: &ChainSpec, file: BlockFile, table: &CodeTable) -> (Option<Line>, Option<String>) {
    let parent = Arc::new(file.prestate);
    let execution = Execution { spec, block: &file.block };
    // Once without diffs, to tell what they cost.
    let started = Instant::now();
    let bare = Driver::new(execution, parent.clone()).run(
        LookupInspector::default(),
        false,
        &mut (),
        |_| Ok(ControlFlow::Continue(())),
    );
    let replay_time = started.elapsed();
    if let Err(error) = bare {
        return (None, Some(error.to_string()));
    }

    let started = Instant::now();
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    let mut txs: Vec<TxDiff> = Vec::with_capacity(file.block.body().transactions.len());
    let mut missing = None;
    let replayed = replay(execution, parent.clone(), &mut (), |tx, codes| {
        list.result(&mut out, &tx.hash);
        let codes = KnownCodes::new(table, codes);
        if let Err(error) = write_geth_diff(&mut out, &tx, GethOptions::default(), &codes) {
            missing = Some(error);
            return ControlFlow::Break(());
        }
        list.end_entry(&mut out);
        txs.push(tx);
        ControlFlow::Continue(())
    });
    list.close(&mut out);
    let json_bytes = out.finish().len();
    let total_time = started.elapsed();
    let mut replayed = match (missing, replayed) {
        (Some(error), _) => return (None, Some(error.to_string())),
        (None, Err(error)) => return (None, Some(error.to_string())),
        (None, Ok(replayed)) => replayed,
    };

    let block = &file.block;
    let line = Line {
        number: block.number,
        fork: format!("{:?}", spec.rules_at(block.number, block.timestamp)),
        txs: txs.len(),
        mgas: block.gas_used as f64 / 1e6,
        replay_ms: replay_time.as_secs_f64() * 1e3,
        diff_ms: total_time.saturating_sub(replay_time).as_secs_f64() * 1e3,
        json_bytes,
    };
    let problem = check_header(spec, block, replayed.finished.outcome())
        .map_err(|mismatch| format!("{mismatch}{}", suspects(block.body().transactions.len())))
        .and_then(|()| {
            // Uncle rewards are missing on both sides where the file lacks the headers.
            let whole = replayed.bundle_diff(&parent).map_err(|error| error.to_string())?;
            let checked = check_invariant(&replayed.facts(txs), &whole.diff);
            checked.map(drop).map_err(|error| error.to_string())
        })
        .err()
        .map(|problem| format!("{}: {problem}", summary(block).block));
    (Some(line), problem)
}

/// A header speaks of all transactions at once.
fn suspects(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " (transaction 0)".to_owned(),
        _ => format!(" (somewhere in transactions 0 to {})", count - 1),
    }
}

fn print(bar: &ProgressBar, line: &str) -> Result<(), CommandError> {
    bar.suspend(|| writeln!(io::stdout().lock(), "{line}")).map_err(CommandError::Output)
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, fork, txs, mgas, replay_ms, diff_ms, json_bytes } = self;
        write!(
            f,
            "{number:>9}  {fork:<16} {txs:>5} {mgas:>7.2} {replay_ms:>10.2} {diff_ms:>13.2} {json_bytes:>11}"
        )
    }
}

use crate::{errors::CommandError, source::ChainArg};
use alloy_primitives::B256;
use clap::{Args, ValueEnum};
use prestate_diff::{Execution, replay, replay_lookups};
use prestate_host::{RecoveredBlock, summary};
use prestate_host_embedded::{MapState, load_path};
use prestate_types::{Codes, GethOptions};
use prestate_wire::{
    CodeTable, CodeView, KnownCodes, MissingCode, RopeBuilder, TraceList, write_block_diff,
    write_block_summary, write_geth_diff, write_geth_pair, write_sides,
};
use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

/// `prestate diff`
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Block file: JSON with `block`, `prestate` and `blockHashes`, plain or gzip
    file: PathBuf,
    /// Only this transaction (view `geth`)
    #[arg(long, value_name = "HASH")]
    tx: Option<B256>,
    /// What to print
    #[arg(long, value_enum, default_value_t = View::Geth)]
    view: View,
    /// Geth byte for byte, with its three artefacts that contradict the state (view `geth`)
    #[arg(long)]
    exact: bool,
    /// Leave contract code out; hashes stay
    #[arg(long)]
    no_code: bool,
    /// mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: ChainArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    /// As `debug_traceBlockByHash` answers with prestateTracer in diff mode
    Geth,
    /// What the block as a whole changed, as `prestate_getBlockDiff` answers
    Block,
    /// What the block changed outside its transactions: system calls, withdrawals, rewards
    System,
}

pub(crate) fn run(args: DiffArgs) -> Result<ExitCode, CommandError> {
    if args.view != View::Geth && (args.tx.is_some() || args.exact) {
        return Err(CommandError::Usage("--tx and --exact go with --view geth".to_owned()));
    }
    let spec = args.chain.spec()?;
    let file = load_path(&args.file)?;
    let execution = Execution { spec: &spec, block: &file.block };
    let parent = Arc::new(file.prestate);
    let mut out = RopeBuilder::new();
    match args.view {
        View::Geth => geth(&mut out, execution, parent, &args)?,
        View::Block => block(&mut out, execution, parent, args.no_code)?,
        View::System => system(&mut out, execution, parent, args.no_code)?,
    }
    out.push(b"\n");
    let mut stdout = io::stdout().lock();
    for chunk in out.finish().chunks() {
        stdout.write_all(&chunk).map_err(CommandError::Output)?;
    }
    stdout.flush().map_err(CommandError::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one transaction's result.
type WriteResult<'a> = &'a dyn Fn(&mut RopeBuilder, &KnownCodes<'_>) -> Result<(), MissingCode>;

fn geth(
    out: &mut RopeBuilder,
    execution: Execution<'_>,
    parent: Arc<MapState>,
    args: &DiffArgs,
) -> Result<(), CommandError> {
    let options = GethOptions { disable_code: args.no_code, disable_storage: false };
    if let Some(wanted) = args.tx {
        find(execution.block, wanted)?;
    }
    let table = CodeTable::new();
    let mut list = args.tx.is_none().then(|| TraceList::open(out));
    let mut failed = None;
    let mut write = |hash: B256, codes: &Codes, diff: WriteResult<'_>| {
        if args.tx.is_some_and(|wanted| wanted != hash) {
            return ControlFlow::Continue(());
        }
        if let Some(list) = &mut list {
            list.result(out, &hash);
        }
        if let Err(missing) = diff(out, &KnownCodes::new(&table, codes)) {
            failed = Some(missing);
            return ControlFlow::Break(());
        }
        if let Some(list) = &mut list {
            list.end_entry(out);
        }
        ControlFlow::Continue(())
    };
    let ran = if args.exact {
        replay_lookups(execution, parent, &mut (), |hash, lookups, codes| {
            let diff = lookups.exact_diff(options);
            write(hash, codes, &|out, codes| write_geth_pair(out, &diff, codes))
        })
        .map(drop)
    } else {
        replay(execution, parent, &mut (), |tx, codes| {
            write(tx.hash, codes, &|out, codes| write_geth_diff(out, &tx, options, codes))
        })
        .map(drop)
    };
    if let Some(missing) = failed {
        return Err(missing.into());
    }
    ran?;
    if let Some(list) = list {
        list.close(out);
    }
    Ok(())
}

fn find(block: &RecoveredBlock, wanted: B256) -> Result<(), CommandError> {
    let transactions = &block.body().transactions;
    if transactions.iter().any(|tx| *tx.tx_hash() == wanted) {
        return Ok(());
    }
    Err(CommandError::NoSuchTransaction {
        wanted,
        block: summary(block).block,
        count: transactions.len(),
    })
}

fn code_view(no_code: bool) -> CodeView {
    if no_code { CodeView::Hash } else { CodeView::Full }
}

fn block(
    out: &mut RopeBuilder,
    execution: Execution<'_>,
    parent: Arc<MapState>,
    no_code: bool,
) -> Result<(), CommandError> {
    let go_on = |_, _: &Codes| ControlFlow::Continue(());
    let mut replayed = replay(execution, parent.clone(), &mut (), go_on)?;
    let diff = replayed.block_diff(&parent)?;
    let table = CodeTable::new();
    let codes = KnownCodes::new(&table, &replayed.codes);
    Ok(write_block_diff(out, &diff, code_view(no_code), &codes)?)
}

fn system(
    out: &mut RopeBuilder,
    execution: Execution<'_>,
    parent: Arc<MapState>,
    no_code: bool,
) -> Result<(), CommandError> {
    let go_on = |_, _: &Codes| ControlFlow::Continue(());
    let mut replayed = replay(execution, parent.clone(), &mut (), go_on)?;
    // Brings the codes of accounts that only the system parts touch, and refuses missing uncles.
    replayed.block_diff(&parent)?;
    let table = CodeTable::new();
    let codes = KnownCodes::new(&table, &replayed.codes);
    out.push(b"{\"block\":");
    write_block_summary(out, &replayed.summary);
    out.push(b",\"preSystem\":{");
    write_sides(out, &replayed.pre_system, code_view(no_code), &codes)?;
    out.push(b"},\"postSystem\":{");
    write_sides(out, &replayed.post_system, code_view(no_code), &codes)?;
    out.push(b"}}");
    Ok(())
}

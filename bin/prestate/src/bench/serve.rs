use super::{rival::exe, time};
use crate::errors::CommandError;
use clap::Args;
use prestate_bench::{LadderOptions, LadderReport, ServeOptions, ServeReport, ladder, serve};
use prestate_host_embedded::load_path;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Block file whose trace is served
    block: PathBuf,
    /// Clients, each with a connection of its own
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Seconds under load in each round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds, contestants in alternation
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Transactions of the heavy block
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    heavy: u64,
}

#[derive(Debug, Args)]
pub(super) struct LadderArgs {
    /// Connections, each a client of its own
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds at each rate
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

pub(super) fn run_serve(args: ServeArgs) -> Result<ServeReport, CommandError> {
    let number = load_path(&args.block)?.block.number;
    let exe = exe()?;
    Ok(serve(&ServeOptions {
        exe,
        block: args.block,
        number,
        connections: args.connections.max(1),
        time: time(args.seconds)?,
        rounds: args.rounds.max(1),
        heavy_transactions: args.heavy,
    })?)
}

pub(super) fn run_ladder(args: &LadderArgs) -> Result<LadderReport, CommandError> {
    let exe = exe()?;
    let steps = LadderOptions { time: time(args.seconds)?, connections: args.connections.max(1) };
    Ok(ladder(&exe, &steps)?)
}

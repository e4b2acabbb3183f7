//! `prestate`: an Ethereum node's state diffs, computed once and served as bytes. This program
//! runs without a node, on a chain of its own or on block files; `prestate-reth` is the same inside reth.

mod archive;
mod bench;
mod check;
mod dev;
mod diff;
mod errors;
mod follow;
mod parent;
mod replay;
mod serve;
mod shape;
mod source;
mod telemetry;
mod watch;

use clap::{Parser, Subcommand};
use std::{io::ErrorKind, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Exact state diffs of Ethereum blocks, per transaction and per block.
#[derive(Debug, Parser)]
#[command(name = "prestate", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an Ethereum chain in this process, with funded accounts, and serve its diffs
    Dev(dev::DevArgs),
    /// Serve block files as a node would, or execute and check them
    Replay(replay::ReplayArgs),
    /// Look after an archive: verify, stats, prune, compact, export, import
    Archive(archive::ArchiveArgs),
    /// Measure, with rivals in the same run
    Bench(bench::BenchArgs),
    /// Print what a block or one of its transactions changed, as JSON
    Diff(diff::DiffArgs),
    /// Show what blocks change, as they come
    Watch(watch::WatchArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("PRESTATE_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let result = telemetry::install().and_then(|_| match cli.command {
        Command::Dev(args) => dev::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Archive(args) => archive::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Watch(args) => watch::run(args),
    });
    match result {
        Ok(code) => code,
        // Who reads has seen enough (`| head`).
        Err(errors::CommandError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

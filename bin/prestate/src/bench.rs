use crate::{errors::CommandError, replay::progress, source::ChainArg};
use clap::{Args, Subcommand};
use prestate_bench::encode;
use prestate_host_embedded::{block_paths, load_path};
use std::{path::PathBuf, process::ExitCode};

/// `prestate bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// What diffs and their JSON cost on top of executing a block, next to revm-inspectors
    Encode(EncodeArgs),
}

#[derive(Debug, Args)]
struct EncodeArgs {
    /// Block files or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Rounds; a block's figure is the median over them
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: ChainArg,
}

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode, CommandError> {
    match args.workload {
        Workload::Encode(args) => run_encode(args),
    }
}

fn run_encode(args: EncodeArgs) -> Result<ExitCode, CommandError> {
    let spec = args.chain.spec()?;
    let mut files = Vec::new();
    for path in &args.paths {
        for path in block_paths(path)? {
            files.push(load_path(&path)?);
        }
    }
    let bar = progress(files.len() * (args.rounds + 1), "measuring");
    let report = encode(&spec, files, args.rounds, || bar.inc(1))?;
    bar.finish_and_clear();
    println!("{report}");
    Ok(ExitCode::SUCCESS)
}

use crate::{check, errors::CommandError, source::ChainArg};
use clap::Args;
use prestate_host_embedded::block_paths;
use std::{path::PathBuf, process::ExitCode};

/// `prestate replay`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Block files (`.json`, `.json.gz`) or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Execute every block, compare it with its header, print a line a block and exit
    #[arg(long)]
    check: bool,
    /// mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: ChainArg,
}

pub(crate) fn run(args: ReplayArgs) -> Result<ExitCode, CommandError> {
    let spec = args.chain.spec()?;
    let mut paths = Vec::new();
    for path in &args.paths {
        paths.extend(block_paths(path)?);
    }
    check::run(&spec, &paths)
}

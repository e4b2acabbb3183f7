use crate::{errors::CommandError, source::ChainArg};
use clap::Args;
use prestate_host::ChainSpec;
use prestate_host_embedded::{BlockFile, block_paths, load_path};
use std::path::PathBuf;

/// The first block of the bars on size and memory: blocks before it are lighter than today's.
const FIRST_HEAVY_BLOCK: u64 = 12_000_000;

#[derive(Debug, Args)]
pub(super) struct RoundsArgs {
    #[command(flatten)]
    pub(super) given: Given,
    /// Rounds; a block's figure is the median over them
    #[arg(long, default_value_t = 31)]
    pub(super) rounds: usize,
}

/// The blocks to measure with.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Block files or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Leave blocks below this number out
    #[arg(long, value_name = "NUMBER", default_value_t = FIRST_HEAVY_BLOCK)]
    from: u64,
    /// mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: ChainArg,
}

impl Given {
    pub(super) fn load(&self) -> Result<(ChainSpec, Vec<BlockFile>), CommandError> {
        let spec = self.chain.spec()?;
        let mut files = Vec::new();
        for path in &self.paths {
            for path in block_paths(path)? {
                files.push(load_path(&path)?);
            }
        }
        // An empty block has nothing to measure.
        files.retain(|file| {
            file.block.number >= self.from && !file.block.body().transactions.is_empty()
        });
        if files.is_empty() {
            return Err(CommandError::Usage(format!("no block from {} on was given", self.from)));
        }
        Ok((spec, files))
    }
}

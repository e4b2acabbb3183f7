use crate::{errors::CommandError, parent::end_with_parent, source::ChainArg};
use clap::Args;
use prestate_bench::{Launcher, RivalKind, heavy_host, run_lane, run_rival, run_traced};
use prestate_host::Host;
use prestate_host_embedded::{ReplayHost, load_path};
use prestate_rpc::RpcConfig;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Debug, Args)]
pub(super) struct RivalArgs {
    kind: String,
    subject: PathBuf,
    #[arg(long, default_value = "mainnet")]
    chain: ChainArg,
}

/// This program.
pub(super) fn exe() -> Result<PathBuf, CommandError> {
    std::env::current_exe().map_err(CommandError::Runtime)
}

/// The servers under load run in processes of their own, by the chain's rules.
pub(super) fn launcher(chain: &str) -> Result<Launcher, CommandError> {
    let exe = exe()?;
    let arguments = ["bench", "rival", "--chain", chain].map(Into::into);
    Ok(Launcher { exe, arguments: arguments.into() })
}

pub(super) fn run(args: &RivalArgs) -> Result<(), CommandError> {
    end_with_parent();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)?;
    let mut config = RpcConfig::default();
    if args.kind == "lane-uncached" {
        config.cache_bytes = 0;
    }
    let host: Arc<dyn Host> = match args.kind.as_str() {
        "lane" | "lane-uncached" => {
            Arc::new(ReplayHost::new(args.chain.spec()?, [load_path(&args.subject)?])?)
        }
        "lane-heavy" => {
            let count = args.subject.to_string_lossy().parse();
            let count = count.map_err(|_| CommandError::Usage("no number".to_owned()))?;
            Arc::new(heavy_host(count)?)
        }
        "traced" => {
            let file = load_path(&args.subject)?;
            let served = runtime.block_on(run_traced(args.chain.spec()?, file));
            return served.map_err(CommandError::Runtime);
        }
        kind => {
            let kind: RivalKind = kind.parse().map_err(CommandError::Usage)?;
            let result = read(&args.subject)?;
            return runtime.block_on(run_rival(kind, result)).map_err(CommandError::Runtime);
        }
    };
    runtime.block_on(run_lane(host, config)).map_err(CommandError::Runtime)
}

fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|source| CommandError::Io {
        path: path.to_owned(),
        operation: "read",
        source,
    })
}

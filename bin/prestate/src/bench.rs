use crate::{errors::CommandError, replay::progress, source::ChainArg};
use clap::{Args, Subcommand};
use prestate_bench::{
    RivalKind, ServeOptions, encode, fill, heavy_host, run_lane, run_rival, serve,
};
use prestate_host::{ChainSpec, Host};
use prestate_host_embedded::{BlockFile, ReplayHost, block_paths, load_path};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

/// The first block of the bars on size and memory: blocks before it are lighter than today's.
const FIRST_HEAVY_BLOCK: u64 = 12_000_000;

/// `prestate bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// What diffs and their JSON cost on top of executing a block, next to revm-inspectors
    Encode(RoundsArgs),
    /// What the first compressed reply of a block costs, next to libdeflate over the whole text
    Fill(RoundsArgs),
    /// What a hit costs over loopback, next to nginx, libdeflate per reply, jsonrpsee + tower-http
    Serve(ServeArgs),
    /// One of the servers of `serve`, in a process of its own
    #[command(hide = true)]
    Rival(RivalArgs),
}

#[derive(Debug, Args)]
struct RoundsArgs {
    /// Block files or folders of them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Rounds; a block's figure is the median over them
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Leave blocks below this number out
    #[arg(long, value_name = "NUMBER", default_value_t = FIRST_HEAVY_BLOCK)]
    from: u64,
    /// mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: ChainArg,
}

#[derive(Debug, Args)]
struct ServeArgs {
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
struct RivalArgs {
    kind: String,
    subject: PathBuf,
}

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode, CommandError> {
    match args.workload {
        Workload::Encode(args) => {
            let (spec, files) = args.load()?;
            let bar = progress(files.len() * (args.rounds + 1), "measuring");
            let report = encode(&spec, files, args.rounds, || bar.inc(1))?;
            bar.finish_and_clear();
            println!("{report}");
        }
        Workload::Fill(args) => {
            let (spec, files) = args.load()?;
            let bar = progress(files.len() * args.rounds, "measuring");
            let report = fill(&spec, files, args.rounds, || bar.inc(1))?;
            bar.finish_and_clear();
            println!("{report}");
        }
        Workload::Serve(args) => run_serve(args)?,
        Workload::Rival(args) => rival(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl RoundsArgs {
    fn load(&self) -> Result<(ChainSpec, Vec<BlockFile>), CommandError> {
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

fn run_serve(args: ServeArgs) -> Result<(), CommandError> {
    if !args.seconds.is_finite() || args.seconds <= 0.0 {
        return Err(CommandError::Usage(format!(
            "--seconds {}: more than 0 is wanted",
            args.seconds
        )));
    }
    let number = load_path(&args.block)?.block.number;
    let exe = std::env::current_exe().map_err(CommandError::Runtime)?;
    let report = serve(&ServeOptions {
        exe,
        block: args.block,
        number,
        connections: args.connections.max(1),
        time: Duration::from_secs_f64(args.seconds),
        rounds: args.rounds.max(1),
        heavy_transactions: args.heavy,
    })?;
    println!("{report}");
    Ok(())
}

fn rival(args: &RivalArgs) -> Result<(), CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)?;
    let host: Arc<dyn Host> = match args.kind.as_str() {
        "lane" => Arc::new(ReplayHost::new(ChainSpec::mainnet(), [load_path(&args.subject)?])?),
        "lane-heavy" => {
            let count = args.subject.to_string_lossy().parse();
            let count = count.map_err(|_| CommandError::Usage("no number".to_owned()))?;
            Arc::new(heavy_host(count)?)
        }
        kind => {
            let kind: RivalKind = kind.parse().map_err(CommandError::Usage)?;
            let result = read(&args.subject)?;
            return runtime.block_on(run_rival(kind, result)).map_err(CommandError::Runtime);
        }
    };
    runtime.block_on(run_lane(host)).map_err(CommandError::Runtime)
}

fn read(path: &Path) -> Result<String, CommandError> {
    fs::read_to_string(path).map_err(|source| CommandError::Io {
        path: path.to_owned(),
        operation: "read",
        source,
    })
}

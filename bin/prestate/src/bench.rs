use crate::{errors::CommandError, replay::progress, source::ChainArg};
use clap::{Args, Subcommand};
use prestate_bench::{
    ArchiveBenchError, ArchiveBenchOptions, ArchiveReport, LadderOptions, LadderReport, Report,
    Reported, RivalKind, ServeOptions, ServeReport, archive, compare, encode, fill, heavy_host,
    ladder, run_lane, run_rival, serve,
};
use prestate_host::{ChainSpec, Host};
use prestate_host_embedded::{BlockFile, ReplayHost, block_paths, load_path};
use std::{
    fmt::Display,
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
    /// Also write report.json, report.md and pictures into this folder; a report that is there
    /// already is added to
    #[arg(long, value_name = "DIR", global = true)]
    out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// What diffs and their JSON cost on top of executing a block, next to revm-inspectors
    Encode(RoundsArgs),
    /// What the first compressed reply of a block costs, next to libdeflate over the whole text
    Fill(RoundsArgs),
    /// What an archive of blocks weighs and how fast it is, next to raw JSON and its gzip
    Archive(ArchiveBenchArgs),
    /// What a hit costs over loopback, next to nginx, libdeflate per reply, jsonrpsee + tower-http
    Serve(ServeArgs),
    /// Replies of 30 KB at rising rates, times corrected for coordinated omission, with rivals
    Ladder(LadderArgs),
    /// What changed between two reports beyond noise
    Compare(CompareArgs),
    /// One of the servers of `serve`, in a process of its own
    #[command(hide = true)]
    Rival(RivalArgs),
}

#[derive(Debug, Args)]
struct RoundsArgs {
    #[command(flatten)]
    given: Given,
    /// Rounds; a block's figure is the median over them
    #[arg(long, default_value_t = 31)]
    rounds: usize,
}

/// The blocks to measure with.
#[derive(Debug, Args)]
struct Given {
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

#[derive(Debug, Args)]
struct ArchiveBenchArgs {
    #[command(flatten)]
    given: Given,
    /// Blocks to ingest: the given ones again and again, at other heights
    #[arg(long, value_name = "N", default_value_t = 3000)]
    blocks: u64,
    /// Where the archive is made, on the disk to be measured; it is removed at the end
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    disk: PathBuf,
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
struct LadderArgs {
    /// Connections, each a client of its own
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds at each rate
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The earlier report: its folder or file
    before: PathBuf,
    /// The later one
    after: PathBuf,
}

#[derive(Debug, Args)]
struct RivalArgs {
    kind: String,
    subject: PathBuf,
}

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode, CommandError> {
    let out = args.out.as_deref();
    match args.workload {
        Workload::Encode(args) => {
            let (spec, files) = args.given.load()?;
            let bar = progress(files.len() * (args.rounds + 1), "measuring");
            let report = encode(&spec, files, args.rounds, || bar.inc(1))?;
            bar.finish_and_clear();
            print(&report, out)?;
        }
        Workload::Fill(args) => {
            let (spec, files) = args.given.load()?;
            let bar = progress(files.len() * args.rounds, "measuring");
            let report = fill(&spec, files, args.rounds, || bar.inc(1))?;
            bar.finish_and_clear();
            print(&report, out)?;
        }
        Workload::Archive(args) => print(&run_archive(args)?, out)?,
        Workload::Serve(args) => print(&run_serve(args)?, out)?,
        Workload::Ladder(args) => print(&run_ladder(&args)?, out)?,
        Workload::Compare(args) => {
            let changes = compare(&Report::read(&args.before)?, &Report::read(&args.after)?);
            for change in &changes {
                println!("{change}");
            }
            if changes.is_empty() {
                println!("nothing changed beyond noise");
            }
        }
        Workload::Rival(args) => rival(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Given {
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

/// Prints a result, and adds it to the report in a folder.
fn print(result: &(impl Reported + Display), out: Option<&Path>) -> Result<(), CommandError> {
    println!("{result}");
    let Some(folder) = out else { return Ok(()) };
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut report = match Report::read(folder) {
        Ok(mut earlier) => {
            earlier.command = format!("{}; prestate {command}", earlier.command);
            earlier
        }
        Err(_) if !folder.join("report.json").exists() => {
            Report::new(format!("prestate {command}"))
        }
        Err(error) => return Err(error.into()),
    };
    report.add(result);
    report.write(folder)?;
    Ok(())
}

fn time(seconds: f64) -> Result<Duration, CommandError> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return Err(CommandError::Usage(format!("--seconds {seconds}: more than 0 is wanted")));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn run_ladder(args: &LadderArgs) -> Result<LadderReport, CommandError> {
    let exe = std::env::current_exe().map_err(CommandError::Runtime)?;
    let steps = LadderOptions { time: time(args.seconds)?, connections: args.connections.max(1) };
    Ok(ladder(&exe, &steps)?)
}

fn run_archive(args: ArchiveBenchArgs) -> Result<ArchiveReport, CommandError> {
    let (spec, files) = args.given.load()?;
    let folder = args.disk.join(format!("prestate-bench-{}", std::process::id()));
    let failed = |operation| {
        let path = folder.clone();
        move |source| CommandError::Io { path, operation, source }
    };
    fs::create_dir(&folder).map_err(failed("make folder"))?;
    let options =
        ArchiveBenchOptions { blocks: args.blocks.max(1), folder: folder.join("archive") };
    let bar = progress(options.blocks as usize, "ingesting");
    let report = archive(&spec, files, &options, |blocks| bar.inc(blocks));
    bar.finish_and_clear();
    fs::remove_dir_all(&folder).map_err(failed("remove"))?;
    report.map_err(|error| match error {
        ArchiveBenchError::Replay(error) => error.into(),
        ArchiveBenchError::Code(error) => error.into(),
        ArchiveBenchError::Open(error) => error.into(),
        ArchiveBenchError::Write(error) => error.into(),
        ArchiveBenchError::Read(error) => error.into(),
        other => CommandError::Usage(other.to_string()),
    })
}

fn run_serve(args: ServeArgs) -> Result<ServeReport, CommandError> {
    let number = load_path(&args.block)?.block.number;
    let exe = std::env::current_exe().map_err(CommandError::Runtime)?;
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

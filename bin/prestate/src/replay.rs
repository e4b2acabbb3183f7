use crate::{
    check,
    errors::CommandError,
    follow::{ArchiveArgs, fill, runs},
    serve::{ServeArgs, banner},
    source::ChainArg,
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prestate_host::Host;
use prestate_host_embedded::{ReplayHost, block_paths, load_path};
use prestate_pipeline::PipelineConfig;
use prestate_rpc::Sources;
use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

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
    /// Fill the archive, then exit without serving
    #[arg(long, requires = "archive", conflicts_with = "check")]
    no_serve: bool,
    #[command(flatten)]
    archive: ArchiveArgs,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(crate) fn run(args: ReplayArgs) -> Result<ExitCode, CommandError> {
    args.archive.check()?;
    let spec = args.chain.spec()?;
    let mut paths = Vec::new();
    for path in &args.paths {
        paths.extend(block_paths(path)?);
    }
    if args.check {
        return check::run(&spec, &paths);
    }
    let bar = progress(paths.len(), "loading");
    let mut files = Vec::with_capacity(paths.len());
    for path in &paths {
        files.push(load_path(path)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let host = ReplayHost::new(spec, files)?;
    let summary = format!(
        "{} blocks, {} to {}",
        host.blocks().count(),
        host.earliest()?.number,
        host.head()?.number
    );
    let banner = banner(&host, summary)?;
    if args.archive.archive.is_none() {
        let host: Arc<dyn Host> = Arc::new(host);
        return args.serve.run(host.into(), Vec::new(), banner);
    }
    let wanted = args.archive.backfill.as_ref().map(|range| range.0.clone());
    let numbers = host.blocks().map(|block| block.number);
    let numbers =
        numbers.filter(|number| wanted.as_ref().is_none_or(|range| range.contains(number)));
    let ranges = runs(numbers.collect::<Vec<_>>());
    let (head, host): (_, Arc<dyn Host>) = (host.head()?.number, Arc::new(host));
    // The blocks are all there: nothing else wants the cores.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let config = PipelineConfig { workers, ..PipelineConfig::default() };
    let pipeline = args.archive.start(&host, args.chain.id()?, config)?;
    let filled = fill(&pipeline, head, ranges)?;
    for (number, reason) in &filled.failures {
        eprintln!("block {number} is not in the archive: {reason}");
    }
    if args.no_serve {
        pipeline.shutdown();
        eprintln!("{} blocks written, {} failed", filled.written, filled.failed);
        return Ok(ExitCode::from(u8::from(filled.failed > 0)));
    }
    args.serve.run(Sources::following(host, pipeline), Vec::new(), banner)
}

/// A progress bar on a terminal, nothing elsewhere.
pub(crate) fn progress(length: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(what);
    bar
}

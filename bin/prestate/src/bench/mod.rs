mod archive;
mod blocks;
mod commit;
mod resync;
mod rival;
mod serve;
mod storage;

use crate::{errors::CommandError, replay::progress};
use blocks::RoundsArgs;
use clap::{Args, Subcommand};
use prestate_bench::{Report, Reported, compare, encode, fill, without_secrets};
use std::{
    fmt::Display,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

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
    Archive(archive::ArchiveBenchArgs),
    /// From a block's commit to its diffs, through the pipeline and an archive on disk
    Commit(commit::CommitArgs),
    /// What replies cost over loopback, next to nginx, libdeflate and zlib per reply, jsonrpsee with
    /// tower-http, caches of raw and re-parsed values
    Serve(serve::ServeArgs),
    /// Replies of 30 KB at rising rates, times corrected for coordinated omission, with rivals
    Ladder(serve::LadderArgs),
    /// How slots are repaired soonest and cheapest: traces, point reads, our own namespace; against
    /// any endpoint, or a dev chain made to behave like one
    Resync(resync::ResyncArgs),
    /// What one prestate_getStorage takes next to a batch of eth_getStorageAt of the same slots
    Storage(storage::StorageArgs),
    /// What changed between two reports beyond noise
    Compare(CompareArgs),
    /// One of the servers of `serve`, in a process of its own
    #[command(hide = true)]
    Rival(rival::RivalArgs),
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// The earlier report: its folder or file
    before: PathBuf,
    /// The later one
    after: PathBuf,
}

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode, CommandError> {
    let out = args.out.as_deref();
    if let Some(folder) = out {
        // Before the work, not after it.
        Report::continued(folder, String::new())?;
    }
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
        Workload::Archive(args) => print(&archive::run(args)?, out)?,
        Workload::Commit(args) => print(&commit::run(args)?, out)?,
        Workload::Serve(args) => print(&serve::run_serve(args)?, out)?,
        Workload::Ladder(args) => print(&serve::run_ladder(&args)?, out)?,
        Workload::Resync(args) => print(&resync::run(args)?, out)?,
        Workload::Storage(args) => print(&storage::run(args)?, out)?,
        Workload::Compare(args) => {
            let changes = compare(&Report::read(&args.before)?, &Report::read(&args.after)?);
            let mut text: String = changes.iter().map(|change| format!("{change}\n")).collect();
            if changes.is_empty() {
                text.push_str("nothing changed beyond noise\n");
            }
            io::stdout().write_all(text.as_bytes()).map_err(CommandError::Output)?;
        }
        Workload::Rival(args) => rival::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a result, and adds it to the report in a folder.
fn print(result: &(impl Reported + Display), out: Option<&Path>) -> Result<(), CommandError> {
    // Who reads may have seen enough; the report is written all the same.
    let printed = writeln!(io::stdout(), "{result}").map_err(CommandError::Output);
    if let Some(folder) = out {
        add_to_report(result, folder)?;
    }
    printed
}

fn add_to_report(result: &impl Reported, folder: &Path) -> Result<(), CommandError> {
    let arguments = std::env::args().skip(1).map(|argument| without_secrets(&argument));
    let command = arguments.collect::<Vec<_>>().join(" ");
    let mut report = Report::continued(folder, format!("prestate {command}"))?;
    report.add(result);
    report.beside_studies();
    report.write(folder)?;
    Ok(())
}

/// Seconds given by a flag.
fn time(flag: &str, seconds: f64) -> Result<Duration, CommandError> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| CommandError::Usage(format!("{flag} {seconds}: more than 0 is wanted")))
}

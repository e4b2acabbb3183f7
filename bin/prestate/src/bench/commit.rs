use super::blocks::RoundsArgs;
use crate::{errors::CommandError, replay::progress};
use clap::Args;
use prestate_bench::{CommitError, CommitReport, commit};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct CommitArgs {
    #[command(flatten)]
    rounds: RoundsArgs,
    /// Where the archives are made, on the disk to be measured; they are removed
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    disk: PathBuf,
}

pub(super) fn run(args: CommitArgs) -> Result<CommitReport, CommandError> {
    let (spec, files) = args.rounds.given.load()?;
    let folder = args.disk.join(format!("prestate-bench-{}", std::process::id()));
    let bar = progress(files.len() * (args.rounds.rounds + 1), "committing");
    let report = commit(&spec, files, &folder, args.rounds.rounds, || bar.inc(1));
    bar.finish_and_clear();
    report.map_err(|error| match error {
        CommitError::Replay(error) => error.into(),
        CommitError::Code(error) => error.into(),
        CommitError::Open(error) => error.into(),
        CommitError::Start(error) => error.into(),
        other => CommandError::Usage(other.to_string()),
    })
}

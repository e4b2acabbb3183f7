use super::blocks::Given;
use crate::{errors::CommandError, replay::progress};
use clap::Args;
use prestate_bench::{ArchiveBenchError, ArchiveBenchOptions, ArchiveReport, archive};
use std::{fs, path::PathBuf};

#[derive(Debug, Args)]
pub(super) struct ArchiveBenchArgs {
    #[command(flatten)]
    given: Given,
    /// Blocks to ingest: the given ones again and again, at other heights
    #[arg(long, value_name = "N", default_value_t = 3000)]
    blocks: u64,
    /// Where the archive is made, on the disk to be measured; it is removed at the end
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    disk: PathBuf,
}

pub(super) fn run(args: ArchiveBenchArgs) -> Result<ArchiveReport, CommandError> {
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

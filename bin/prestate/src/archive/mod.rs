//! `prestate archive`: looks after an archive without a node.

mod inspect;
mod replica;
mod shrink;
mod transfer;

use crate::errors::CommandError;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget};
use prestate_store::{
    Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, DEFAULT_RESERVE_BYTES, OpenError,
};
use serde_json::Value;
use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// `prestate archive`
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    #[command(subcommand)]
    command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// Read and check every record, entry and link; exit code 1 if something is wrong
    Verify(inspect::VerifyArgs),
    /// Print counts and sizes
    Stats(inspect::StatsArgs),
    /// Remove the lowest blocks, and codes that no block speaks of any more
    Prune(shrink::PruneArgs),
    /// Give free pages back to the file system; readers wait meanwhile
    Compact(shrink::CompactArgs),
    /// Serve it without a node: a replica for reading, beside the process that writes it or alone
    Serve(replica::ServeReplicaArgs),
    /// Bring sealed segments to a folder or an S3-compatible bucket
    Export(transfer::ExportArgs),
    /// Take in segments of a folder or bucket, or one segment file
    Import(transfer::ImportArgs),
}

pub(crate) fn run(args: ArchiveArgs) -> Result<ExitCode, CommandError> {
    match args.command {
        ArchiveCommand::Verify(args) => inspect::verify(&args),
        ArchiveCommand::Stats(args) => inspect::stats(&args),
        ArchiveCommand::Prune(args) => shrink::prune(&args),
        ArchiveCommand::Compact(args) => shrink::compact(&args),
        ArchiveCommand::Serve(args) => replica::run(args),
        ArchiveCommand::Export(args) => transfer::export(&args),
        ArchiveCommand::Import(args) => transfer::import(&args),
    }
}

/// Which archive, and how to tell about it.
#[derive(Debug, Args)]
struct Target {
    /// Folder of the archive
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Space that stays free.
#[derive(Debug, Args)]
struct Reserve {
    /// Write nothing while less than this is free on the disk
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_RESERVE_BYTES)]
    reserve_bytes: u64,
}

impl Reserve {
    fn options(&self) -> ArchiveOptions {
        ArchiveOptions { reserve_bytes: self.reserve_bytes, ..ArchiveOptions::default() }
    }
}

impl Target {
    fn reader(&self) -> Result<ArchiveReader, CommandError> {
        reader(&self.dir)
    }

    /// As the archive's only writer; its own chain is the right one.
    fn writer(
        &self,
        options: &ArchiveOptions,
    ) -> Result<(ArchiveWriter, ArchiveReader), CommandError> {
        let chain = Archive::describe(&self.dir)?.chain;
        Ok(Archive::open(&self.dir, chain, options)?)
    }

    /// Prints the outcome.
    fn report(&self, text: impl Display, json: &Value) -> Result<(), CommandError> {
        let mut out = io::stdout().lock();
        if self.json { writeln!(out, "{json}") } else { writeln!(out, "{text}") }
            .map_err(CommandError::Output)
    }
}

fn reader(dir: &Path) -> Result<ArchiveReader, CommandError> {
    Archive::open_read_only(dir, &ArchiveOptions::default()).map_err(hinted)
}

fn hinted(error: OpenError) -> CommandError {
    match error {
        OpenError::NeedsWriter { .. } => CommandError::NeedsWriter(error),
        error => error.into(),
    }
}

/// Something of unknown length, on a terminal.
fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if io::stderr().is_terminal() {
        bar.enable_steady_tick(Duration::from_millis(100));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_message(what);
    bar
}

/// Decimal units, three digits.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "kB", "MB", "GB"] {
        if value < 1000.0 {
            let digits = if unit == "bytes" || value >= 100.0 { 0 } else { 1 };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (123_456, "123 kB"),
            (12_345_678, "12.3 MB"),
            (9_900_000_000, "9.9 GB"),
            (5_000_000_000_000, "5.0 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}

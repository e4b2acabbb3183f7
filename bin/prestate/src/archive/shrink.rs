use super::{Target, size, spinner};
use crate::{errors::CommandError, follow::RetentionArg};
use clap::Args;
use prestate_store::{ArchiveOptions, PruneReport, SweepReport};
use serde_json::json;
use std::process::ExitCode;

/// `prestate archive prune`
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    target: Target,
    /// What stays: `blocks=N` of the highest heights, or as many as fit into `bytes=N`; k, M, G
    /// and T may follow the number
    #[arg(long, value_name = "HOW")]
    retention: RetentionArg,
    /// Leave codes that no block speaks of any more; finding them reads every record
    #[arg(long)]
    keep_codes: bool,
}

/// `prestate archive compact`
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    target: Target,
}

/// Gives space back, and so must run on a full disk.
fn unreserved() -> ArchiveOptions {
    ArchiveOptions { reserve_bytes: 0, ..ArchiveOptions::default() }
}

pub(crate) fn prune(args: &PruneArgs) -> Result<ExitCode, CommandError> {
    let (mut writer, reader) = args.target.writer(&unreserved())?;
    let bar = spinner("pruning");
    let mut pruned = PruneReport::default();
    while writer.prune_step(args.retention.0, &mut pruned)? {
        bar.set_message(format!("pruning: {} blocks", pruned.blocks));
    }
    let mut swept = SweepReport::default();
    if !args.keep_codes {
        bar.set_message("looking for codes that are not used any more");
        swept = writer.sweep_codes()?;
    }
    bar.finish_and_clear();
    let range = reader.range()?;
    let text = format!(
        "removed {} blocks ({}) and {} codes ({}); {}",
        pruned.blocks,
        size(pruned.bytes),
        swept.codes,
        size(swept.bytes),
        match range {
            Some((first, last)) => format!("{} to {} stay", first.number, last.number),
            None => "no block is left".to_owned(),
        }
    );
    let json = json!({
        "path": args.target.dir,
        "blocks": pruned.blocks,
        "bytes": pruned.bytes,
        "codes": swept.codes,
        "codeBytes": swept.bytes,
        "first": range.map(|(first, _)| first.number),
        "last": range.map(|(_, last)| last.number),
    });
    args.target.report(text, &json)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn compact(args: &CompactArgs) -> Result<ExitCode, CommandError> {
    let (mut writer, _) = args.target.writer(&unreserved())?;
    let bar = spinner("compacting");
    let report = writer.compact()?;
    bar.finish_and_clear();
    let text = format!("{} before, {} now", size(report.bytes_before), size(report.bytes_after));
    let json = json!({
        "path": args.target.dir,
        "bytesBefore": report.bytes_before,
        "bytesAfter": report.bytes_after,
    });
    args.target.report(text, &json)?;
    Ok(ExitCode::SUCCESS)
}

use super::{Target, hinted, size, spinner};
use crate::{errors::CommandError, replay::progress};
use clap::Args;
use prestate_store::{Archive, ArchiveOptions, ArchiveReader, ArchiveStats, SpaceState};
use serde_json::{Value, json};
use std::{fmt::Write, process::ExitCode};

/// `prestate archive verify`
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    target: Target,
    /// First open the archive for writing and have the engine check its own pages; also what an
    /// archive needs whose writer was killed before it can be opened for reading again
    #[arg(long)]
    engine: bool,
}

/// `prestate archive stats`
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, CommandError> {
    let mut engine = None;
    // Kept to the end: no other writer comes between the two checks.
    let mut kept = None;
    let reader = if args.engine {
        let (mut writer, reader) = args.target.writer(&ArchiveOptions::default())?;
        let bar = spinner("checking the engine's pages");
        engine = Some(writer.check_engine()?);
        bar.finish_and_clear();
        kept = Some(writer);
        reader
    } else {
        args.target.reader()?
    };
    let bar = progress(reader.stats()?.blocks as usize, "verifying");
    let report = reader.verify(|blocks| bar.set_position(blocks))?;
    bar.finish_and_clear();
    drop(kept);

    let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    let json = json!({
        "path": args.target.dir,
        "blocks": report.blocks,
        "canonicalBlocks": report.canonical_blocks,
        "transactions": report.transactions,
        "codes": report.codes,
        "enginePutRight": engine.map(|clean| !clean),
        "problemCount": report.problem_count,
        "problems": problems,
    });
    let mut text = String::new();
    if engine == Some(false) {
        text.push_str(
            "the engine's pages did not hold together and were put right from the last commit\n",
        );
    }
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "{} blocks, {} of them canonical, {} transactions, {} codes: ",
        report.blocks, report.canonical_blocks, report.transactions, report.codes
    );
    if report.is_clean() {
        args.target.report(text + "all is well", &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.target.json {
        for problem in &problems {
            eprintln!("{}: {problem}", args.target.dir.display());
        }
    }
    let _ = write!(text, "{} problems", report.problem_count);
    args.target.report(text, &json)?;
    Ok(ExitCode::FAILURE)
}

pub(crate) fn stats(args: &StatsArgs) -> Result<ExitCode, CommandError> {
    let descriptor = Archive::describe(&args.target.dir).map_err(hinted)?;
    let reader = args.target.reader()?;
    let stats = reader.stats()?;
    let gaps = gaps(&reader, &stats)?;
    let text = text(&stats, gaps, descriptor.format_version);
    args.target.report(text, &json(args, &stats, gaps, descriptor.format_version))?;
    Ok(ExitCode::SUCCESS)
}

/// Stretches and heights missing between the lowest and the highest canonical block.
fn gaps(reader: &ArchiveReader, stats: &ArchiveStats) -> Result<(u64, u64), CommandError> {
    let Some((first, last)) = stats.range else { return Ok((0, 0)) };
    let gaps = reader.gaps(first.number..=last.number)?;
    Ok((gaps.len() as u64, gaps.iter().map(|gap| gap.end() - gap.start() + 1).sum()))
}

fn text(stats: &ArchiveStats, (gaps, missing): (u64, u64), version: u16) -> String {
    let range = match stats.range {
        None => "none".to_owned(),
        Some((first, last)) => format!("{first} to {last}"),
    };
    let space = match stats.space {
        SpaceState::Enough { available_bytes } => format!("{} free", size(available_bytes)),
        SpaceState::Low { available_bytes, reserve_bytes } => format!(
            "{} free, {} are kept in reserve: nothing is written",
            size(available_bytes),
            size(reserve_bytes)
        ),
        _ => "not known".to_owned(),
    };
    let average = stats.facts_bytes.checked_div(stats.blocks).unwrap_or_default();
    let rows = [
        ("chain", stats.chain.to_string()),
        ("format", format!("version {version}")),
        ("blocks", format!("{}, {} of them canonical", stats.blocks, stats.canonical_blocks)),
        ("range", range),
        ("gaps", format!("{gaps}, {missing} heights")),
        ("transactions", stats.transactions.to_string()),
        ("facts", format!("{}, {} a block", size(stats.facts_bytes), size(average))),
        ("codes", format!("{}, {}", stats.codes, size(stats.code_bytes))),
        ("on disk", size(stats.disk_bytes)),
        ("space", space),
    ];
    rows.map(|(name, value)| format!("{name:<13} {value}")).join("\n")
}

fn json(
    args: &StatsArgs,
    stats: &ArchiveStats,
    (gaps, missing): (u64, u64),
    version: u16,
) -> Value {
    let end = |end: prestate_types::BlockRef| json!({ "number": end.number, "hash": end.hash });
    let (available, low) = match stats.space {
        SpaceState::Enough { available_bytes } => (Some(available_bytes), Some(false)),
        SpaceState::Low { available_bytes, .. } => (Some(available_bytes), Some(true)),
        _ => (None, None),
    };
    json!({
        "path": args.target.dir,
        "chainId": stats.chain.chain_id,
        "genesisHash": stats.chain.genesis_hash,
        "formatVersion": version,
        "blocks": stats.blocks,
        "canonicalBlocks": stats.canonical_blocks,
        "first": stats.range.map(|(first, _)| end(first)),
        "last": stats.range.map(|(_, last)| end(last)),
        "gaps": gaps,
        "missingBlocks": missing,
        "transactions": stats.transactions,
        "factsBytes": stats.facts_bytes,
        "codes": stats.codes,
        "codeBytes": stats.code_bytes,
        "diskBytes": stats.disk_bytes,
        "availableBytes": available,
        "spaceLow": low,
    })
}

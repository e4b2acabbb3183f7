//! The pipeline and its archive, as flags.

use crate::{errors::CommandError, replay::progress};
use clap::Args;
use indicatif::ProgressBar;
use prestate_host::Host;
use prestate_pipeline::{Backfill, Pipeline, PipelineConfig, PipelineHandle};
use prestate_store::{
    Archive, ArchiveOptions, ChainId, DEFAULT_RESERVE_BYTES, MIN_KEPT_BLOCKS, Retention,
    RetentionError,
};
use std::{
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long the first block may take to be followed.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How often a progress bar looks.
const LOOK: Duration = Duration::from_millis(100);

/// What is kept on disk.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Archive")]
pub(crate) struct ArchiveArgs {
    /// Keep what blocks changed in this folder, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
    /// How long it is kept: `forever`, `blocks=N` or `bytes=N` [default: forever]
    #[arg(long = "archive.retention", value_name = "HOW")]
    retention: Option<RetentionArg>,
    /// Stop writing while less than this is free on the disk; serving goes on [default: 1 GiB]
    #[arg(long = "archive.reserve", value_name = "BYTES")]
    reserve: Option<u64>,
    /// Also keep these blocks of the chain, from the top down; a run that was stopped goes on where
    /// it was
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) backfill: Option<BlockRange>,
}

/// `forever`, `blocks=N` or `bytes=N`, and no fewer blocks than a reorg may reach back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetentionArg(pub(crate) Retention);

impl FromStr for RetentionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse().map_err(|error: RetentionError| error.to_string())? {
            Retention::Blocks(blocks) if blocks < MIN_KEPT_BLOCKS => Err(format!(
                "{blocks} blocks are fewer than the {MIN_KEPT_BLOCKS} that a reorg may reach back"
            )),
            retention => Ok(Self(retention)),
        }
    }
}

/// `FROM..TO`, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockRange(pub(crate) RangeInclusive<u64>);

impl FromStr for BlockRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<u64>().map_err(|error| format!("`{text}` is no block number: {error}"))
        };
        let (from, to) = text.split_once("..").ok_or("expected FROM..TO, as in 100..200")?;
        let (from, to) = (number(from)?, number(to.strip_prefix('=').unwrap_or(to))?);
        if from > to {
            return Err(format!("{from} is above {to}"));
        }
        Ok(Self(from..=to))
    }
}

impl ArchiveArgs {
    /// Refuses what would do nothing.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        let given = [
            ("--archive.retention", self.retention.is_some()),
            ("--archive.reserve", self.reserve.is_some()),
            ("--backfill", self.backfill.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if self.archive.is_none() => Err(CommandError::Usage(format!(
                "{flag} is about an archive, and there is none: give --archive DIR"
            ))),
            _ => Ok(()),
        }
    }

    /// Starts following a host.
    pub(crate) fn start(
        &self,
        host: &Arc<dyn Host>,
        chain: ChainId,
        config: PipelineConfig,
    ) -> Result<PipelineHandle, CommandError> {
        self.check()?;
        let reserve_bytes = self.reserve.unwrap_or(DEFAULT_RESERVE_BYTES);
        let options = ArchiveOptions { reserve_bytes, ..ArchiveOptions::default() };
        let archive = self
            .archive
            .as_ref()
            .map(|path| Archive::open_or_create(path, chain, &options))
            .transpose()?;
        let config = PipelineConfig {
            retention: self.retention.map_or(Retention::Forever, |given| given.0),
            ..config
        };
        Ok(Pipeline::start(host.clone(), archive, config)?)
    }
}

/// Fills the archive with ranges of blocks, each from the top down, and shows how far it is. Waits
/// for the end.
pub(crate) fn fill(
    pipeline: &PipelineHandle,
    head: u64,
    ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
) -> Result<Filled, CommandError> {
    let ranges: Vec<_> = ranges.into_iter().collect();
    let started = Instant::now();
    // A range is cut off at the newest block followed.
    while pipeline.head().is_none_or(|followed| followed.number < head) {
        if started.elapsed() > START_PATIENCE {
            return Err(CommandError::Usage(format!(
                "block {head} was not followed within {} s; see the log",
                START_PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(LOOK);
    }
    let total = ranges.iter().map(|range| range.end() - range.start() + 1).sum::<u64>();
    let bar = progress(total as usize, "archiving");
    let mut filled = Filled::default();
    for range in ranges {
        filled.add(&wait(&pipeline.backfill(range)?, &bar, filled.done));
    }
    bar.finish_and_clear();
    Ok(filled)
}

/// What a back-fill came to.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    pub(crate) done: u64,
    pub(crate) written: u64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<(u64, String)>,
}

impl Filled {
    fn add(&mut self, progress: &prestate_pipeline::BackfillProgress) {
        self.done += progress.done;
        self.written += progress.written;
        self.failed += progress.failed;
        self.failures.extend(progress.failures.iter().cloned());
    }
}

fn wait(
    backfill: &Backfill,
    bar: &ProgressBar,
    before: u64,
) -> prestate_pipeline::BackfillProgress {
    let progress = backfill.progress();
    loop {
        let now = progress.borrow().clone();
        bar.set_position(before + now.done);
        // Without its maker it will not get any further.
        if now.finished || progress.has_changed().is_err() {
            return now;
        }
        std::thread::sleep(LOOK);
    }
}

/// Numbers as runs without holes, highest first.
pub(crate) fn runs(ascending: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<u64>> {
    let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
    for number in ascending {
        match runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(number) => {
                *run = *run.start()..=number;
            }
            _ => runs.push(number..=number),
        }
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_form_runs() {
        assert_eq!(runs([]), []);
        assert_eq!(runs([3, 4, 5, 9, 11, 12]), [11..=12, 9..=9, 3..=5]);
        assert_eq!(runs([u64::MAX]), [u64::MAX..=u64::MAX]);
    }

    #[test]
    fn ranges_and_retentions_are_read_or_refused_with_a_reason() {
        assert_eq!("7..9".parse(), Ok(BlockRange(7..=9)));
        assert_eq!("7..=9".parse(), Ok(BlockRange(7..=9)));
        for (text, reason) in [
            ("9..7", "9 is above 7"),
            ("7", "expected FROM..TO"),
            ("a..7", "`a` is no block number"),
            ("7..", "`` is no block number"),
        ] {
            let refused = text.parse::<BlockRange>().unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        assert_eq!("forever".parse(), Ok(RetentionArg(Retention::Forever)));
        assert_eq!("blocks=64".parse(), Ok(RetentionArg(Retention::Blocks(64))));
        assert_eq!("bytes=1000".parse(), Ok(RetentionArg(Retention::Bytes(1000))));
        for (text, reason) in [
            ("blocks=63", "fewer than the 64"),
            ("blocks=x", "\"blocks=x\""),
            ("days=3", "`blocks=N`, `bytes=N` or `forever` is wanted"),
        ] {
            let refused = text.parse::<RetentionArg>().unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}

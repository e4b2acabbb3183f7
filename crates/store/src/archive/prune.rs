use super::{
    ArchiveBatch, ArchiveWriter, EngineError, WriteError,
    layout::{CANONICAL, ERA_BLOCKS, FACTS, TRANSACTIONS, era, facts_key, parse_facts_key, tx_key},
    store::EngineResult,
};
use alloy_primitives::B256;
use prestate_types::BlockRef;
use redb::ReadableTable;
use std::{fmt, str::FromStr};
use thiserror::Error;

/// How long blocks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Retention {
    /// This many heights below and including the highest canonical block, and all above it.
    Blocks(u64),
    /// As many of the highest blocks as their records fit into, codes and index apart.
    Bytes(u64),
    /// All.
    #[default]
    Forever,
}

/// A retention as it is written on command lines: `forever`, `blocks=N`, `bytes=N`. Both numbers
/// may carry a decimal unit: `k`, `M`, `G`, `T`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("retention {given:?}: `blocks=N`, `bytes=N` or `forever` is wanted")]
pub struct RetentionError {
    /// What was given.
    pub given: String,
}

impl FromStr for Retention {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, RetentionError> {
        let error = || RetentionError { given: text.to_owned() };
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let (what, number) = text.split_once('=').ok_or_else(error)?;
        let digits = number.trim_end_matches(['k', 'M', 'G', 'T']);
        let unit = match &number[digits.len()..] {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        match (what, number) {
            ("blocks", Some(blocks)) => Ok(Self::Blocks(blocks)),
            ("bytes", Some(bytes)) => Ok(Self::Bytes(bytes)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(blocks) => write!(f, "blocks={blocks}"),
            Self::Bytes(bytes) => write!(f, "bytes={bytes}"),
            Self::Forever => f.write_str("forever"),
        }
    }
}

/// However small a retention is, this many heights stay: two epochs, the depth of a reorg that
/// finality does not rule out.
pub const MIN_KEPT_BLOCKS: u64 = 64;

/// Heights removed in one batch. Bounds how long a block that arrives meanwhile has to wait.
const STEP_HEIGHTS: u64 = 64;

/// What was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Blocks removed.
    pub blocks: u64,
    /// Bytes of their records. The file keeps its length, and new blocks use the space.
    pub bytes: u64,
}

impl ArchiveWriter {
    /// Removes the lowest blocks until `retention` is met. Reading goes on meanwhile. Codes stay,
    /// see [`Self::sweep_codes`].
    ///
    /// # Errors
    ///
    /// [`WriteError::Engine`]. What was removed so far stays removed; a repeated call goes on.
    pub fn prune(&mut self, retention: Retention) -> Result<PruneReport, WriteError> {
        let mut report = PruneReport::default();
        while self.prune_step(retention, &mut report)? {}
        Ok(report)
    }

    /// As [`Self::prune`], one bounded batch; for callers with other things to write in between.
    /// Returns whether there is more to remove.
    ///
    /// # Errors
    ///
    /// As [`Self::prune`].
    pub fn prune_step(
        &mut self,
        retention: Retention,
        report: &mut PruneReport,
    ) -> Result<bool, WriteError> {
        if retention == Retention::Forever {
            return Ok(false);
        }
        let store = self.store().clone();
        let mut batch = self.unguarded_batch()?;
        let step = store.guarded("prune", || batch.remove_lowest(retention))?;
        let Some((removed, more)) = step else { return Ok(false) };
        batch.commit()?;
        report.blocks += removed.blocks;
        report.bytes += removed.bytes;
        Ok(more)
    }
}

impl ArchiveBatch<'_> {
    /// Removes some of the lowest heights; `None` if there is nothing to remove.
    fn remove_lowest(
        &mut self,
        retention: Retention,
    ) -> Result<Option<(PruneReport, bool)>, WriteError> {
        let Some((lowest, highest)) = self.heights()? else { return Ok(None) };
        let kept = match retention {
            Retention::Blocks(blocks) => blocks.max(MIN_KEPT_BLOCKS),
            Retention::Bytes(_) | Retention::Forever => MIN_KEPT_BLOCKS,
        };
        // Everything below this may go.
        let limit = highest.saturating_add(1).saturating_sub(kept);
        let mut report = PruneReport::default();
        let over = |batch: &Self| match retention {
            Retention::Blocks(_) => true,
            Retention::Bytes(bytes) => batch.totals.facts_bytes > bytes,
            Retention::Forever => false,
        };
        let mut number = lowest;
        for _ in 0..STEP_HEIGHTS {
            if number >= limit || !over(self) {
                break;
            }
            for block in self.blocks_at(number)? {
                let Some(entry) = self.entry(&block.hash)? else { continue };
                self.remove_record(&entry)?;
                report.blocks += 1;
                report.bytes += entry.record_bytes;
            }
            // Pieces without an entry, should something have gone wrong once.
            self.remove_height(number)?;
            number = match self.heights()? {
                Some((lowest, _)) => lowest,
                None => limit,
            };
        }
        if report == PruneReport::default() && number == lowest {
            return Ok(None);
        }
        self.remove_eras_below(number)?;
        Ok(Some((report, number < limit && over(self))))
    }

    /// Lowest height held, and highest canonical one.
    fn heights(&self) -> Result<Option<(u64, u64)>, EngineError> {
        let failed = self.store.during("prune");
        let table = self.transaction.open_table(FACTS).at(failed)?;
        let Some((lowest, _)) = table.first().at(failed)? else { return Ok(None) };
        let lowest = parse_facts_key(&lowest.value()).0.number;
        let table = self.transaction.open_table(CANONICAL).at(failed)?;
        let highest = table.last().at(failed)?;
        Ok(highest.map(|(number, _)| (lowest, u64::from_be_bytes(number.value()))))
    }

    fn blocks_at(&self, number: u64) -> Result<Vec<BlockRef>, EngineError> {
        let failed = self.store.during("prune");
        let table = self.transaction.open_table(FACTS).at(failed)?;
        let mut blocks = Vec::new();
        let (from, to) = height_bounds(number);
        for entry in table.range(from..=to).at(failed)? {
            let (block, _) = parse_facts_key(&entry.at(failed)?.0.value());
            if blocks.last() != Some(&block) {
                blocks.push(block);
            }
        }
        Ok(blocks)
    }

    fn remove_height(&mut self, number: u64) -> Result<(), EngineError> {
        let failed = self.store.during("prune");
        let (from, to) = height_bounds(number);
        let mut table = self.transaction.open_table(FACTS).at(failed)?;
        table.retain_in(from..=to, |_, _| false).at(failed)?;
        let mut table = self.transaction.open_table(CANONICAL).at(failed)?;
        table.remove(&number.to_be_bytes()).at(failed)?;
        Ok(())
    }

    /// Index entries of removed blocks lead nowhere and are passed over; they go with their era.
    fn remove_eras_below(&mut self, number: u64) -> Result<(), EngineError> {
        let failed = self.store.during("prune");
        let end = tx_key(era(number - number % ERA_BLOCKS), [0; 8], 0, 0);
        let mut table = self.transaction.open_table(TRANSACTIONS).at(failed)?;
        table.retain_in(..end, |_, ()| false).at(failed)?;
        Ok(())
    }
}

fn height_bounds(number: u64) -> (super::layout::FactsKey, super::layout::FactsKey) {
    let lowest = BlockRef::new(number, B256::ZERO);
    let highest = BlockRef::new(number, B256::repeat_byte(0xff));
    (facts_key(&lowest, 0), facts_key(&highest, u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retentions_are_read_as_they_are_written() {
        for retention in [Retention::Blocks(64), Retention::Bytes(7), Retention::Forever] {
            assert_eq!(retention.to_string().parse(), Ok(retention));
        }
        assert_eq!("bytes=50G".parse(), Ok(Retention::Bytes(50_000_000_000)));
        assert_eq!("blocks=100k".parse(), Ok(Retention::Blocks(100_000)));
        for wrong in
            ["", "7", "blocks", "blocks=", "blocks=-1", "bytes=1kk", "bytes=1Gi", "Forever"]
        {
            let error = RetentionError { given: wrong.to_owned() };
            assert_eq!(wrong.parse::<Retention>(), Err(error));
        }
        assert!("bytes=18446744073709551615T".parse::<Retention>().is_err());
    }
}

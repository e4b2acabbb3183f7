//! Which stretches are exported as segments.

use crate::{Location, SegmentsError, manifest::SegmentEntry};
use prestate_store::{ArchiveReader, ReadError};
use std::{num::NonZeroU64, ops::RangeInclusive};

/// Stretches of canonical blocks without a gap, cut at multiples of `segment_blocks`, ascending:
/// whoever exports a chain cuts it at the same places.
pub(crate) fn stretches(
    reader: &ArchiveReader,
    numbers: &RangeInclusive<u64>,
    segment_blocks: NonZeroU64,
    sealed: bool,
) -> Result<Vec<(u64, u64)>, ReadError> {
    let Some((lowest, highest)) = reader.range()? else { return Ok(Vec::new()) };
    let first = *numbers.start().max(&lowest.number);
    let last = *numbers.end().min(&highest.number);
    let mut cut = Vec::new();
    if first > last {
        return Ok(cut);
    }
    let mut from = first;
    for gap in reader.gaps(first..=last)? {
        if gap.start() > &from {
            cut_up((from, gap.start() - 1), segment_blocks, &mut cut);
        }
        match gap.end().checked_add(1) {
            Some(next) => from = next,
            None => return Ok(cut),
        }
    }
    if from <= last {
        cut_up((from, last), segment_blocks, &mut cut);
    }
    if sealed && cut.last().is_some_and(|(_, last)| !ends_a_segment(*last, segment_blocks)) {
        cut.pop();
    }
    Ok(cut)
}

fn ends_a_segment(number: u64, segment_blocks: NonZeroU64) -> bool {
    number % segment_blocks == segment_blocks.get() - 1
}

fn cut_up((mut first, last): (u64, u64), segment_blocks: NonZeroU64, cut: &mut Vec<(u64, u64)>) {
    loop {
        let end = first.saturating_add(segment_blocks.get() - 1 - first % segment_blocks);
        cut.push((first, end.min(last)));
        if end >= last {
            return;
        }
        first = end + 1;
    }
}

/// What of a stretch is to be exported, beside segments that are there; `None` if they have all.
///
/// A segment of the archive's own chain is kept where it reaches out of the stretch, since the
/// archive may have been pruned or cut otherwise since; one within the stretch is replaced by the
/// whole; one of another branch is replaced, unless blocks below the stretch would be lost.
pub(crate) fn beside(
    reader: &ArchiveReader,
    location: &Location,
    there: &[SegmentEntry],
    (mut first, mut last): (u64, u64),
) -> Result<Option<(u64, u64)>, SegmentsError> {
    for entry in there {
        if !entry.overlaps(first, last) {
            continue;
        }
        let (lowest, highest) = entry.ends();
        let same = |held: Option<_>, hash| held.map(|held: alloy_primitives::B256| held == hash);
        let on_chain = match same(reader.canonical_hash(highest.number)?, highest.hash) {
            Some(on_chain) => on_chain,
            // Beyond what is at hand: nothing speaks against it but its other end.
            None => same(reader.canonical_hash(lowest.number)?, lowest.hash).unwrap_or(true),
        };
        if !on_chain {
            if lowest.number < first {
                return Err(SegmentsError::WouldLose {
                    location: location.to_string(),
                    digest: entry.digest,
                    lowest: first,
                });
            }
            continue;
        }
        match (lowest.number < first, highest.number > last) {
            (false, false) => {}
            (true, above) if above || highest.number == last => return Ok(None),
            (true, _) => first = highest.number + 1,
            (false, true) if lowest.number == first => return Ok(None),
            (false, true) => last = lowest.number - 1,
        }
    }
    Ok(Some((first, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_at_multiples() {
        let cut = |stretch, blocks| {
            let mut cut = Vec::new();
            cut_up(stretch, NonZeroU64::new(blocks).unwrap(), &mut cut);
            cut
        };
        assert_eq!(cut((0, 9), 10), [(0, 9)]);
        assert_eq!(cut((5, 25), 10), [(5, 9), (10, 19), (20, 25)]);
        assert_eq!(cut((7, 7), 10), [(7, 7)]);
        assert_eq!(cut((u64::MAX - 1, u64::MAX), 1000), [(u64::MAX - 1, u64::MAX)]);
        assert_eq!(cut((3, 5), 1), [(3, 3), (4, 4), (5, 5)]);
        assert!(ends_a_segment(19, NonZeroU64::new(10).unwrap()));
        assert!(!ends_a_segment(20, NonZeroU64::new(10).unwrap()));
    }
}

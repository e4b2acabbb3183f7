use crate::{
    Location, SegmentsError,
    manifest::{Manifest, SegmentEntry},
    plan::{beside, stretches},
};
use bytes::Bytes;
use prestate_store::{ArchiveReader, ReadError};
use std::{num::NonZeroU64, ops::RangeInclusive};

/// 1,024 blocks: some 60 MB on mainnet, which is made in memory and sent in one request.
pub const DEFAULT_SEGMENT_BLOCKS: NonZeroU64 = match NonZeroU64::new(1024) {
    Some(blocks) => blocks,
    None => NonZeroU64::MIN,
};

/// Segments after which the manifest is written in between.
const MANIFEST_EVERY: usize = 256;

/// What to export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Heights; those that are not held are left out.
    pub numbers: RangeInclusive<u64>,
    /// Segments end at multiples of this many blocks. One location takes one value.
    pub segment_blocks: NonZeroU64,
    /// Leave out the segment at the head that is still growing.
    pub sealed: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self { numbers: 0..=u64::MAX, segment_blocks: DEFAULT_SEGMENT_BLOCKS, sealed: false }
    }
}

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// Segments written.
    pub written: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Segments that were there.
    pub present: u64,
    /// Blocks in both.
    pub blocks: u64,
    /// Segments that left the manifest for others in their place. Their objects stay.
    pub replaced: u64,
}

/// Brings the segments of an archive to a location. Segments that are there are passed over by
/// their hash, so that an export that was interrupted goes on, and a repeated one adds what is
/// new. The manifest is replaced once what it lists is there; importers meanwhile go by the one
/// they read. `progress` is told blocks done and blocks in all.
///
/// At any time there should be one export to a location: of two, one loses its entries in the
/// manifest, and finds its segments again the next time.
///
/// # Errors
///
/// As [`SegmentsError`] says. What was written stays.
pub fn export(
    reader: &ArchiveReader,
    location: &Location,
    options: &ExportOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<ExportReport, SegmentsError> {
    let chain = reader.chain();
    let found = location.find_manifest()?;
    let mut manifest = match found {
        Some(manifest) if manifest.chain() != chain => {
            return Err(SegmentsError::OtherChain {
                location: location.to_string(),
                segments: manifest.chain(),
                archive: chain,
            });
        }
        Some(ref manifest) => manifest.clone(),
        None => Manifest::new(chain),
    };
    let plan = stretches(reader, &options.numbers, options.segment_blocks, options.sealed)?;
    if plan.is_empty() && !(options.sealed && reader.range()?.is_some()) {
        let (first, last) = (*options.numbers.start(), *options.numbers.end());
        return Err(SegmentsError::Empty { first, last });
    }
    let total = plan.iter().map(|(first, last)| last - first + 1).sum();
    let (mut done, mut unwritten) = (0, 0);
    let mut report = ExportReport::default();
    for stretch in plan {
        let blocks = stretch.1 - stretch.0 + 1;
        match beside(reader, location, manifest.segments(), stretch)? {
            None => report.present += 1,
            Some(stretch) => {
                let entry = bring(reader, location, &manifest, stretch, &mut report)?;
                if !manifest.segments().contains(&entry) {
                    report.replaced += manifest.put(entry) as u64;
                    unwritten += 1;
                }
            }
        }
        if unwritten == MANIFEST_EVERY {
            location.write_manifest(&manifest)?;
            unwritten = 0;
        }
        report.blocks += blocks;
        done += blocks;
        progress(done, total);
    }
    if unwritten > 0 || found.is_none() {
        location.write_manifest(&manifest)?;
    }
    Ok(report)
}

/// Makes sure that the segment of a stretch is there.
fn bring(
    reader: &ArchiveReader,
    location: &Location,
    manifest: &Manifest,
    (first, last): (u64, u64),
    report: &mut ExportReport,
) -> Result<SegmentEntry, SegmentsError> {
    // Equal blocks make equal bytes: a segment of the same ends need not be made again.
    for entry in manifest.segments() {
        if (entry.first, entry.last) == (first, last)
            && holds_all(reader, entry)?
            && reader.facts_held(first..=last)? == entry.facts
            && location.holds(&entry.digest, entry.bytes)?
        {
            report.present += 1;
            return Ok(*entry);
        }
    }
    let mut segment = Vec::new();
    let info = reader.export(first..=last, &mut segment)?;
    let entry = SegmentEntry::new(&info);
    if location.holds(&entry.digest, entry.bytes)? {
        report.present += 1;
    } else {
        location.put_segment(&entry.digest, Bytes::from(segment))?;
        report.written += 1;
        report.written_bytes += entry.bytes;
    }
    Ok(entry)
}

/// Whether the canonical chain passes through both ends of a segment without a gap: what is
/// between them is the same then, since blocks name their parents.
pub(crate) fn holds_all(reader: &ArchiveReader, entry: &SegmentEntry) -> Result<bool, ReadError> {
    let (first, last) = entry.ends();
    Ok(reader.canonical_hash(first.number)? == Some(first.hash)
        && reader.canonical_hash(last.number)? == Some(last.hash)
        && reader.gaps(first.number..=last.number)?.is_empty())
}

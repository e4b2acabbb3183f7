use crate::{Location, SegmentsError, export::holds_all, manifest::SegmentEntry};
use prestate_store::{ArchiveReader, ArchiveWriter, ImportError, ReadError, WriteError};
use std::ops::RangeInclusive;

/// What to import.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Segments with blocks of these heights, taken in whole.
    pub numbers: RangeInclusive<u64>,
    /// Where the archive's canonical chain goes another way than the segments', take it back and
    /// follow them. The blocks that lose their place stay held under their hashes. Without, such a
    /// segment is an error.
    pub follow: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { numbers: 0..=u64::MAX, follow: false }
    }
}

/// What was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportReport {
    /// Segments read.
    pub segments: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Segments whose blocks were all held, and that were not read.
    pub present: u64,
    /// Blocks in both.
    pub blocks: u64,
    /// Blocks that were new.
    pub stored: u64,
    /// Blocks that lost their place on the canonical chain.
    pub reverted: u64,
}

/// Takes the segments of a location into an archive. Each is held against its digest before
/// anything of it is written. Segments whose blocks are all held are not read, so that an import
/// that was interrupted goes on, and a repeated one takes what is new. `progress` is told blocks
/// done and blocks in all.
///
/// # Errors
///
/// As [`SegmentsError`] says. Segments taken in before stay.
pub fn import(
    writer: &mut ArchiveWriter,
    location: &Location,
    options: &ImportOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<ImportReport, SegmentsError> {
    let manifest = location.manifest()?;
    let reader = writer.reader();
    if manifest.chain() != reader.chain() {
        return Err(SegmentsError::OtherChain {
            location: location.to_string(),
            segments: manifest.chain(),
            archive: reader.chain(),
        });
    }
    let (first, last) = (*options.numbers.start(), *options.numbers.end());
    let mut report = ImportReport::default();
    let mut wanted = Vec::new();
    for entry in manifest.segments().iter().filter(|entry| entry.overlaps(first, last)) {
        report.blocks += entry.blocks();
        if is_held(&reader, entry)? {
            report.present += 1;
        } else {
            wanted.push(*entry);
        }
    }
    if report.blocks == 0 && (first, last) != (0, u64::MAX) {
        return Err(SegmentsError::Empty { first, last });
    }
    let total = wanted.iter().map(SegmentEntry::blocks).sum();
    let mut done = 0;
    // The next one is read while one is written.
    let mut next = wanted.first().map(|entry| location.begin_fetch(entry));
    for at in 1..=wanted.len() {
        let Some(fetch) = next.take() else { break };
        let entry = fetch.entry;
        let segment = location.finish_fetch(fetch)?;
        next = wanted.get(at).map(|entry| location.begin_fetch(entry));
        let taken = match writer.import(&segment[..]) {
            Err(ImportError::Write(error)) if options.follow && is_other_branch(&error) => {
                let mut batch = writer.batch()?;
                report.reverted += batch.revert_from(entry.first)?.len() as u64;
                batch.commit()?;
                writer.import(&segment[..])
            }
            taken => taken,
        };
        let object = location.segment_object(&entry.digest);
        let taken = taken.map_err(|source| SegmentsError::Import { object, source })?;
        report.segments += 1;
        report.bytes += entry.bytes;
        report.stored += taken.stored;
        done += entry.blocks();
        progress(done, total);
    }
    Ok(report)
}

fn is_held(reader: &ArchiveReader, entry: &SegmentEntry) -> Result<bool, ReadError> {
    Ok(holds_all(reader, entry)? && reader.facts_held(entry.first..=entry.last)? >= entry.facts)
}

fn is_other_branch(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Occupied { .. }
            | WriteError::ParentMismatch { .. }
            | WriteError::ChildMismatch { .. }
    )
}

use super::{
    ArchiveWriter, EngineError, RecordId, WriteError,
    layout::{CODES, Totals, parse_codes_key},
    reader::record_error,
    store::EngineResult,
};
use crate::codec;
use alloy_primitives::map::B256Set;

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Space the file took on the disk before.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
}

/// What sweeping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Codes removed.
    pub codes: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl ArchiveWriter {
    /// Gives free pages back to the file system. Takes time in proportion to the archive; reads of
    /// this process wait meanwhile. Every moment of it is safe to be killed in.
    ///
    /// # Errors
    ///
    /// [`WriteError::Engine`], also while another process holds a read open. Nothing is lost.
    pub fn compact(&mut self) -> Result<CompactReport, WriteError> {
        let store = self.store();
        let length = || super::disk_bytes(&store.file);
        let bytes_before = length();
        store.exclusive("compact", |database| {
            // One pass may leave room for another.
            while database.compact().at(store.during("compact"))? {}
            Ok(())
        })?;
        Ok(CompactReport { bytes_before, bytes_after: length() })
    }

    /// Has the engine walk its own pages and check their sums. Returns whether all was well; if
    /// not, it was put right from the last commit. Reads of this process wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`WriteError::Engine`] where it could not be put right.
    pub fn check_engine(&mut self) -> Result<bool, WriteError> {
        let store = self.store();
        Ok(store
            .exclusive("check", |database| database.check_integrity().at(store.during("check")))?)
    }

    /// Removes codes that no held block speaks of any more, after pruning. Reads every record.
    ///
    /// # Errors
    ///
    /// [`WriteError::Record`] where a block cannot be read: what it speaks of is not known then,
    /// and nothing is removed. [`WriteError::Engine`].
    pub fn sweep_codes(&mut self) -> Result<SweepReport, WriteError> {
        let mut used = B256Set::default();
        let reader = self.reader();
        let mut after = None;
        loop {
            let records = reader.records_after(after)?;
            let Some((last, _, _)) = records.last() else { break };
            after = Some(*last);
            for (_, entry, record) in &records {
                let hashes = codec::code_hashes(record).map_err(|source| {
                    record_error(self.store(), RecordId::Block(entry.summary.block), source)
                })?;
                used.extend(hashes);
            }
        }
        self.held_codes.clear();
        let store = self.store().clone();
        let mut batch = self.unguarded_batch()?;
        let mut report = SweepReport::default();
        store.guarded("sweep", || {
            let failed = store.during("sweep");
            let mut table = batch.transaction.open_table(CODES).at(failed)?;
            table
                .retain(|key, piece| {
                    let (hash, number) = parse_codes_key(&key);
                    let keep = used.contains(&hash);
                    if !keep {
                        report.codes += u64::from(number == 0);
                        report.bytes += piece.len() as u64;
                    }
                    keep
                })
                .at(failed)?;
            Ok::<_, EngineError>(())
        })?;
        let Totals { codes, code_bytes, .. } = &mut batch.totals;
        *codes = codes.saturating_sub(report.codes);
        *code_bytes = code_bytes.saturating_sub(report.bytes);
        batch.commit()?;
        Ok(report)
    }
}

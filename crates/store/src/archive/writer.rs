use super::{
    ArchiveReader, EngineError, RecordId, SpaceGuard, SpaceState, WriteError,
    layout::{
        BLOCKS, BlockEntry, CANONICAL, CODES, FACTS, META, TOTALS_KEY, TRANSACTIONS, Totals, TxKey,
        codes_key, era, facts_key, pieces, tx_key, tx_prefix,
    },
    store::{EngineResult, Store},
};
use crate::codec::{self, EncodedBlock};
use alloy_primitives::{B256, map::B256Set};
use prestate_types::{BlockFacts, BlockRef, Codes};
use redb::{ReadableTable, WriteTransaction};
use std::sync::Arc;

/// The one writer of an archive. There is no second one: neither in this process, by type, nor in
/// another, by a lock on the file.
#[derive(Debug)]
pub struct ArchiveWriter {
    pub(super) reader: ArchiveReader,
    /// Some codes that are held for sure: a block speaks of some two hundred, nearly all of them
    /// known, and asking the engine for each would take as long as storing the block.
    pub(super) held_codes: B256Set,
}

/// Codes remembered as held: 2 MiB of hashes.
const MAX_HELD_CODES: usize = 1 << 16;

/// What became of a block handed to [`ArchiveBatch::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Appended {
    /// It is new.
    Stored,
    /// Its change as a whole was held; now its facts are.
    Completed,
    /// At least as much was held already, and was left as it is.
    Known,
}

impl ArchiveWriter {
    pub(super) fn store(&self) -> &Arc<Store> {
        &self.reader.store
    }

    /// A reader of the same archive.
    pub fn reader(&self) -> ArchiveReader {
        self.reader.clone()
    }

    /// The guard that stops writing before the disk is full.
    pub fn space(&self) -> &SpaceGuard {
        &self.reader.space
    }

    /// Starts a group of changes that become visible and durable together.
    ///
    /// # Errors
    ///
    /// [`WriteError::LowSpace`] while space is low; [`WriteError::Engine`].
    pub fn batch(&mut self) -> Result<ArchiveBatch<'_>, WriteError> {
        self.reader.space.check()?;
        self.unguarded_batch()
    }

    /// A batch that gives space back, and so must not be refused for want of it.
    pub(super) fn unguarded_batch(&mut self) -> Result<ArchiveBatch<'_>, WriteError> {
        let store = self.store();
        let transaction = store.begin_write()?;
        let totals = store.guarded("read totals of", || {
            let failed = "read totals of";
            let table = transaction.open_table(META).at(store.during(failed))?;
            let value = table.get(TOTALS_KEY).at(store.during(failed))?;
            Ok::<_, EngineError>(
                value.map(|value| Totals::from_bytes(&value.value())).unwrap_or_default(),
            )
        })?;
        Ok(ArchiveBatch {
            store: self.reader.store.clone(),
            transaction,
            totals,
            tx_keys: Vec::new(),
            codes: B256Set::default(),
            writer: self,
        })
    }

    /// Stores one block by itself: [`ArchiveBatch::append`] and [`ArchiveBatch::commit`].
    ///
    /// # Errors
    ///
    /// As those two; nothing is stored then, but see [`ArchiveBatch::commit`] for failed syncs.
    pub fn append(
        &mut self,
        facts: &BlockFacts,
        codes: &Codes,
        canonical: bool,
    ) -> Result<Appended, WriteError> {
        let encoded = EncodedBlock::of_facts(facts).map_err(|source| WriteError::Record {
            path: self.store().file.clone(),
            record: RecordId::Block(facts.summary.block),
            source,
        })?;
        let mut batch = self.batch()?;
        let appended = batch.append(&encoded, codes, canonical)?;
        batch.commit()?;
        Ok(appended)
    }

    /// Makes a held block canonical, by itself: see [`ArchiveBatch::set_canonical`].
    ///
    /// # Errors
    ///
    /// As [`ArchiveBatch::set_canonical`] and [`ArchiveBatch::commit`].
    pub fn set_canonical(&mut self, hash: &B256) -> Result<(), WriteError> {
        let mut batch = self.batch()?;
        batch.set_canonical(hash)?;
        batch.commit()
    }

    /// Takes the canonical chain back to a block, by itself: see [`ArchiveBatch::revert_to`].
    ///
    /// # Errors
    ///
    /// As [`ArchiveBatch::revert_to`] and [`ArchiveBatch::commit`].
    pub fn revert_to(&mut self, block: &BlockRef) -> Result<Vec<BlockRef>, WriteError> {
        let mut batch = self.batch()?;
        let dropped = batch.revert_to(block)?;
        batch.commit()?;
        Ok(dropped)
    }

    /// Looks at the disk: whether a batch would be refused at present.
    pub fn space_state(&self) -> SpaceState {
        self.reader.space.state()
    }
}

/// Changes that become visible and durable together, or not at all. Dropping a batch undoes it.
pub struct ArchiveBatch<'w> {
    pub(super) store: Arc<Store>,
    pub(super) transaction: WriteTransaction,
    pub(super) totals: Totals,
    /// Inserted in order at the end, so that neighbours land in the same page.
    tx_keys: Vec<TxKey>,
    /// Codes this batch found held, or stores.
    codes: B256Set,
    writer: &'w mut ArchiveWriter,
}

impl std::fmt::Debug for ArchiveBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveBatch").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl ArchiveBatch<'_> {
    /// Stores a block. `codes` must hold every code it speaks of that is not in the archive yet;
    /// more do no harm and are not stored.
    ///
    /// With `canonical` it becomes the canonical block of its height, which must be vacant, and
    /// must fit the canonical blocks above and below it, where there are any. Without, a place on
    /// the canonical chain it has is kept.
    ///
    /// Appending the same block again changes nothing, except that facts replace a mere block
    /// diff.
    ///
    /// # Errors
    ///
    /// [`WriteError::MissingCode`], [`WriteError::Occupied`], [`WriteError::ParentMismatch`],
    /// [`WriteError::ChildMismatch`]: the batch is as before. [`WriteError::Record`] for a code
    /// over 64 MiB, [`WriteError::Engine`]: drop the batch.
    pub fn append(
        &mut self,
        block: &EncodedBlock,
        codes: &Codes,
        canonical: bool,
    ) -> Result<Appended, WriteError> {
        let store = self.store.clone();
        store.guarded("append to", || {
            let new_codes = self.new_codes(block, codes)?;
            if canonical {
                self.check_link(block.summary.block, block.summary.parent_hash)?;
            }
            let appended = self.store_block(block)?;
            for (hash, record) in new_codes {
                self.store_code(&hash, &record)?;
            }
            if canonical {
                self.link(block.summary.block)?;
            }
            Ok(appended)
        })
    }

    /// Records of the codes that are not held yet. Notes those that are.
    fn new_codes(
        &mut self,
        block: &EncodedBlock,
        codes: &Codes,
    ) -> Result<Vec<(B256, Vec<u8>)>, WriteError> {
        let failed = self.store.during("append to");
        let table = self.transaction.open_table(CODES).at(failed)?;
        let mut new = Vec::new();
        for hash in &block.code_hashes {
            if self.writer.held_codes.contains(hash) || self.codes.contains(hash) {
                continue;
            }
            if table.get(&codes_key(hash, 0)).at(failed)?.is_some() {
                self.codes.insert(*hash);
                continue;
            }
            let block = block.summary.block;
            let code = codes.get(hash).ok_or(WriteError::MissingCode { block, code: *hash })?;
            let record = codec::encode_code(&code).map_err(|source| WriteError::Record {
                path: self.store.file.clone(),
                record: RecordId::Code(*hash),
                source,
            })?;
            new.push((*hash, record));
        }
        Ok(new)
    }

    fn store_block(&mut self, block: &EncodedBlock) -> Result<Appended, WriteError> {
        let store = self.store.clone();
        let failed = store.during("append to");
        let EncodedBlock { summary, tx_hashes, record, complete, .. } = block;
        let number = summary.block.number;
        let held = self.entry(&summary.block.hash)?;
        if held.is_some_and(|held| held.complete || !complete) {
            return Ok(Appended::Known);
        }
        if let Some(held) = &held {
            self.remove_record(held)?;
        }
        let entry = BlockEntry {
            summary: *summary,
            record_bytes: record.len() as u64,
            // A record holds at most 64 MiB of hashes: two million.
            tx_count: tx_hashes.len() as u32,
            complete: *complete,
        };
        let mut facts = self.transaction.open_table(FACTS).at(failed)?;
        for (piece, bytes) in pieces(record) {
            facts.insert(&facts_key(&summary.block, piece), bytes).at(failed)?;
        }
        let mut blocks = self.transaction.open_table(BLOCKS).at(failed)?;
        blocks.insert(&summary.block.hash.0, &entry.to_bytes()).at(failed)?;
        let keys = tx_hashes
            .iter()
            .zip(0u32..)
            .map(|(hash, index)| tx_key(era(number), tx_prefix(hash), number, index));
        self.tx_keys.extend(keys);
        self.totals.add_block(entry.record_bytes, u64::from(entry.tx_count));
        Ok(if held.is_some() { Appended::Completed } else { Appended::Stored })
    }

    fn store_code(&mut self, hash: &B256, record: &[u8]) -> Result<(), EngineError> {
        let failed = self.store.during("append to");
        let mut table = self.transaction.open_table(CODES).at(failed)?;
        for (piece, bytes) in pieces(record) {
            table.insert(&codes_key(hash, piece), bytes).at(failed)?;
        }
        self.codes.insert(*hash);
        self.totals.codes += 1;
        self.totals.code_bytes += record.len() as u64;
        Ok(())
    }

    /// Stores the record of a code as another archive held it, unless it is there.
    pub(super) fn import_code(&mut self, hash: &B256, record: &[u8]) -> Result<(), EngineError> {
        let known = {
            let failed = self.store.during("append to");
            let table = self.transaction.open_table(CODES).at(failed)?;
            table.get(&codes_key(hash, 0)).at(failed)?.is_some()
        };
        if known { Ok(()) } else { self.store_code(hash, record) }
    }

    /// Removes a block's pieces and its entry.
    pub(super) fn remove_record(&mut self, entry: &BlockEntry) -> Result<(), EngineError> {
        let failed = self.store.during("remove from");
        let block = &entry.summary.block;
        let mut facts = self.transaction.open_table(FACTS).at(failed)?;
        facts
            .retain_in(facts_key(block, 0)..=facts_key(block, u16::MAX), |_, _| false)
            .at(failed)?;
        let mut blocks = self.transaction.open_table(BLOCKS).at(failed)?;
        blocks.remove(&block.hash.0).at(failed)?;
        self.totals.remove_block(entry);
        Ok(())
    }

    /// Makes a held block the canonical one of its height.
    ///
    /// # Errors
    ///
    /// [`WriteError::UnknownBlock`], [`WriteError::Occupied`], [`WriteError::ParentMismatch`],
    /// [`WriteError::ChildMismatch`]: the batch is as before. [`WriteError::Engine`]: drop it.
    pub fn set_canonical(&mut self, hash: &B256) -> Result<(), WriteError> {
        let store = self.store.clone();
        store.guarded("write to", || {
            let entry = self.entry(hash)?.ok_or(WriteError::UnknownBlock { hash: *hash })?;
            self.check_link(entry.summary.block, entry.summary.parent_hash)?;
            self.link(entry.summary.block)
        })
    }

    /// Takes the canonical chain back to `block`: all above lose their place, and stay held under
    /// their hashes. Returns them, the lowest first.
    ///
    /// # Errors
    ///
    /// [`WriteError::NotCanonical`]: the batch is as before. [`WriteError::Engine`]: drop it.
    pub fn revert_to(&mut self, block: &BlockRef) -> Result<Vec<BlockRef>, WriteError> {
        let canonical = {
            let failed = self.store.during("read");
            let table = self.transaction.open_table(CANONICAL).at(failed)?;
            table.get(&block.number.to_be_bytes()).at(failed)?.map(|hash| B256::from(hash.value()))
        };
        if canonical != Some(block.hash) {
            return Err(WriteError::NotCanonical { block: *block });
        }
        match block.number.checked_add(1) {
            Some(first) => self.revert_from(first),
            None => Ok(Vec::new()),
        }
    }

    /// Takes the place on the canonical chain from all blocks of height `first` and above; for a
    /// common ancestor that is not held. Returns them, the lowest first.
    ///
    /// # Errors
    ///
    /// [`WriteError::Engine`]: drop the batch.
    pub fn revert_from(&mut self, first: u64) -> Result<Vec<BlockRef>, WriteError> {
        let store = self.store.clone();
        store.guarded("write to", || {
            let failed = self.store.during("write to");
            let mut table = self.transaction.open_table(CANONICAL).at(failed)?;
            let mut dropped = Vec::new();
            table
                .retain_in(first.to_be_bytes().., |number, hash| {
                    dropped.push(BlockRef::new(u64::from_be_bytes(number), hash.into()));
                    false
                })
                .at(failed)?;
            dropped.sort_unstable();
            Ok(dropped)
        })
    }

    /// Whether a block may stand on the canonical chain.
    fn check_link(&self, block: BlockRef, parent: B256) -> Result<(), WriteError> {
        let failed = self.store.during("read");
        let table = self.transaction.open_table(CANONICAL).at(failed)?;
        let canonical = |number: Option<u64>| {
            let Some(number) = number else { return Ok(None) };
            let value = table.get(&number.to_be_bytes()).at(failed)?;
            Ok::<_, EngineError>(value.map(|hash| B256::from(hash.value())))
        };
        if let Some(canonical) = canonical(Some(block.number))? {
            return if canonical == block.hash {
                Ok(())
            } else {
                Err(WriteError::Occupied { block, canonical })
            };
        }
        if let Some(canonical) = canonical(block.number.checked_sub(1))?
            && canonical != parent
        {
            return Err(WriteError::ParentMismatch { block, parent, canonical });
        }
        if let Some(hash) = canonical(block.number.checked_add(1))? {
            let entry = self.entry(&hash)?.ok_or(WriteError::UnknownBlock { hash })?;
            if entry.summary.parent_hash != block.hash {
                let above = entry.summary.block;
                let parent = entry.summary.parent_hash;
                return Err(WriteError::ChildMismatch { block, above, parent });
            }
        }
        Ok(())
    }

    fn link(&mut self, block: BlockRef) -> Result<(), WriteError> {
        let failed = self.store.during("write to");
        let mut table = self.transaction.open_table(CANONICAL).at(failed)?;
        table.insert(&block.number.to_be_bytes(), &block.hash.0).at(failed)?;
        Ok(())
    }

    pub(super) fn entry(&self, hash: &B256) -> Result<Option<BlockEntry>, EngineError> {
        let failed = self.store.during("read");
        let table = self.transaction.open_table(BLOCKS).at(failed)?;
        let value = table.get(&hash.0).at(failed)?;
        Ok(value.map(|value| BlockEntry::from_bytes(*hash, &value.value())))
    }

    /// Makes the batch durable, then visible: when this returns, it survives a crash or a loss of
    /// power.
    ///
    /// # Errors
    ///
    /// [`WriteError::Engine`]. Nothing that was committed before is touched. The batch is not
    /// visible to this process's readers, unless the very last sync is what failed: then it may
    /// be, whole; appending it again is right in either case. Where the cause was a full disk, the
    /// archive serves on and takes batches again once there is space.
    pub fn commit(mut self) -> Result<(), WriteError> {
        let store = self.store.clone();
        let result = store.guarded("commit to", || {
            let failed = store.during("commit to");
            self.tx_keys.sort_unstable();
            {
                let mut table = self.transaction.open_table(TRANSACTIONS).at(failed)?;
                for key in &self.tx_keys {
                    table.insert(key, ()).at(failed)?;
                }
                let mut table = self.transaction.open_table(META).at(failed)?;
                table.insert(TOTALS_KEY, &self.totals.to_bytes()).at(failed)?;
            }
            self.transaction.commit().at(failed)
        });
        match result {
            Ok(()) => {
                let held = &mut self.writer.held_codes;
                if held.len() + self.codes.len() > MAX_HELD_CODES {
                    held.clear();
                }
                held.extend(self.codes);
                Ok(())
            }
            Err(error) => {
                // The engine refuses everything after a failed write until it is opened anew.
                store.reopen();
                Err(error.into())
            }
        }
    }
}

use super::{
    ArchiveStats, ChainId, EngineError, ReadError, RecordId, SpaceGuard,
    layout::{
        BLOCKS, BlockEntry, CANONICAL, CODES, FACTS, FORMAT_VERSION, TRANSACTIONS, codes_key,
        facts_key, parse_facts_key, parse_tx_key, tx_key, tx_prefix,
    },
    store::{EngineResult, Store},
};
use crate::{
    RecordError,
    codec::{self, KeptBlock},
};
use alloy_primitives::{B256, Bytes};
use prestate_types::{BlockFacts, BlockRef, BlockSummary, KECCAK_EMPTY};
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};
use std::{ops::RangeInclusive, path::Path, sync::Arc};

/// Reads an archive. Clones are cheap and serve many threads at once; a read sees one committed
/// state of the archive and neither waits for the writer nor holds it up.
#[derive(Debug, Clone)]
pub struct ArchiveReader {
    pub(super) store: Arc<Store>,
    pub(super) space: Arc<SpaceGuard>,
    pub(super) chain: ChainId,
}

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxPlace {
    /// Its block.
    pub block: BlockRef,
    /// Its place in the block, from zero.
    pub index: u64,
    /// Whether the block is canonical. A canonical place is preferred to another.
    pub canonical: bool,
}

impl ArchiveReader {
    /// The chain whose blocks the archive holds.
    pub fn chain(&self) -> ChainId {
        self.chain
    }

    /// The archive's folder.
    pub fn path(&self) -> &Path {
        &self.store.folder
    }

    /// What is held of a block, canonical or not; `None` without the block.
    ///
    /// # Errors
    ///
    /// [`ReadError::Record`] for a torn or corrupt record, [`ReadError::Engine`] otherwise.
    pub fn block(&self, hash: &B256) -> Result<Option<KeptBlock>, ReadError> {
        let Some((block, record)) = self.record_of(hash)? else { return Ok(None) };
        self.decode(&block, &record).map(Some)
    }

    /// The facts of a block, canonical or not; `None` without the block, or where only its change
    /// as a whole is held.
    ///
    /// # Errors
    ///
    /// As for [`Self::block`].
    pub fn facts(&self, hash: &B256) -> Result<Option<BlockFacts>, ReadError> {
        Ok(match self.block(hash)? {
            Some(KeptBlock::Facts(facts)) => Some(facts),
            Some(KeptBlock::DiffOnly(_)) | None => None,
        })
    }

    /// Number, parent and time of a block, without reading its facts.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn summary(&self, hash: &B256) -> Result<Option<BlockSummary>, ReadError> {
        self.view(|view| Ok(view.entry(hash)?.map(|entry| entry.summary)))
    }

    /// The canonical block of a height.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn canonical_hash(&self, number: u64) -> Result<Option<B256>, ReadError> {
        self.view(|view| view.canonical(number))
    }

    /// Whether a block is held and canonical.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn is_canonical(&self, hash: &B256) -> Result<bool, ReadError> {
        self.view(|view| {
            let Some(entry) = view.entry(hash)? else { return Ok(false) };
            Ok(view.canonical(entry.summary.block.number)? == Some(*hash))
        })
    }

    /// Canonical blocks of a stretch, ascending, from one state of the archive; at most `limit`.
    /// Heights that are not held are left out.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn canonical_blocks(
        &self,
        numbers: RangeInclusive<u64>,
        limit: usize,
    ) -> Result<Vec<BlockRef>, ReadError> {
        self.view(|view| {
            let (from, to) = (numbers.start().to_be_bytes(), numbers.end().to_be_bytes());
            let table = view.table(CANONICAL)?;
            let entries = table.range(from..=to).at(view.store.during("read"))?;
            let mut blocks = Vec::new();
            for entry in entries.take(limit) {
                let (number, hash) = entry.at(view.store.during("read"))?;
                let number = u64::from_be_bytes(number.value());
                blocks.push(BlockRef::new(number, hash.value().into()));
            }
            Ok(blocks)
        })
    }

    /// Heights of a stretch without a canonical block, ascending.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn gaps(
        &self,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>, ReadError> {
        self.view(|view| {
            let (from, to) = (numbers.start().to_be_bytes(), numbers.end().to_be_bytes());
            let table = view.table(CANONICAL)?;
            let entries = table.range(from..=to).at(view.store.during("read"))?;
            let mut gaps = Vec::new();
            let mut next = Some(*numbers.start());
            for entry in entries {
                let (number, _) = entry.at(view.store.during("read"))?;
                let number = u64::from_be_bytes(number.value());
                if let Some(next) = next.filter(|next| *next < number) {
                    gaps.push(next..=number - 1);
                }
                next = number.checked_add(1);
            }
            if let Some(next) = next.filter(|next| next <= numbers.end()) {
                gaps.push(next..=*numbers.end());
            }
            Ok(gaps)
        })
    }

    /// Heights of a stretch whose canonical block is not held with all facts, ascending: what a
    /// back-fill has to do.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn without_facts(&self, numbers: RangeInclusive<u64>) -> Result<Vec<u64>, ReadError> {
        self.view(|view| {
            let (from, to) = (numbers.start().to_be_bytes(), numbers.end().to_be_bytes());
            let table = view.table(CANONICAL)?;
            let mut heights = Vec::new();
            let mut next = *numbers.start();
            for entry in table.range(from..=to).at(view.store.during("read"))? {
                let (number, hash) = entry.at(view.store.during("read"))?;
                let number = u64::from_be_bytes(number.value());
                heights.extend(next..number);
                if !view.entry(&hash.value().into())?.is_some_and(|entry| entry.complete) {
                    heights.push(number);
                }
                next = number.saturating_add(1);
            }
            heights.extend(next..=*numbers.end());
            Ok(heights)
        })
    }

    /// How many canonical blocks of a stretch are held with all facts.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn facts_held(&self, numbers: RangeInclusive<u64>) -> Result<u64, ReadError> {
        self.view(|view| {
            let (from, to) = (numbers.start().to_be_bytes(), numbers.end().to_be_bytes());
            let table = view.table(CANONICAL)?;
            let mut held = 0;
            for entry in table.range(from..=to).at(view.store.during("read"))? {
                let (_, hash) = entry.at(view.store.during("read"))?;
                let entry = view.entry(&hash.value().into())?;
                held += u64::from(entry.is_some_and(|entry| entry.complete));
            }
            Ok(held)
        })
    }

    /// The lowest and the highest canonical block; `None` for an archive without.
    ///
    /// There may be [gaps](Self::gaps) in between.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn range(&self) -> Result<Option<(BlockRef, BlockRef)>, ReadError> {
        self.view(|view| view.range())
    }

    /// Where a transaction stands; the canonical place if there are several.
    ///
    /// # Errors
    ///
    /// As for [`Self::block`].
    pub fn transaction(&self, hash: &B256) -> Result<Option<TxPlace>, ReadError> {
        self.view(|view| view.transaction(hash))
    }

    /// A contract's code. The empty code is always known.
    ///
    /// # Errors
    ///
    /// As for [`Self::block`].
    pub fn code(&self, hash: &B256) -> Result<Option<Bytes>, ReadError> {
        if *hash == KECCAK_EMPTY {
            return Ok(Some(Bytes::new()));
        }
        let Some(record) = self.view(|view| view.code_record(hash))? else { return Ok(None) };
        let code = codec::decode_code(&record)
            .map_err(|source| record_error(&self.store, RecordId::Code(*hash), source))?;
        Ok(Some(code.into()))
    }

    /// Counts and sizes; also records them as metrics.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`].
    pub fn stats(&self) -> Result<ArchiveStats, ReadError> {
        let (totals, range, canonical_blocks) = self.view(|view| {
            let table = view.table(CANONICAL)?;
            let canonical =
                redb::ReadableTableMetadata::len(&table).at(view.store.during("read"))?;
            Ok((view.store.totals(view.snapshot)?, view.range()?, canonical))
        })?;
        let stats = ArchiveStats {
            chain: self.chain,
            format_version: FORMAT_VERSION,
            blocks: totals.blocks,
            canonical_blocks,
            range,
            facts_bytes: totals.facts_bytes,
            codes: totals.codes,
            code_bytes: totals.code_bytes,
            transactions: totals.transactions,
            disk_bytes: super::disk_bytes(&self.store.file),
            space: self.space.state(),
        };
        stats.record();
        Ok(stats)
    }

    /// The record of a block as it lies in the archive.
    pub(super) fn record_of(&self, hash: &B256) -> Result<Option<(BlockRef, Vec<u8>)>, ReadError> {
        self.view(|view| {
            let Some(entry) = view.entry(hash)? else { return Ok(None) };
            let block = entry.summary.block;
            Ok(Some((block, view.facts_record(&block, entry.record_bytes)?)))
        })
    }

    /// Decodes a record and makes sure that it is of the block it was found under.
    pub(super) fn decode(&self, block: &BlockRef, record: &[u8]) -> Result<KeptBlock, ReadError> {
        let error = |source| record_error(&self.store, RecordId::Block(*block), source);
        let kept = codec::decode_block(record).map_err(error)?;
        if kept.summary().block == *block {
            Ok(kept)
        } else {
            Err(error(RecordError::Malformed { what: "it is of another block" }))
        }
    }

    pub(super) fn view<T>(
        &self,
        read: impl Fn(&View<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        self.store.read(|snapshot| read(&View { store: &self.store, snapshot }))
    }
}

pub(super) fn record_error(store: &Store, record: RecordId, source: RecordError) -> ReadError {
    ReadError::Record { path: store.file.clone(), record, source }
}

/// One committed state of the archive.
pub(super) struct View<'a> {
    pub(super) store: &'a Store,
    pub(super) snapshot: &'a ReadTransaction,
}

impl View<'_> {
    pub(super) fn table<K: redb::Key, V: redb::Value>(
        &self,
        table: redb::TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>, EngineError> {
        self.snapshot.open_table(table).at(self.store.during("read"))
    }

    pub(super) fn entry(&self, hash: &B256) -> Result<Option<BlockEntry>, ReadError> {
        let table = self.table(BLOCKS)?;
        let value = table.get(&hash.0).at(self.store.during("read"))?;
        Ok(value.map(|value| BlockEntry::from_bytes(*hash, &value.value())))
    }

    pub(super) fn canonical(&self, number: u64) -> Result<Option<B256>, ReadError> {
        let table = self.table(CANONICAL)?;
        let value = table.get(&number.to_be_bytes()).at(self.store.during("read"))?;
        Ok(value.map(|value| value.value().into()))
    }

    fn range(&self) -> Result<Option<(BlockRef, BlockRef)>, ReadError> {
        let table = self.table(CANONICAL)?;
        let first = table.first().at(self.store.during("read"))?;
        let last = table.last().at(self.store.during("read"))?;
        let block =
            |(number, hash): (redb::AccessGuard<'_, [u8; 8]>, redb::AccessGuard<'_, [u8; 32]>)| {
                BlockRef::new(u64::from_be_bytes(number.value()), hash.value().into())
            };
        Ok(first.map(block).zip(last.map(block)))
    }

    /// All pieces of a block's record. Missing ones show as a record that is too short.
    pub(super) fn facts_record(
        &self,
        block: &BlockRef,
        record_bytes: u64,
    ) -> Result<Vec<u8>, ReadError> {
        let table = self.table(FACTS)?;
        let pieces = table
            .range(facts_key(block, 0)..=facts_key(block, u16::MAX))
            .at(self.store.during("read"))?;
        // The length comes from another table and only says how much to set aside.
        let mut record = Vec::with_capacity(record_bytes.min(1 << 20) as usize);
        for piece in pieces {
            let (_, piece) = piece.at(self.store.during("read"))?;
            record.extend_from_slice(piece.value());
        }
        Ok(record)
    }

    pub(super) fn code_record(&self, hash: &B256) -> Result<Option<Vec<u8>>, ReadError> {
        let table = self.table(CODES)?;
        let pieces = table
            .range(codes_key(hash, 0)..=codes_key(hash, u16::MAX))
            .at(self.store.during("read"))?;
        let mut record = None;
        for piece in pieces {
            let (_, piece) = piece.at(self.store.during("read"))?;
            record.get_or_insert_with(Vec::new).extend_from_slice(piece.value());
        }
        Ok(record)
    }

    fn transaction(&self, hash: &B256) -> Result<Option<TxPlace>, ReadError> {
        let table = self.table(TRANSACTIONS)?;
        let failed = self.store.during("read");
        let prefix = tx_prefix(hash);
        let mut newest = table.last().at(failed)?;
        let mut elsewhere = None;
        while let Some((last, _)) = newest {
            let (era, ..) = parse_tx_key(&last.value());
            let first = tx_key(era, prefix, 0, 0);
            let last = tx_key(era, prefix, u64::MAX, u32::MAX);
            for entry in table.range(first..=last).at(failed)? {
                let (key, ()) = entry.at(failed).map(|(key, _)| (key, ()))?;
                let (_, number, index) = parse_tx_key(&key.value());
                match self.place(hash, number, index)? {
                    Some(place) if place.canonical => return Ok(Some(place)),
                    other => elsewhere = elsewhere.or(other),
                }
            }
            newest = table
                .range(..tx_key(era, [0; 8], 0, 0))
                .at(failed)?
                .next_back()
                .transpose()
                .at(failed)?;
        }
        Ok(elsewhere)
    }

    /// The index holds the first bytes of a hash and a height: what stands there decides.
    fn place(&self, hash: &B256, number: u64, index: u32) -> Result<Option<TxPlace>, ReadError> {
        let canonical = self.canonical(number)?;
        let mut elsewhere = None;
        for block in self.blocks_at(number)? {
            let record = self.facts_record(&block, 0)?;
            let hashes = codec::tx_hashes(&record)
                .map_err(|source| record_error(self.store, RecordId::Block(block), source))?;
            if hashes.get(index as usize) != Some(hash) {
                continue;
            }
            let canonical = canonical == Some(block.hash);
            let place = TxPlace { block, index: u64::from(index), canonical };
            if canonical {
                return Ok(Some(place));
            }
            elsewhere = Some(place);
        }
        Ok(elsewhere)
    }

    /// All blocks of a height.
    pub(super) fn blocks_at(&self, number: u64) -> Result<Vec<BlockRef>, ReadError> {
        let table = self.table(FACTS)?;
        let last = facts_key(&BlockRef::new(number, B256::repeat_byte(0xff)), u16::MAX);
        let mut blocks = Vec::new();
        let mut next = facts_key(&BlockRef::new(number, B256::ZERO), 0);
        while let Some(entry) = table.range(next..=last).at(self.store.during("read"))?.next() {
            let (key, _) = entry.at(self.store.during("read"))?;
            let (block, _) = parse_facts_key(&key.value());
            blocks.push(block);
            next = facts_key(&block, u16::MAX);
        }
        Ok(blocks)
    }
}

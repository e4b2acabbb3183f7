use super::{
    EncodedBlock, RecordError, flags,
    record::{KIND_BLOCK_DIFF, KIND_CODE, KIND_FACTS, Record},
    stream::{Reader, TAG_EXPLICIT},
    tables::{Known, Tables},
};
use alloy_primitives::{Address, B256, U256};
use prestate_types::{
    AccountDelta, AccountInfo, BlockDiff, BlockFacts, BlockRef, BlockSummary, KECCAK_EMPTY,
    SlotDelta, StateDiff, TxDiff, ZeroReads,
};

/// What the archive holds of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptBlock {
    /// Everything.
    Facts(BlockFacts),
    /// The change of the block as a whole; its transactions are not known, or not trusted.
    DiffOnly(BlockDiff),
}

impl KeptBlock {
    /// The block.
    pub fn summary(&self) -> &BlockSummary {
        match self {
            Self::Facts(facts) => &facts.summary,
            Self::DiffOnly(block) => &block.summary,
        }
    }

    /// The change of the block as a whole.
    pub fn block_diff(&self) -> StateDiff {
        match self {
            Self::Facts(facts) => facts.fold(),
            Self::DiffOnly(block) => block.diff.clone(),
        }
    }
}

/// Reads a record that [`EncodedBlock`](super::EncodedBlock) made.
///
/// # Errors
///
/// Whatever is wrong with the bytes; any bytes are safe to pass.
pub fn decode_block(bytes: &[u8]) -> Result<KeptBlock, RecordError> {
    let record = Record::open(bytes)?;
    if !matches!(record.kind, KIND_FACTS | KIND_BLOCK_DIFF) {
        record.expect_kind(KIND_FACTS)?;
    }
    let (shape, words) = (record.shape()?, record.words()?);
    let mut input = Reader { plain: record.plain, shape: &shape, words: &words };
    let (hash, parent_hash) = (input.hash()?, input.hash()?);
    let block = BlockRef::new(input.varint()?, hash);
    let summary = BlockSummary { block, parent_hash, timestamp: input.varint()? };
    let tx_hashes = input.hashes(record.tx_count)?;
    let mut decoder = Decoder::new(input)?;
    if record.kind == KIND_BLOCK_DIFF {
        let diff = decoder.diff()?;
        decoder.input.finish()?;
        return Ok(KeptBlock::DiffOnly(BlockDiff { summary, diff }));
    }
    let given = decoder.input.byte()? != 0;
    let mut txs = Vec::with_capacity(tx_hashes.len());
    for (hash, place) in tx_hashes.into_iter().zip(0u64..) {
        let index = if given { decoder.input.varint()? } else { place };
        txs.push(TxDiff { hash, index, ..TxDiff::default() });
    }
    let pre_system = decoder.diff()?;
    for tx in &mut txs {
        tx.diff = decoder.diff()?;
        tx.zero_reads = decoder.zero_reads()?;
    }
    let post_system = decoder.diff()?;
    decoder.input.finish()?;
    Ok(KeptBlock::Facts(BlockFacts { summary, pre_system, txs, post_system }))
}

impl EncodedBlock {
    /// Takes a record that another archive made, after reading it once.
    pub(crate) fn of_record(record: Vec<u8>) -> Result<Self, RecordError> {
        let kept = decode_block(&record)?;
        Ok(Self {
            summary: *kept.summary(),
            tx_hashes: tx_hashes(&record)?,
            code_hashes: code_hashes(&record)?,
            complete: matches!(kept, KeptBlock::Facts(_)),
            record,
        })
    }
}

/// The transaction hashes of a block's record, in order, without unpacking it.
pub(crate) fn tx_hashes(bytes: &[u8]) -> Result<Vec<B256>, RecordError> {
    let record = Record::open(bytes)?;
    let mut input = Reader { plain: record.plain, shape: &[], words: &[] };
    // The block's own and its parent's come first.
    input.hash()?;
    input.hash()?;
    input.hashes(record.tx_count)
}

/// Hashes of the codes a block's record speaks of, without unpacking it.
pub(crate) fn code_hashes(bytes: &[u8]) -> Result<Vec<B256>, RecordError> {
    let record = Record::open(bytes)?;
    let mut input = Reader { plain: record.plain, shape: &[], words: &[] };
    input.hash()?;
    input.hash()?;
    input.hashes(record.tx_count)?;
    let count = input.plain.len() / 32;
    input.hashes(count)
}

/// Reads a contract's code.
pub(crate) fn decode_code(bytes: &[u8]) -> Result<Vec<u8>, RecordError> {
    let record = Record::open(bytes)?;
    record.expect_kind(KIND_CODE)?;
    record.words()
}

impl Reader<'_> {
    fn hashes(&mut self, count: usize) -> Result<Vec<B256>, RecordError> {
        if count > self.plain.len() / 32 {
            return Err(RecordError::Malformed { what: "more transactions than hashes" });
        }
        (0..count).map(|_| self.hash()).collect()
    }
}

struct Decoder<'a> {
    input: Reader<'a>,
    tables: Tables,
    known: Known,
}

impl<'a> Decoder<'a> {
    fn new(mut input: Reader<'a>) -> Result<Self, RecordError> {
        let mut tables = Tables::default();
        for _ in 0..input.count()? {
            tables.addresses.push(input.address()?);
            tables.starts.push(tables.slots.len());
            let mut previous = U256::ZERO;
            for _ in 0..input.count()? {
                previous = input.word(previous)?;
                tables.slots.push(previous.into());
            }
        }
        tables.starts.push(tables.slots.len());
        if !tables.addresses.is_sorted_by(|a, b| a < b) {
            return Err(RecordError::Malformed { what: "addresses out of order" });
        }
        let codes = input.varint()?;
        for _ in 0..codes {
            tables.codes.push(input.hash()?);
        }
        let known = Known::nothing(&tables);
        Ok(Self { input, tables, known })
    }

    fn diff(&mut self) -> Result<StateDiff, RecordError> {
        let count = self.input.count()?;
        let mut accounts: Vec<(Address, AccountDelta)> = Vec::with_capacity(count.min(1024));
        let mut next = 0;
        for _ in 0..count {
            let left = self.tables.addresses.len() - next;
            let index = next + self.input.index(left)?;
            next = index + 1;
            let mut delta = self.account(index)?;
            delta.storage = self.storage(index)?;
            accounts.push((self.tables.addresses[index], delta));
        }
        Ok(StateDiff::from_unsorted(accounts))
    }

    fn account(&mut self, index: usize) -> Result<AccountDelta, RecordError> {
        let bits = self.input.byte()?;
        let has = |flag: u8| bits & flag != 0;
        let pre = if !has(flags::PRE_GIVEN) {
            self.known.accounts[index]
                .ok_or(RecordError::Malformed { what: "account follows from nothing" })?
        } else if has(flags::PRE_EXISTS) {
            let nonce = self.input.varint()?;
            let balance = self.input.word(U256::ZERO)?;
            Some(AccountInfo { nonce, balance, code_hash: self.code()? })
        } else {
            None
        };
        let mut post = pre.unwrap_or_default();
        if has(flags::NONCE_UP) {
            post.nonce = post
                .nonce
                .checked_add(1)
                .ok_or(RecordError::Malformed { what: "nonce over 64 bits" })?;
        }
        if has(flags::NONCE_GIVEN) {
            post.nonce = self.input.varint()?;
        }
        if has(flags::BALANCE) {
            post.balance = self.input.word(post.balance)?;
        }
        if has(flags::CODE) {
            post.code_hash = self.code()?;
        }
        let post = has(flags::POST_EXISTS).then_some(post);
        self.known.accounts[index] = Some(post);
        Ok(AccountDelta { pre, post, storage: Vec::new(), wiped: has(flags::WIPED) })
    }

    fn code(&mut self) -> Result<B256, RecordError> {
        let index = self.input.index(self.tables.codes.len() + 1)?;
        Ok(index.checked_sub(1).map_or(KECCAK_EMPTY, |index| self.tables.codes[index]))
    }

    fn storage(&mut self, index: usize) -> Result<Vec<SlotDelta>, RecordError> {
        let count = self.input.count()?;
        let slots = self.tables.starts[index]..self.tables.starts[index + 1];
        let mut storage = Vec::with_capacity(count.min(1024));
        let mut at = slots.start;
        for _ in 0..count {
            at += self.input.index(slots.end - at)?;
            let known = self.known.slots[at];
            let tag = self.input.byte()?;
            let (pre, post) = match known {
                Some(pre) if tag != TAG_EXPLICIT => (pre, self.input.tagged_word(tag, pre)?),
                _ => {
                    let tag = if known.is_some() { self.input.byte()? } else { tag };
                    let pre = self.input.tagged_word(tag, U256::ZERO)?;
                    (pre, self.input.word(pre)?)
                }
            };
            self.known.slots[at] = Some(post);
            storage.push(SlotDelta::new(self.tables.slots[at], pre.into(), post.into()));
        }
        Ok(storage)
    }

    fn zero_reads(&mut self) -> Result<ZeroReads, RecordError> {
        let count = self.input.count()?;
        let mut reads = ZeroReads::with_capacity(count.min(1024));
        for _ in 0..count {
            let index = self.input.index(self.tables.addresses.len())?;
            let mut slots = Vec::new();
            for _ in 0..self.input.count()? {
                let table = self.tables.slots_of(index);
                slots.push(table[self.input.index(table.len())?]);
            }
            reads.push((self.tables.addresses[index], slots));
        }
        Ok(reads)
    }
}

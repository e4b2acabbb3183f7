use super::{
    RecordError, flags,
    record::{KIND_BLOCK_DIFF, KIND_CODE, KIND_FACTS, Sections, seal},
    stream::TAG_EXPLICIT,
    tables::{Known, Tables},
};
use alloy_primitives::{B256, U256};
use prestate_types::{
    AccountDelta, AccountInfo, BlockDiff, BlockFacts, BlockSummary, SlotDelta, StateDiff, ZeroReads,
};

/// A block as the archive keeps it. Making one needs no archive, so that a pool can do it beside
/// the one writer.
#[derive(Debug, Clone)]
pub struct EncodedBlock {
    pub(crate) summary: BlockSummary,
    pub(crate) tx_hashes: Vec<B256>,
    pub(crate) code_hashes: Vec<B256>,
    pub(crate) record: Vec<u8>,
    pub(crate) complete: bool,
}

impl EncodedBlock {
    /// All facts of a block.
    ///
    /// # Errors
    ///
    /// [`RecordError::TooLarge`] when a section exceeds 64 MiB.
    pub fn of_facts(facts: &BlockFacts) -> Result<Self, RecordError> {
        let BlockFacts { summary, pre_system, txs, post_system } = facts;
        let diffs = || {
            std::iter::once(pre_system)
                .chain(txs.iter().map(|tx| &tx.diff))
                .chain(std::iter::once(post_system))
        };
        let tables = Tables::of(diffs(), txs.iter().map(|tx| &tx.zero_reads));
        let mut encoder = Encoder::new(tables, summary);
        let tx_hashes: Vec<_> = txs.iter().map(|tx| tx.hash).collect();
        for hash in &tx_hashes {
            encoder.out.hash(hash);
        }
        encoder.tables();
        let in_order = txs.iter().zip(0u64..).all(|(tx, place)| tx.index == place);
        encoder.out.byte(u8::from(!in_order));
        if !in_order {
            for tx in txs {
                encoder.out.varint(tx.index);
            }
        }
        encoder.diff(pre_system)?;
        for tx in txs {
            encoder.diff(&tx.diff)?;
            encoder.zero_reads(&tx.zero_reads)?;
        }
        encoder.diff(post_system)?;
        let record = seal(KIND_FACTS, txs.len(), &encoder.out)?;
        Ok(Self {
            summary: *summary,
            tx_hashes,
            code_hashes: encoder.tables.codes,
            record,
            complete: true,
        })
    }

    /// A block of which only the change as a whole is known; [`Self::of_facts`] of the same block
    /// replaces it later.
    ///
    /// # Errors
    ///
    /// [`RecordError::TooLarge`] when a section exceeds 64 MiB.
    pub fn of_block_diff(block: &BlockDiff) -> Result<Self, RecordError> {
        let BlockDiff { summary, diff } = block;
        let tables = Tables::of(std::iter::once(diff), std::iter::empty());
        let mut encoder = Encoder::new(tables, summary);
        encoder.tables();
        encoder.diff(diff)?;
        let record = seal(KIND_BLOCK_DIFF, 0, &encoder.out)?;
        Ok(Self {
            summary: *summary,
            tx_hashes: Vec::new(),
            code_hashes: encoder.tables.codes,
            record,
            complete: false,
        })
    }

    /// The block.
    pub fn summary(&self) -> &BlockSummary {
        &self.summary
    }

    /// Codes the block speaks of, each once: what the archive must hold to render it.
    pub fn code_hashes(&self) -> &[B256] {
        &self.code_hashes
    }

    /// Bytes it takes in the archive, codes and index apart.
    pub fn record_bytes(&self) -> u64 {
        self.record.len() as u64
    }

    /// The record as it is stored.
    pub fn record(&self) -> &[u8] {
        &self.record
    }
}

/// A contract's code as the archive keeps it.
pub(crate) fn encode_code(code: &[u8]) -> Result<Vec<u8>, RecordError> {
    let sections = Sections { words: code.to_vec(), ..Sections::default() };
    seal(KIND_CODE, 0, &sections)
}

struct Encoder {
    out: Sections,
    tables: Tables,
    known: Known,
}

impl Encoder {
    fn new(tables: Tables, summary: &BlockSummary) -> Self {
        let known = Known::nothing(&tables);
        let mut out = Sections::default();
        out.hash(&summary.block.hash);
        out.hash(&summary.parent_hash);
        out.varint(summary.block.number);
        out.varint(summary.timestamp);
        Self { out, tables, known }
    }

    fn tables(&mut self) {
        let Self { out, tables, .. } = self;
        out.count(tables.addresses.len());
        for (index, address) in tables.addresses.iter().enumerate() {
            out.address(address);
            let slots = tables.slots_of(index);
            out.count(slots.len());
            let mut previous = U256::ZERO;
            for slot in slots {
                let slot = U256::from_be_bytes(slot.0);
                out.word(slot, previous);
                previous = slot;
            }
        }
        out.count(tables.codes.len());
        for code in &tables.codes {
            out.hash(code);
        }
    }

    fn diff(&mut self, diff: &StateDiff) -> Result<(), RecordError> {
        self.out.count(diff.len());
        let mut next = 0;
        for (address, delta) in diff {
            let index = self.tables.address(address)?;
            let step = index
                .checked_sub(next)
                .ok_or(RecordError::Malformed { what: "accounts out of order" })?;
            self.out.count(step);
            next = index + 1;
            self.account(index, delta);
            self.storage(index, &delta.storage)?;
        }
        Ok(())
    }

    fn account(&mut self, index: usize, delta: &AccountDelta) {
        let pre_given = self.known.accounts[index] != Some(delta.pre);
        let base = delta.pre.unwrap_or_default();
        let mut bits = if delta.wiped { flags::WIPED } else { 0 };
        if pre_given {
            bits |= flags::PRE_GIVEN;
            bits |= if delta.pre.is_some() { flags::PRE_EXISTS } else { 0 };
        }
        if let Some(post) = delta.post {
            bits |= flags::POST_EXISTS;
            if base.nonce.checked_add(1) == Some(post.nonce) {
                bits |= flags::NONCE_UP;
            } else if base.nonce != post.nonce {
                bits |= flags::NONCE_GIVEN;
            }
            bits |= if base.balance == post.balance { 0 } else { flags::BALANCE };
            bits |= if base.code_hash == post.code_hash { 0 } else { flags::CODE };
        }
        self.out.byte(bits);
        if let Some(AccountInfo { nonce, balance, .. }) = delta.pre.filter(|_| pre_given) {
            self.out.varint(nonce);
            self.out.word(balance, U256::ZERO);
            self.out.count(self.tables.code(&base));
        }
        if let Some(post) = delta.post {
            if bits & flags::NONCE_GIVEN != 0 {
                self.out.varint(post.nonce);
            }
            if bits & flags::BALANCE != 0 {
                self.out.word(post.balance, base.balance);
            }
            if bits & flags::CODE != 0 {
                self.out.count(self.tables.code(&post));
            }
        }
        self.known.accounts[index] = Some(delta.post);
    }

    fn storage(&mut self, index: usize, storage: &[SlotDelta]) -> Result<(), RecordError> {
        self.out.count(storage.len());
        let start = self.tables.starts[index];
        let mut last = 0;
        for slot in storage {
            let at = self.tables.slot(index, &slot.slot)?;
            let step = at
                .checked_sub(last)
                .ok_or(RecordError::Malformed { what: "slots out of order" })?;
            self.out.count(step);
            last = at;
            let (pre, post) = (U256::from_be_bytes(slot.pre.0), U256::from_be_bytes(slot.post.0));
            let known = &mut self.known.slots[start + at];
            if let Some(value) = *known
                && value != pre
            {
                self.out.byte(TAG_EXPLICIT);
            }
            if *known != Some(pre) {
                self.out.word(pre, U256::ZERO);
            }
            self.out.word(post, pre);
            *known = Some(post);
        }
        Ok(())
    }

    fn zero_reads(&mut self, reads: &ZeroReads) -> Result<(), RecordError> {
        self.out.count(reads.len());
        for (address, slots) in reads {
            let index = self.tables.address(address)?;
            self.out.count(index);
            self.out.count(slots.len());
            for slot in slots {
                let at = self.tables.slot(index, slot)?;
                self.out.count(at);
            }
        }
        Ok(())
    }
}

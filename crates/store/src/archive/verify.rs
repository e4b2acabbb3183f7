use super::{
    ArchiveReader, ReadError, RecordId,
    layout::{
        BLOCKS, BlockEntry, CODES, TRANSACTIONS, codes_key, era, parse_codes_key, tx_key, tx_prefix,
    },
    reader::View,
    store::EngineResult,
};
use crate::{RecordError, codec};
use alloy_primitives::{B256, keccak256};
use prestate_types::BlockRef;
use std::ops::Bound;
use thiserror::Error;

/// Records looked at in one go; each go sees the archive as it is then.
const CHUNK: usize = 64;
/// Problems listed one by one; more are counted only.
const MAX_LISTED: usize = 1000;

/// Something in the archive that does not hold together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A record is torn or corrupt.
    #[error("{record}: {source}")]
    Record {
        /// Which.
        record: RecordId,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The block table says something else than the block's record.
    #[error("block {block}: its entry in the block table does not match its record")]
    Entry {
        /// The block.
        block: BlockRef,
    },
    /// A block speaks of a code that is not held.
    #[error("block {block}: code {code} is missing")]
    MissingCode {
        /// The block.
        block: BlockRef,
        /// Hash of the code.
        code: B256,
    },
    /// A code does not have the hash it is kept under.
    #[error("code {expected} has hash {found}")]
    CodeHash {
        /// Where it is kept.
        expected: B256,
        /// What it hashes to.
        found: B256,
    },
    /// A transaction cannot be found by its hash.
    #[error("block {block}: transaction {index} is not in the index")]
    Index {
        /// Its block.
        block: BlockRef,
        /// Its place.
        index: u32,
    },
    /// A canonical block is not held.
    #[error("canonical block {block} is missing")]
    CanonicalMissing {
        /// The block.
        block: BlockRef,
    },
    /// Two canonical blocks follow each other without being parent and child.
    #[error("canonical block {block} has parent {parent}, but {below} is canonical below it")]
    BrokenChain {
        /// The upper one.
        block: BlockRef,
        /// Its parent.
        parent: B256,
        /// The canonical block one below.
        below: B256,
    },
}

/// Result of looking at everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Blocks looked at.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Codes looked at.
    pub codes: u64,
    /// Canonical blocks looked at.
    pub canonical_blocks: u64,
    /// What was found, the first thousand.
    pub problems: Vec<Problem>,
    /// How many were found.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < MAX_LISTED {
            self.problems.push(problem);
        }
    }
}

impl ArchiveReader {
    /// Reads and checks every record, entry and link. `progress` is told the number of blocks done
    /// from time to time. The archive may be written to meanwhile.
    ///
    /// # Errors
    ///
    /// [`ReadError::Engine`] where the engine cannot read on. What is wrong with single records is
    /// in the report.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<VerifyReport, ReadError> {
        let mut report = VerifyReport::default();
        let mut after = None;
        loop {
            let records = self.records_after(after)?;
            let Some((last, _, _)) = records.last() else { break };
            after = Some(*last);
            for (_, entry, record) in records {
                report.blocks += 1;
                self.verify_block(&entry, &record, &mut report)?;
            }
            progress(report.blocks);
        }
        self.verify_codes(&mut report)?;
        self.verify_chain(&mut report)?;
        Ok(report)
    }

    fn verify_block(
        &self,
        entry: &BlockEntry,
        record: &[u8],
        report: &mut VerifyReport,
    ) -> Result<(), ReadError> {
        let block = entry.summary.block;
        let kept = match self.decode(&block, record) {
            Ok(kept) => kept,
            Err(ReadError::Record { record, source, .. }) => {
                report.add(Problem::Record { record, source });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // Decoding read both already.
        let hashes = codec::tx_hashes(record).unwrap_or_default();
        let codes = codec::code_hashes(record).unwrap_or_default();
        report.transactions += hashes.len() as u64;
        let matches = *kept.summary() == entry.summary
            && entry.record_bytes == record.len() as u64
            && entry.tx_count as usize == hashes.len()
            && entry.complete == matches!(kept, codec::KeptBlock::Facts(_));
        if !matches {
            report.add(Problem::Entry { block });
        }
        let (missing, unlisted) = self.view(|view| {
            let failed = view.store.during("verify");
            let table = view.table(CODES)?;
            let mut missing = Vec::new();
            for code in &codes {
                if table.get(&codes_key(code, 0)).at(failed)?.is_none() {
                    missing.push(*code);
                }
            }
            let table = view.table(TRANSACTIONS)?;
            let mut unlisted = Vec::new();
            for (hash, index) in hashes.iter().zip(0..) {
                let key = tx_key(era(block.number), tx_prefix(hash), block.number, index);
                if table.get(&key).at(failed)?.is_none() {
                    unlisted.push(index);
                }
            }
            // A block pruned since then needs neither.
            let held = view.entry(&block.hash)?.is_some();
            Ok(if held { (missing, unlisted) } else { Default::default() })
        })?;
        for code in missing {
            report.add(Problem::MissingCode { block, code });
        }
        for index in unlisted {
            report.add(Problem::Index { block, index });
        }
        Ok(())
    }

    fn verify_codes(&self, report: &mut VerifyReport) -> Result<(), ReadError> {
        let mut after: Option<B256> = None;
        loop {
            let hashes = self.view(|view| view.codes_after(after))?;
            let Some(last) = hashes.last() else { return Ok(()) };
            after = Some(*last);
            for hash in hashes {
                report.codes += 1;
                match self.code(&hash) {
                    Ok(Some(code)) => {
                        let found = keccak256(&code);
                        if found != hash {
                            report.add(Problem::CodeHash { expected: hash, found });
                        }
                    }
                    // Swept since then.
                    Ok(None) => {}
                    Err(ReadError::Record { record, source, .. }) => {
                        report.add(Problem::Record { record, source });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn verify_chain(&self, report: &mut VerifyReport) -> Result<(), ReadError> {
        let mut from = 0;
        let mut below: Option<BlockRef> = None;
        loop {
            let blocks = self.canonical_blocks(from..=u64::MAX, CHUNK)?;
            let Some(last) = blocks.last().copied() else { return Ok(()) };
            for block in blocks {
                report.canonical_blocks += 1;
                let summary = self.summary(&block.hash)?;
                match summary {
                    Some(summary) if summary.block == block => {
                        if let Some(below) = below
                            && below.number.checked_add(1) == Some(block.number)
                            && below.hash != summary.parent_hash
                            && self.is_canonical(&block.hash)?
                        {
                            let parent = summary.parent_hash;
                            report.add(Problem::BrokenChain { block, parent, below: below.hash });
                        }
                    }
                    _ if self.canonical_hash(block.number)? == Some(block.hash) => {
                        report.add(Problem::CanonicalMissing { block });
                    }
                    _ => {}
                }
                below = Some(block);
            }
            match last.number.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Some blocks in the order of their hashes, the first of them after `after`, with records.
    pub(super) fn records_after(
        &self,
        after: Option<B256>,
    ) -> Result<Vec<(B256, BlockEntry, Vec<u8>)>, ReadError> {
        self.view(|view| {
            let failed = view.store.during("verify");
            let table = view.table(BLOCKS)?;
            let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.0));
            let entries = table.range((from, Bound::Unbounded)).at(failed)?;
            let mut records = Vec::new();
            for entry in entries.take(CHUNK) {
                let (hash, value) = entry.at(failed)?;
                let hash = B256::from(hash.value());
                let entry = BlockEntry::from_bytes(hash, &value.value());
                let record = view.facts_record(&entry.summary.block, entry.record_bytes)?;
                records.push((hash, entry, record));
            }
            Ok(records)
        })
    }
}

impl View<'_> {
    fn codes_after(&self, after: Option<B256>) -> Result<Vec<B256>, ReadError> {
        let failed = self.store.during("verify");
        let table = self.table(CODES)?;
        let from =
            after.map_or(Bound::Unbounded, |after| Bound::Excluded(codes_key(&after, u16::MAX)));
        let mut hashes = Vec::new();
        for entry in table.range((from, Bound::Unbounded)).at(failed)? {
            let (hash, piece) = parse_codes_key(&entry.at(failed)?.0.value());
            if piece == 0 {
                if hashes.len() == CHUNK {
                    break;
                }
                hashes.push(hash);
            }
        }
        Ok(hashes)
    }
}

//! Keys and fixed-size values, byte by byte. Mirrors `FORMAT.md`, "Tables".
//!
//! Keys are big endian, so that their bytes sort as their numbers do; values are little endian.

use alloy_primitives::B256;
use prestate_types::{BlockRef, BlockSummary};
use redb::TableDefinition;

/// Version of the layout this program writes, and the newest it opens.
pub const FORMAT_VERSION: u16 = 1;

/// The one file under the engine's care, in the archive's folder.
pub(crate) const STORE_FILE: &str = "archive.redb";

// Descriptor: `prestate.archive`, written once when the archive is made.
pub(crate) const DESCRIPTOR_FILE: &str = "prestate.archive";
pub(crate) const DESCRIPTOR_TEMPORARY_FILE: &str = "prestate.archive.new";
pub(crate) const DESCRIPTOR_MAGIC: [u8; 8] = *b"PRESTATE";
pub(crate) const DESCRIPTOR_MAGIC_OFFSET: usize = 0;
pub(crate) const DESCRIPTOR_VERSION_OFFSET: usize = 8;
pub(crate) const DESCRIPTOR_RESERVED_OFFSET: usize = 10;
pub(crate) const DESCRIPTOR_CHECKSUM_OFFSET: usize = 12;
pub(crate) const DESCRIPTOR_CHAIN_ID_OFFSET: usize = 16;
pub(crate) const DESCRIPTOR_GENESIS_OFFSET: usize = 24;
pub(crate) const DESCRIPTOR_LEN: usize = 56;

// `facts`: number u64 | block hash | piece u16 -> piece of the block's record.
pub(crate) const FACTS: TableDefinition<'_, FactsKey, &[u8]> = TableDefinition::new("facts");
pub(crate) const FACTS_NUMBER_OFFSET: usize = 0;
pub(crate) const FACTS_HASH_OFFSET: usize = 8;
pub(crate) const FACTS_PIECE_OFFSET: usize = 40;
pub(crate) const FACTS_KEY_LEN: usize = 42;
pub(crate) type FactsKey = [u8; FACTS_KEY_LEN];

// `codes`: code hash | piece u16 -> piece of the code's record.
pub(crate) const CODES: TableDefinition<'_, CodesKey, &[u8]> = TableDefinition::new("codes");
pub(crate) const CODES_PIECE_OFFSET: usize = 32;
pub(crate) const CODES_KEY_LEN: usize = 34;
pub(crate) type CodesKey = [u8; CODES_KEY_LEN];

// `blocks`: block hash -> what is asked for most, without unpacking the record.
pub(crate) const BLOCKS: TableDefinition<'_, [u8; 32], BlockValue> = TableDefinition::new("blocks");
pub(crate) const BLOCK_NUMBER_OFFSET: usize = 0;
pub(crate) const BLOCK_PARENT_OFFSET: usize = 8;
pub(crate) const BLOCK_TIMESTAMP_OFFSET: usize = 40;
pub(crate) const BLOCK_RECORD_BYTES_OFFSET: usize = 48;
pub(crate) const BLOCK_TX_COUNT_OFFSET: usize = 56;
pub(crate) const BLOCK_COMPLETE_OFFSET: usize = 60;
pub(crate) const BLOCK_VALUE_LEN: usize = 61;
pub(crate) type BlockValue = [u8; BLOCK_VALUE_LEN];

// `canonical`: number u64 -> block hash.
pub(crate) const CANONICAL: TableDefinition<'_, [u8; 8], [u8; 32]> =
    TableDefinition::new("canonical");

// `transactions`: era u32 | first eight bytes of the hash | number u64 | index u32 -> nothing.
pub(crate) const TRANSACTIONS: TableDefinition<'_, TxKey, ()> =
    TableDefinition::new("transactions");
pub(crate) const TX_ERA_OFFSET: usize = 0;
pub(crate) const TX_PREFIX_OFFSET: usize = 4;
pub(crate) const TX_NUMBER_OFFSET: usize = 12;
pub(crate) const TX_INDEX_OFFSET: usize = 20;
pub(crate) const TX_KEY_LEN: usize = 24;
pub(crate) type TxKey = [u8; TX_KEY_LEN];

/// Blocks whose transactions share one stretch of the index: 4,096.
///
/// Hashes fall anywhere, so an insertion touches a leaf of its own. Within an era there are about
/// five thousand leaves on mainnet: a batch of some hundred blocks rewrites each at most once, and
/// a pruned era goes as one range. A look-up asks every era, newest first.
pub(crate) const ERA_BLOCKS: u64 = 4096;

// `meta`: one entry, "totals".
pub(crate) const META: TableDefinition<'_, &str, TotalsValue> = TableDefinition::new("meta");
pub(crate) const TOTALS_KEY: &str = "totals";
pub(crate) const TOTALS_BLOCKS_OFFSET: usize = 0;
pub(crate) const TOTALS_FACTS_BYTES_OFFSET: usize = 8;
pub(crate) const TOTALS_CODES_OFFSET: usize = 16;
pub(crate) const TOTALS_CODE_BYTES_OFFSET: usize = 24;
pub(crate) const TOTALS_TRANSACTIONS_OFFSET: usize = 32;
pub(crate) const TOTALS_LEN: usize = 40;
pub(crate) type TotalsValue = [u8; TOTALS_LEN];

/// Piece lengths, largest first.
///
/// The engine gives a value the power of two of its pages that holds it, so a record of 33 KB in
/// one piece would take 64 KB. Cut like this, each piece fills its pages up to what the engine
/// writes beside it: header, offsets and key, 50 bytes.
pub(crate) const PIECE_LENGTHS: [usize; 3] =
    [16384 - PIECE_OVERHEAD, 8192 - PIECE_OVERHEAD, 4096 - PIECE_OVERHEAD];
pub(crate) const PIECE_OVERHEAD: usize = 64;

fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&value);
}

fn get<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[offset..offset + N]);
    value
}

pub(crate) fn facts_key(block: &BlockRef, piece: u16) -> FactsKey {
    let mut key = [0; FACTS_KEY_LEN];
    put(&mut key, FACTS_NUMBER_OFFSET, block.number.to_be_bytes());
    put(&mut key, FACTS_HASH_OFFSET, block.hash.0);
    put(&mut key, FACTS_PIECE_OFFSET, piece.to_be_bytes());
    key
}

/// The block and piece of a key.
pub(crate) fn parse_facts_key(key: &FactsKey) -> (BlockRef, u16) {
    let number = u64::from_be_bytes(get(key, FACTS_NUMBER_OFFSET));
    let hash = B256::from(get::<32>(key, FACTS_HASH_OFFSET));
    (BlockRef::new(number, hash), u16::from_be_bytes(get(key, FACTS_PIECE_OFFSET)))
}

pub(crate) fn codes_key(hash: &B256, piece: u16) -> CodesKey {
    let mut key = [0; CODES_KEY_LEN];
    put(&mut key, 0, hash.0);
    put(&mut key, CODES_PIECE_OFFSET, piece.to_be_bytes());
    key
}

pub(crate) fn parse_codes_key(key: &CodesKey) -> (B256, u16) {
    (B256::from(get::<32>(key, 0)), u16::from_be_bytes(get(key, CODES_PIECE_OFFSET)))
}

/// Era a block belongs to. Past 2^32 eras (block 1.8e13) all share the last one.
pub(crate) fn era(number: u64) -> u32 {
    u32::try_from(number / ERA_BLOCKS).unwrap_or(u32::MAX)
}

pub(crate) fn tx_key(era: u32, prefix: [u8; 8], number: u64, index: u32) -> TxKey {
    let mut key = [0; TX_KEY_LEN];
    put(&mut key, TX_ERA_OFFSET, era.to_be_bytes());
    put(&mut key, TX_PREFIX_OFFSET, prefix);
    put(&mut key, TX_NUMBER_OFFSET, number.to_be_bytes());
    put(&mut key, TX_INDEX_OFFSET, index.to_be_bytes());
    key
}

pub(crate) fn tx_prefix(hash: &B256) -> [u8; 8] {
    get(hash.as_slice(), 0)
}

/// Era, number and index of a key.
pub(crate) fn parse_tx_key(key: &TxKey) -> (u32, u64, u32) {
    (
        u32::from_be_bytes(get(key, TX_ERA_OFFSET)),
        u64::from_be_bytes(get(key, TX_NUMBER_OFFSET)),
        u32::from_be_bytes(get(key, TX_INDEX_OFFSET)),
    )
}

/// An entry of `blocks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub(crate) summary: BlockSummary,
    pub(crate) record_bytes: u64,
    pub(crate) tx_count: u32,
    pub(crate) complete: bool,
}

impl BlockEntry {
    pub(crate) fn to_bytes(self) -> BlockValue {
        let mut value = [0; BLOCK_VALUE_LEN];
        put(&mut value, BLOCK_NUMBER_OFFSET, self.summary.block.number.to_le_bytes());
        put(&mut value, BLOCK_PARENT_OFFSET, self.summary.parent_hash.0);
        put(&mut value, BLOCK_TIMESTAMP_OFFSET, self.summary.timestamp.to_le_bytes());
        put(&mut value, BLOCK_RECORD_BYTES_OFFSET, self.record_bytes.to_le_bytes());
        put(&mut value, BLOCK_TX_COUNT_OFFSET, self.tx_count.to_le_bytes());
        value[BLOCK_COMPLETE_OFFSET] = u8::from(self.complete);
        value
    }

    pub(crate) fn from_bytes(hash: B256, value: &BlockValue) -> Self {
        let number = u64::from_le_bytes(get(value, BLOCK_NUMBER_OFFSET));
        Self {
            summary: BlockSummary {
                block: BlockRef::new(number, hash),
                parent_hash: B256::from(get::<32>(value, BLOCK_PARENT_OFFSET)),
                timestamp: u64::from_le_bytes(get(value, BLOCK_TIMESTAMP_OFFSET)),
            },
            record_bytes: u64::from_le_bytes(get(value, BLOCK_RECORD_BYTES_OFFSET)),
            tx_count: u32::from_le_bytes(get(value, BLOCK_TX_COUNT_OFFSET)),
            complete: value[BLOCK_COMPLETE_OFFSET] != 0,
        }
    }
}

/// Running sums, kept with every commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) blocks: u64,
    pub(crate) facts_bytes: u64,
    pub(crate) codes: u64,
    pub(crate) code_bytes: u64,
    pub(crate) transactions: u64,
}

impl Totals {
    pub(crate) fn to_bytes(self) -> TotalsValue {
        let mut value = [0; TOTALS_LEN];
        put(&mut value, TOTALS_BLOCKS_OFFSET, self.blocks.to_le_bytes());
        put(&mut value, TOTALS_FACTS_BYTES_OFFSET, self.facts_bytes.to_le_bytes());
        put(&mut value, TOTALS_CODES_OFFSET, self.codes.to_le_bytes());
        put(&mut value, TOTALS_CODE_BYTES_OFFSET, self.code_bytes.to_le_bytes());
        put(&mut value, TOTALS_TRANSACTIONS_OFFSET, self.transactions.to_le_bytes());
        value
    }

    pub(crate) fn from_bytes(value: &TotalsValue) -> Self {
        let word = |offset| u64::from_le_bytes(get(value, offset));
        Self {
            blocks: word(TOTALS_BLOCKS_OFFSET),
            facts_bytes: word(TOTALS_FACTS_BYTES_OFFSET),
            codes: word(TOTALS_CODES_OFFSET),
            code_bytes: word(TOTALS_CODE_BYTES_OFFSET),
            transactions: word(TOTALS_TRANSACTIONS_OFFSET),
        }
    }

    pub(crate) fn add_block(&mut self, record_bytes: u64, tx_count: u64) {
        self.blocks += 1;
        self.facts_bytes += record_bytes;
        self.transactions += tx_count;
    }

    pub(crate) fn remove_block(&mut self, entry: &BlockEntry) {
        self.blocks = self.blocks.saturating_sub(1);
        self.facts_bytes = self.facts_bytes.saturating_sub(entry.record_bytes);
        self.transactions = self.transactions.saturating_sub(u64::from(entry.tx_count));
    }
}

/// Cuts a record into pieces: as long as possible, each of a length that fills its pages.
pub(crate) fn pieces(record: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = record;
    (0u16..).map_while(move |number| {
        let length =
            PIECE_LENGTHS.into_iter().find(|length| *length <= rest.len()).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(length);
        rest = tail;
        (!piece.is_empty()).then_some((number, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_as_their_numbers(a: (u64, u16), b: (u64, u16), hash: [u8; 32]) {
            let key = |(number, piece)| facts_key(&BlockRef::new(number, hash.into()), piece);
            prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
            prop_assert_eq!(parse_facts_key(&key(a)), (BlockRef::new(a.0, hash.into()), a.1));
            prop_assert_eq!(parse_codes_key(&codes_key(&hash.into(), a.1)), (hash.into(), a.1));
        }

        #[test]
        fn pieces_make_the_record(record in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let mut whole = Vec::new();
            for (number, (piece, bytes)) in pieces(&record).enumerate() {
                prop_assert_eq!(usize::from(piece), number);
                prop_assert!(!bytes.is_empty() && bytes.len() <= PIECE_LENGTHS[0]);
                whole.extend_from_slice(bytes);
            }
            prop_assert_eq!(whole, record);
        }

        #[test]
        fn entries_come_back(number: u64, hash: [u8; 32], bytes: u64, count: u32, complete: bool) {
            let summary = BlockSummary {
                block: BlockRef::new(number, hash.into()),
                parent_hash: B256::repeat_byte(7),
                timestamp: number ^ 1,
            };
            let entry = BlockEntry { summary, record_bytes: bytes, tx_count: count, complete };
            prop_assert_eq!(BlockEntry::from_bytes(hash.into(), &entry.to_bytes()), entry);
            let totals = Totals { blocks: number, facts_bytes: bytes, codes: 3, code_bytes: 4, transactions: 5 };
            prop_assert_eq!(Totals::from_bytes(&totals.to_bytes()), totals);
            let key = tx_key(era(number), tx_prefix(&hash.into()), number, count);
            prop_assert_eq!(parse_tx_key(&key), (era(number), number, count));
        }
    }
}

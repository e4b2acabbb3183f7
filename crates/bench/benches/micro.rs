//! The parts of the way from a diff to bytes, one by one, over a generated block of a mainnet
//! block's shape: `cargo bench -p prestate-bench --bench micro`.

#![allow(clippy::unwrap_used, reason = "a bench that cannot be set up ends")]

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use divan::{Bencher, black_box, counter::BytesCount};
use prestate_store::{EncodedBlock, decode_block};
use prestate_types::{
    AccountDelta, AccountInfo, BlockFacts, BlockRef, BlockSummary, Codes, GethOptions, SlotDelta,
    StateDiff, TxDiff,
};
use prestate_wire::{
    CodeTable, Encoding, KnownCodes, Rope, RopeBuilder, TraceList, splice, write_geth_diff,
};
use std::{collections::HashMap, sync::LazyLock};

fn main() {
    divan::main();
}

const SEED: u64 = 8;
const TRANSACTIONS: u64 = 200;
const CONTRACTS: u64 = 100;
/// Accounts with code that a transaction changes: 600 of a block show their code, as on mainnet.
const CONTRACTS_OF_TX: u64 = 3;
const SLOTS_OF_CONTRACT: u64 = 3;
/// Distinct slots of a contract: some are written again and again.
const SLOTS: u64 = 40;

/// Knuth's MMIX constants; the high bits are good enough for a shape.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn word(&mut self) -> B256 {
        keccak256(self.next().to_be_bytes())
    }
}

/// A block's facts with its codes.
struct Generated {
    facts: BlockFacts,
    codes: Codes,
}

static BLOCK: LazyLock<Generated> = LazyLock::new(generate);

fn generate() -> Generated {
    let mut random = Random(SEED);
    // Code repeats itself: the same few instructions in ever new order.
    let words: Vec<[u8; 8]> = (0..512).map(|_| random.word()[..8].try_into().unwrap()).collect();
    let mut codes = Codes::default();
    let contracts: Vec<_> = (0..CONTRACTS)
        .map(|_| {
            let words_of_code = 300 + random.below(1_500);
            let code: Vec<u8> =
                (0..words_of_code).flat_map(|_| words[random.below(512) as usize]).collect();
            let hash = keccak256(&code);
            codes.insert(hash, Bytes::from(code));
            (Address::from_word(random.word()), hash)
        })
        .collect();
    let mut balances: HashMap<Address, U256> = HashMap::new();
    let mut slots: HashMap<(Address, u64), B256> = HashMap::new();
    let mut txs = Vec::new();
    for index in 0..TRANSACTIONS {
        let mut accounts = HashMap::new();
        let sender = Address::from_word(random.word());
        let info = |nonce, balance: u64| AccountInfo {
            nonce,
            balance: U256::from(balance) << 20,
            ..AccountInfo::EMPTY
        };
        let paid = AccountDelta {
            pre: Some(info(index, 1 << 40)),
            post: Some(info(index + 1, (1 << 40) - 21_000)),
            ..AccountDelta::default()
        };
        accounts.insert(sender, paid);
        for _ in 0..CONTRACTS_OF_TX {
            let (address, code_hash) = contracts[random.below(CONTRACTS) as usize];
            let balance = balances.entry(address).or_default();
            let pre = AccountInfo { nonce: 1, balance: *balance, code_hash };
            *balance += U256::from(random.next());
            let post = AccountInfo { balance: *balance, ..pre };
            let delta = accounts
                .entry(address)
                .or_insert_with(|| AccountDelta { pre: Some(pre), ..AccountDelta::default() });
            delta.post = Some(post);
            for _ in 0..SLOTS_OF_CONTRACT {
                let slot = random.below(SLOTS);
                let key = keccak256(slot.to_be_bytes());
                if delta.storage.iter().any(|delta| delta.slot == key) {
                    continue;
                }
                let value = slots.entry((address, slot)).or_default();
                let pre = *value;
                *value = B256::from(U256::from(random.next()));
                delta.storage.push(SlotDelta::new(key, pre, *value));
            }
        }
        let diff = StateDiff::from_unsorted(accounts.into_iter().collect());
        txs.push(TxDiff { hash: random.word(), index, diff, zero_reads: Vec::new() });
    }
    let summary = BlockSummary {
        block: BlockRef::new(20_000_000, random.word()),
        parent_hash: random.word(),
        timestamp: 1_717_000_000,
    };
    let (pre_system, post_system) = (StateDiff::default(), StateDiff::default());
    Generated { facts: BlockFacts { summary, pre_system, txs, post_system }, codes }
}

/// The block's `debug_traceBlock*` result.
fn traces(table: &CodeTable) -> Rope {
    let Generated { facts, codes } = &*BLOCK;
    let codes = KnownCodes::new(table, codes);
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    for tx in &facts.txs {
        list.result(&mut out, &tx.hash);
        write_geth_diff(&mut out, tx, GethOptions::default(), &codes).unwrap();
        list.end_entry(&mut out);
    }
    list.close(&mut out);
    out.finish()
}

const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";

/// Diffs to JSON, the codes known.
#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let table = CodeTable::new();
    let kept = traces(&table);
    bencher.counter(BytesCount::new(kept.len())).bench_local(|| traces(&table));
}

/// Deflate of a fresh block, the codes known.
#[divan::bench]
fn deflate(bencher: Bencher<'_, '_>) {
    let table = CodeTable::new();
    let kept = traces(&table);
    kept.prepare(Encoding::Gzip);
    bencher
        .counter(BytesCount::new(kept.len()))
        .with_inputs(|| traces(&table))
        .bench_local_values(|rope| rope.prepare(Encoding::Gzip));
}

/// A compressed hit: head and tail around a rope that is kept.
#[divan::bench]
fn splice_hit(bencher: Bencher<'_, '_>) {
    let table = CodeTable::new();
    let kept = [traces(&table)];
    kept[0].prepare(Encoding::Gzip);
    bencher.bench_local(|| splice(HEAD, black_box(&kept), b"", b"}", Encoding::Gzip).len());
}

/// The same, with the rope put into one piece.
#[divan::bench]
fn splice_hit_joined(bencher: Bencher<'_, '_>) {
    let table = CodeTable::new();
    let kept = [traces(&table)];
    kept[0].prepare(Encoding::Gzip);
    kept[0].join();
    bencher.bench_local(|| splice(HEAD, black_box(&kept), b"", b"}", Encoding::Gzip).len());
}

/// A batch of so many kept results: a CRC combined for each, and for each separator.
#[divan::bench(args = [10, 1_000])]
fn crc_combine(bencher: Bencher<'_, '_>, results: u64) {
    let ropes: Vec<_> = (0..results)
        .map(|index| {
            let rope =
                Rope::from(format!("{{\"index\":{index},\"text\":\"{}\"}}", "ab".repeat(100)));
            rope.prepare(Encoding::Gzip);
            rope
        })
        .collect();
    bencher
        .counter(divan::counter::ItemsCount::new(results))
        .bench_local(|| splice(b"[", black_box(&ropes), b",", b"]", Encoding::Gzip).len());
}

/// The transactions' diffs to the block's.
#[divan::bench]
fn merge(bencher: Bencher<'_, '_>) {
    let facts = &BLOCK.facts;
    bencher
        .counter(divan::counter::ItemsCount::new(facts.txs.len()))
        .bench_local(|| black_box(facts).fold());
}

/// The archive's record of the block.
#[divan::bench]
fn archive_encode(bencher: Bencher<'_, '_>) {
    let facts = &BLOCK.facts;
    let bytes = EncodedBlock::of_facts(facts).unwrap().record_bytes();
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| EncodedBlock::of_facts(black_box(facts)).unwrap());
}

/// The record read back.
#[divan::bench]
fn archive_decode(bencher: Bencher<'_, '_>) {
    let encoded = EncodedBlock::of_facts(&BLOCK.facts).unwrap();
    bencher
        .counter(BytesCount::new(encoded.record_bytes()))
        .bench_local(|| decode_block(black_box(encoded.record())).unwrap());
}

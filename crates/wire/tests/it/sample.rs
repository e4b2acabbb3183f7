//! Made-up codes, diffs and ropes.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use prestate_types::{
    AccountDelta, AccountInfo, Codes, KECCAK_EMPTY, SlotDelta, StateDiff, TxDiff,
};
use prestate_wire::{CodeTable, KnownCodes, Rope, RopeBuilder};
use proptest::prelude::*;

/// Code number `at`: number 2 is longer than deflate's window in hex, number 5 is one byte.
pub(crate) fn code(at: usize) -> Vec<u8> {
    let len = [40, 700, 24_576, 3_000, 9_000, 1][at % 6];
    let mut state = at as u64 + 1;
    (0..len)
        .map(|place: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            if place.is_multiple_of(3) { 0x60 } else { (state >> 33) as u8 % 97 }
        })
        .collect()
}

pub(crate) fn codes() -> Codes {
    (0..6).map(|at| (keccak256(code(at)), Bytes::from(code(at)))).collect()
}

fn code_hash() -> impl Strategy<Value = B256> {
    prop_oneof![2 => Just(KECCAK_EMPTY), 3 => (0usize..6).prop_map(|at| keccak256(code(at)))]
}

fn word() -> impl Strategy<Value = B256> {
    prop_oneof![
        Just(B256::ZERO),
        any::<u8>().prop_map(B256::with_last_byte),
        any::<[u8; 32]>().prop_map(B256::from)
    ]
}

fn info() -> impl Strategy<Value = AccountInfo> {
    let balance = prop_oneof![
        Just(U256::ZERO),
        any::<u64>().prop_map(U256::from),
        any::<[u8; 32]>().prop_map(U256::from_be_bytes)
    ];
    let nonce = prop_oneof![Just(0), Just(1), any::<u64>()];
    (nonce, balance, code_hash()).prop_map(|(nonce, balance, code_hash)| AccountInfo {
        nonce,
        balance,
        code_hash,
    })
}

fn delta() -> impl Strategy<Value = AccountDelta> {
    let side = || prop_oneof![1 => Just(None), 4 => info().prop_map(Some)];
    let slots = prop::collection::btree_map(word(), (word(), word()), 0..6);
    (side(), side(), any::<bool>(), slots, prop::bool::weighted(0.2)).prop_map(
        |(pre, post, same, slots, wiped)| AccountDelta {
            pre,
            post: if same { pre } else { post },
            storage: slots.into_iter().map(|(slot, (a, b))| SlotDelta::new(slot, a, b)).collect(),
            wiped,
        },
    )
}

pub(crate) fn diff() -> impl Strategy<Value = StateDiff> {
    let address = prop_oneof![
        any::<u8>().prop_map(Address::with_last_byte),
        any::<[u8; 20]>().prop_map(Address::from)
    ];
    prop::collection::btree_map(address, delta(), 0..6)
        .prop_map(|accounts| StateDiff::from_unsorted(accounts.into_iter().collect()))
}

pub(crate) fn tx() -> impl Strategy<Value = TxDiff> {
    (diff(), any::<[u8; 32]>(), any::<u16>(), prop::collection::btree_set(word(), 0..4)).prop_map(
        |(diff, hash, index, zeros)| {
            let zero_reads = diff
                .iter()
                .filter(|(address, delta)| delta.post.is_none() && address.0[19] % 2 == 0)
                .map(|(address, delta)| {
                    let unchanged =
                        |slot: &B256| delta.storage.iter().all(|known| known.slot != *slot);
                    (*address, zeros.iter().copied().filter(unchanged).collect())
                })
                .collect();
            TxDiff { hash: hash.into(), index: index.into(), diff, zero_reads }
        },
    )
}

/// A rope and its text, put together apart.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) rope: Rope,
    pub(crate) text: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Make {
    Text(Vec<u8>),
    Code(usize),
    Sub(Vec<Make>),
}

fn make() -> impl Strategy<Value = Make> {
    let leaf = prop_oneof![
        3 => "[0-9a-f]{0,90}".prop_map(|text| Make::Text(text.into_bytes())),
        2 => Just(Make::Text(b"{\"balance\":\"0x0\",\"nonce\":1,\"storage\":{".to_vec())),
        1 => prop::collection::vec(any::<u8>(), 0..2000).prop_map(Make::Text),
        1 => (1usize..400_000).prop_map(|len| Make::Text(format!("{len:08x}{:x}", len * 7919).repeat(len / 16).into_bytes())),
        4 => (0usize..6).prop_map(Make::Code),
    ];
    leaf.prop_recursive(2, 24, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(Make::Sub))
}

fn build(parts: &[Make], table: &CodeTable) -> Sample {
    let known = codes();
    let source = KnownCodes::new(table, &known);
    let mut out = RopeBuilder::new();
    let mut text = Vec::new();
    for part in parts {
        match part {
            Make::Text(piece) => {
                out.push(piece);
                text.extend_from_slice(piece);
            }
            Make::Code(at) => {
                let hash = keccak256(code(*at));
                out.push_code(prestate_wire::CodeSource::code(&source, &hash).unwrap());
                let hex = alloy_primitives::hex::encode(code(*at));
                text.extend_from_slice(format!("0x{hex}\",\"codeHash\":\"{hash:?}").as_bytes());
            }
            Make::Sub(parts) => {
                let sub = build(parts, table);
                out.push_rope(&sub.rope);
                text.extend_from_slice(&sub.text);
            }
        }
    }
    Sample { rope: out.finish(), text }
}

pub(crate) fn rope() -> impl Strategy<Value = Sample> {
    prop::collection::vec(make(), 0..10).prop_map(|parts| build(&parts, &CodeTable::new()))
}

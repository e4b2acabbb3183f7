//! Arbitrary blocks.

use alloy_primitives::{Address, B256, U256};
use prestate_types::{
    AccountDelta, AccountInfo, BlockDiff, BlockFacts, BlockRef, BlockSummary, KECCAK_EMPTY,
    SlotDelta, StateDiff, TxDiff, ZeroReads,
};
use proptest::prelude::*;

/// Few and many different ones, so that parts both share and differ.
fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        (0u8..5).prop_map(Address::with_last_byte),
        any::<[u8; 20]>().prop_map(Address::from),
    ]
}

fn word() -> impl Strategy<Value = B256> {
    prop_oneof![
        3 => (0u8..4).prop_map(B256::with_last_byte),
        1 => any::<[u8; 32]>().prop_map(B256::from),
        1 => any::<u64>().prop_map(|n| U256::from(n).into()),
        1 => (0u8..3).prop_map(|n| (U256::MAX - U256::from(n)).into()),
    ]
}

fn info() -> impl Strategy<Value = Option<AccountInfo>> {
    let nonce = prop_oneof![0u64..3, any::<u64>(), Just(u64::MAX)];
    let code_hash = prop_oneof![Just(KECCAK_EMPTY), word()];
    prop::option::of((nonce, word(), code_hash).prop_map(|(nonce, balance, code_hash)| {
        AccountInfo { nonce, balance: balance.into(), code_hash }
    }))
}

fn delta() -> impl Strategy<Value = AccountDelta> {
    let storage = prop::collection::btree_map(word(), (word(), word()), 0..6);
    (info(), info(), storage, prop::bool::weighted(0.1)).prop_map(|(pre, post, storage, wiped)| {
        let storage = storage
            .into_iter()
            .map(|(slot, (pre, post))| SlotDelta::new(slot, pre, post))
            .collect();
        AccountDelta { pre, post, storage, wiped }
    })
}

fn diff() -> impl Strategy<Value = StateDiff> {
    prop::collection::btree_map(address(), delta(), 0..6)
        .prop_map(|accounts| StateDiff::from_unsorted(accounts.into_iter().collect()))
}

fn zero_reads() -> impl Strategy<Value = ZeroReads> {
    prop::collection::vec((address(), prop::collection::vec(word(), 0..4)), 0..3)
}

fn summary() -> impl Strategy<Value = BlockSummary> {
    (any::<u64>(), word(), word(), any::<u64>()).prop_map(
        |(number, hash, parent_hash, timestamp)| BlockSummary {
            block: BlockRef::new(number, hash),
            parent_hash,
            timestamp,
        },
    )
}

pub(crate) fn facts() -> impl Strategy<Value = BlockFacts> {
    let index = prop_oneof![4 => Just(None), 1 => any::<u64>().prop_map(Some)];
    let tx = (word(), index, diff(), zero_reads());
    (summary(), diff(), prop::collection::vec(tx, 0..6), diff()).prop_map(
        |(summary, pre_system, txs, post_system)| {
            let txs = txs
                .into_iter()
                .zip(0u64..)
                .map(|((hash, index, diff, zero_reads), place)| TxDiff {
                    hash,
                    index: index.unwrap_or(place),
                    diff,
                    zero_reads,
                })
                .collect();
            BlockFacts { summary, pre_system, txs, post_system }
        },
    )
}

pub(crate) fn block_diff() -> impl Strategy<Value = BlockDiff> {
    (summary(), diff()).prop_map(|(summary, diff)| BlockDiff { summary, diff })
}

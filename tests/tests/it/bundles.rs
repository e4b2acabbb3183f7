//! The block diff from a bundle that spans several blocks, against the one from each block's own
//! bundle and against the states themselves, over random changes by the rules before Cancun:
//! creation, destruction, re-creation at the same address, slots set, changed and cleared.

use crate::chain::{extend, word};
use alloy_evm::{
    block::BlockExecutor,
    eth::{EthBlockExecutor, EthEvmBuilder},
};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, Bytes, U256, address};
use prestate_diff::block_diff;
use prestate_host::{Host, ReaderDb, Receipts, RecoveredBlock, evm_env, execution_context};
use prestate_host_embedded::MemoryChain;
use prestate_tests::generate::{BlockRecipe, Code, Fork, GenesisPlan, Keys, Recipe, op};
use prestate_types::{Codes, StateDiff};
use rand::{Rng, SeedableRng, rngs::StdRng};
use revm::database::{BundleState, State, states::bundle_state::BundleRetention};
use std::collections::BTreeSet;

/// Slots that the programs touch.
const SLOTS: std::ops::RangeInclusive<u64> = 1..=4;
/// There from genesis on, with storage; once destroyed its code never comes back.
const OLD: Address = address!("0x00000000000000000000000000000000000d0001");
/// Make their contract by CREATE2, again and again.
const FACTORIES: [Address; 2] = [
    address!("0x00000000000000000000000000000000000d0002"),
    address!("0x00000000000000000000000000000000000d0003"),
];

/// Without call data it destroys itself, else it sets slot `calldata[0..32]` to
/// `calldata[32..64]`.
fn victim() -> Code {
    let code = Code::new()
        .ops(&[op::CALLDATASIZE, op::ISZERO])
        .push(U256::from(12))
        .op(op::JUMPI)
        .push(U256::from(32))
        .op(op::CALLDATALOAD)
        .push(U256::ZERO)
        .ops(&[op::CALLDATALOAD, op::SSTORE, op::STOP]);
    assert_eq!(code.len(), 12, "the jump's target");
    code.ops(&[op::JUMPDEST, op::ORIGIN, op::SELFDESTRUCT])
}

/// Its constructor sets slot 4, so that a re-creation starts with storage.
fn init() -> Code {
    victim().deployed_after(&Code::new().sstore(4, 3))
}

fn victims() -> [Address; 3] {
    let made = |factory: Address| init().create2_address(factory, 1);
    [OLD, made(FACTORIES[0]), made(FACTORIES[1])]
}

fn genesis(keys: &Keys) -> Genesis {
    let mut plan = GenesisPlan::new(Fork::Shanghai);
    for key in 0..keys.len() {
        plan.fund(keys.address(key), 1_000_000_000_000_000_000);
    }
    plan.contract(OLD, &victim(), 10, &[(1, 11), (2, 12), (3, 13)]);
    for factory in FACTORIES {
        plan.contract(factory, &Code::new().create2(0, &init(), 1), 0, &[]);
    }
    // One victim's address is there before its first creation, one's is not.
    plan.fund(victims()[1], 1);
    let mut json: serde_json::Value = serde_json::from_str(&plan.json()).expect("JSON");
    json["gasLimit"] = "0x1c9c380".into();
    serde_json::from_value(json).expect("a genesis file")
}

fn random_block(rng: &mut StdRng, keys: &Keys) -> BlockRecipe {
    let any_victim = |rng: &mut StdRng| victims()[rng.random_range(0..3)];
    let transactions = (0..rng.random_range(0..6))
        .map(|_| {
            let sender = rng.random_range(0..keys.len());
            match rng.random_range(0..10) {
                0..4 => {
                    let input = [rng.random_range(SLOTS), rng.random_range(0..3)]
                        .map(|number| U256::from(number).to_be_bytes::<32>())
                        .concat();
                    Recipe::call(sender, any_victim(rng)).input(Bytes::from(input))
                }
                4..6 => Recipe::call(sender, any_victim(rng)),
                6..8 => Recipe::call(sender, FACTORIES[rng.random_range(0..2)]),
                8 => Recipe::call(sender, any_victim(rng)).value(rng.random_range(1..9)),
                _ => Recipe::call(sender, Address::with_last_byte(rng.random_range(0xa0..0xa4)))
                    .value(rng.random_range(0..3)),
            }
        })
        .map(|recipe| recipe.gas(200_000))
        .collect();
    let withdrawals = if rng.random_bool(0.3) { vec![(any_victim(rng), 1)] } else { vec![] };
    BlockRecipe { coinbase: Address::with_last_byte(0xcb), transactions, withdrawals }
}

/// Runs blocks on one state and merges them one by one into one bundle, as a node does that
/// commits several blocks at once.
fn one_bundle(chain: &MemoryChain, blocks: &[RecoveredBlock]) -> BundleState {
    let spec = &**chain.spec();
    let first = blocks.first().expect("a run has blocks");
    let parent = chain.state_after(first.parent_hash).expect("the first parent's state");
    let mut db = State::builder().with_database(ReaderDb(parent)).with_bundle_update().build();
    for block in blocks {
        let context = execution_context(block);
        let evm = EthEvmBuilder::new(&mut db, evm_env(spec, block.header())).build();
        EthBlockExecutor::new(evm, context, spec, &Receipts)
            .execute_block(block.transactions_recovered())
            .expect("a valid block");
        db.merge_transitions(BundleRetention::Reverts);
    }
    db.take_bundle()
}

/// What the states before and after say of every account and slot there is.
fn holds(
    chain: &MemoryChain,
    block: &RecoveredBlock,
    diff: &StateDiff,
    universe: &BTreeSet<Address>,
) {
    let before = chain.state_after(block.parent_hash).expect("a state");
    let after = chain.state_after(block.hash()).expect("a state");
    for (address, _) in diff {
        assert!(universe.contains(address), "{address} is nobody");
    }
    for address in universe {
        let delta = diff.get(address);
        let (pre, post) = (before.account(*address), after.account(*address));
        let (pre, post) = (pre.expect("in memory"), post.expect("in memory"));
        match delta {
            Some(delta) => {
                assert_eq!((delta.pre, delta.post), (pre, post), "account {address}");
                assert!(!delta.wiped || pre.is_some(), "{address} was not there to be wiped");
                if pre.is_some() && post.is_none() {
                    assert!(delta.wiped, "{address} went away");
                }
            }
            None => assert_eq!(pre, post, "account {address} is not in the diff"),
        }
        for number in SLOTS {
            let slot = word(number);
            let pre = before.storage(*address, slot).expect("in memory");
            let post = after.storage(*address, slot).expect("in memory");
            match diff.slot(address, &slot) {
                Some(delta) => {
                    assert_eq!((delta.pre, delta.post), (pre, post), "{address} slot {number}");
                }
                // A wiped account's slots need not be listed, see `AccountDelta::wiped`.
                None if delta.is_some_and(|delta| delta.wiped) => {
                    assert!(post.is_zero(), "{address} slot {number} is set after a wipe");
                }
                None => assert_eq!(pre, post, "{address} slot {number} is not in the diff"),
            }
        }
    }
}

#[test]
fn a_bundle_of_many_blocks_tells_each_blocks_change() {
    let keys = Keys::new(3);
    let mut universe: BTreeSet<Address> = (0xa0..0xa4).map(Address::with_last_byte).collect();
    universe.extend(victims());
    universe.extend(FACTORIES);
    universe.extend((0..keys.len()).map(|key| keys.address(key)));
    universe.insert(Address::with_last_byte(0xcb));
    // What the runs did, so that the test cannot pass by doing nothing.
    let (mut wiped, mut came_back, mut cleared, mut created) = (0, 0, 0, 0);
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let chain = MemoryChain::from_genesis(&genesis(&keys));
        let length = rng.random_range(2..9);
        let blocks: Vec<_> =
            (0..length).map(|_| extend(&chain, &keys, &random_block(&mut rng, &keys))).collect();
        let bundle = one_bundle(&chain, &blocks);
        assert_eq!(bundle.reverts.len(), blocks.len(), "seed {seed}");
        let first = chain.state_after(blocks[0].parent_hash).expect("a state");
        for (index, block) in blocks.iter().enumerate() {
            let mut codes = Codes::default();
            let of_run = block_diff(&bundle, index, &*first, &mut codes).expect("in memory");
            let own = one_bundle(&chain, std::slice::from_ref(block));
            let parent = chain.state_after(block.parent_hash).expect("a state");
            let alone = block_diff(&own, 0, &*parent, &mut codes).expect("in memory");
            let at = format!("seed {seed}, block {index} of {length}");
            println!("{at}");
            assert_eq!(of_run.first_mismatch(&alone), None, "{at}");
            holds(&chain, block, &alone, &universe);
            holds(&chain, block, &of_run, &universe);
            for (_, delta) in &of_run {
                wiped += usize::from(delta.wiped);
                came_back += usize::from(delta.wiped && delta.post.is_some());
                created += usize::from(delta.pre.is_none() && delta.post.is_some());
                cleared += delta.storage.iter().filter(|slot| slot.post.is_zero()).count();
            }
        }
    }
    let seen = [wiped, came_back, cleared, created];
    assert!(seen.iter().all(|count| *count >= 10), "wiped, came back, cleared, created: {seen:?}");
}

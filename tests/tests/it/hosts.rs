//! Every host keeps the seam's contract.

use crate::sample::{genesis, sample_blocks};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256};
use prestate_host::{
    ChainSpec, CommittedBlock, Host, HostError, Notification, StateError, conformance,
    fake::{FakeHost, FakeState, NotifyError, empty_block},
    summary,
};
use prestate_host_embedded::{BlockFile, MemoryChain, ReplayHost, block_paths, load_path};
use prestate_tests::{
    fixtures::{folder, skipped, workspace},
    generate::{Fork, GenesisPlan},
};
use prestate_types::{AccountInfo, BlockRef};
use std::{path::Path, sync::Arc};

fn files(folder: &Path) -> Vec<BlockFile> {
    let paths = block_paths(folder).expect("the folder holds block files");
    paths.iter().map(|path| load_path(path).expect("a valid block file")).collect()
}

#[test]
fn replay_host_over_the_samples() {
    let spec = ChainSpec::from_genesis(&genesis().config);
    let host = ReplayHost::new(spec, files(&workspace().join("etc/samples"))).expect("a chain");
    conformance::check(Arc::new(host), || {});
}

#[test]
fn replay_host_over_mainnet() {
    let Some(mainnet) = folder("mainnet") else { return skipped("replay host over mainnet") };
    let host = ReplayHost::new(ChainSpec::mainnet(), files(&mainnet)).expect("a chain");
    conformance::check(Arc::new(host), || {});
}

#[test]
fn memory_chain_that_grows_and_turns_back() {
    let blocks = sample_blocks();
    let chain = Arc::new(MemoryChain::from_genesis(&genesis()));
    let (first, rest) = blocks.split_first().expect("the sample has blocks");
    let first = chain.import(first.clone()).expect("a valid block");
    conformance::check(chain.clone(), || {
        for block in rest {
            chain.import(block.clone()).expect("a valid block");
        }
        chain.set_head(first.hash).expect("a known block");
        let last = rest.last().expect("the sample has several blocks");
        chain.set_head(last.hash()).expect("a known block");
    });
}

/// Genesis, then two blocks on top of each other and a sibling of the second, with states.
fn fake() -> (Arc<FakeHost>, [BlockRef; 4]) {
    // Before Prague there are no system contracts that have to be there.
    let plan: Genesis =
        serde_json::from_str(&GenesisPlan::new(Fork::Shanghai).json()).expect("a genesis file");
    let spec = ChainSpec::from_genesis(&plan.config);
    let block =
        |number, parent, salt| empty_block(&spec, number, parent, B256::with_last_byte(salt));
    let zero = block(0, B256::ZERO, 0);
    let one = block(1, zero.hash(), 1);
    let two = block(2, one.hash(), 2);
    let sibling = block(2, one.hash(), 3);
    let refs = [&zero, &one, &two, &sibling].map(|block| summary(block).block);
    let host = FakeHost::new(spec.clone(), zero);
    for block in [one, two, sibling] {
        host.insert(block);
    }
    for at in refs {
        let rich = AccountInfo { balance: U256::from(5), ..AccountInfo::EMPTY };
        let mut state = FakeState::default();
        state.accounts.insert(Address::with_last_byte(7), rich);
        host.set_state(at.hash, state);
    }
    host.set_canonical(&refs[1..3]);
    (Arc::new(host), refs)
}

fn committed(host: &FakeHost, at: BlockRef) -> CommittedBlock {
    let block = host.block(at.hash).expect("no error was set").expect("it was inserted");
    CommittedBlock { block, bundle: None }
}

#[test]
fn fake_host_across_a_reorg() {
    let (host, [zero, one, two, sibling]) = fake();
    host.set_finalized(Some(zero));
    host.set_safe(Some(one));
    conformance::check(host.clone(), || {
        host.set_canonical(&[sibling]);
        let new = vec![committed(&host, sibling)];
        host.notify(Notification::Reorged { old: vec![two], new }).expect("room for one");
    });
    // What the suite acknowledged: forwards, backwards, a stranger.
    assert_eq!(host.acks()[..2], [sibling, zero]);
    assert_eq!(host.acks().len(), 3);
}

#[test]
fn fake_host_gives_back_what_a_test_puts_in() {
    let (host, [_, one, two, _]) = fake();
    let mut stream = host.notifications().expect("the first listener");
    let first = Notification::Committed(vec![committed(&host, one), committed(&host, two)]);
    host.notify(first).expect("room for one");
    host.notify(Notification::Reverted { old: vec![two] }).expect("room for one");
    host.hang_up();
    assert_eq!(host.notify(Notification::Reverted { old: vec![one] }), Err(NotifyError::Closed));
    assert_eq!(stream.try_recv().expect("the first").committed().len(), 2);
    assert_eq!(stream.try_recv().expect("the second").reverted(), [two]);
    assert!(stream.try_recv().is_err(), "the end");

    let pruned = StateError::Pruned { requested: 1, earliest: 2 };
    host.fail_state(one.hash, pruned.clone());
    assert_eq!(host.state_after(one.hash).err(), Some(pruned));
    host.set_state(one.hash, FakeState::default());
    assert!(host.state_after(one.hash).is_ok());

    let broken = HostError::Backend("disk".to_owned());
    host.fail_blocks(Some(broken.clone()));
    assert_eq!(host.head(), Err(broken));
    host.fail_blocks(None);
    assert_eq!(host.head(), Ok(two));
}

/// A host that breaks the contract is caught, each time by the rule it breaks.
#[test]
fn broken_hosts_are_caught() {
    let caught = |break_it: &dyn Fn(&FakeHost, [BlockRef; 4])| {
        let (host, refs) = fake();
        break_it(&host, refs);
        let change = host.clone();
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            conformance::check(host, move || {
                change.set_state(refs[1].hash, FakeState::default());
            });
        }));
        let panic = run.expect_err("the suite lets it through");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    // The coinbase of the empty blocks changes its balance after the fact.
    let rewritten = caught(&|host, refs| {
        let mut state = FakeState::default();
        state.accounts.insert(Address::ZERO, AccountInfo { nonce: 1, ..AccountInfo::EMPTY });
        host.set_state(refs[1].hash, state);
    });
    assert!(rewritten.contains("rules 3 and 5"), "{rewritten}");
    let misnamed = caught(&|host, refs| {
        host.fail_state(refs[2].hash, StateError::UnknownBlock(refs[2].hash));
    });
    assert!(misnamed.contains("rule 2"), "{misnamed}");
    let wrong_number = caught(&|host, refs| {
        host.fail_state(refs[2].hash, StateError::Pruned { requested: 9, earliest: 10 });
    });
    assert!(wrong_number.contains("rule 2"), "{wrong_number}");
    let no_head = caught(&|host, _| host.fail_blocks(Some(HostError::Backend("disk".to_owned()))));
    assert!(no_head.contains("rule 5"), "{no_head}");
    let above = caught(&|host, refs| {
        host.set_finalized(Some(BlockRef::new(9, refs[2].hash)));
    });
    assert!(above.contains("above the head"), "{above}");
}

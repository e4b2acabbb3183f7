//! The dev chain: its blocks are valid, explained by their diffs, and there after a restart.

use alloy_consensus::{Transaction, TxEip1559, TxEip2930};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address};
use alloy_signer_local::PrivateKeySigner;
use prestate_diff::{Execution, check_invariant, replay};
use prestate_host::{Host, Notification, RecoveredBlock, conformance};
use prestate_host_embedded::{
    MemoryChain,
    dev::{
        DevChain, DevConfig, DevError, HEAVY_GAS_LIMIT, HEAVY_TRANSACTIONS, Hardfork, Mining,
        OpenError, TrafficConfig, TrafficError, TrafficShape, dev_module,
    },
};
use prestate_rpc::{Call, Modules, Service};
use prestate_tests::dev_chain::{
    CHAIN_ID, FRESH, GWEI, blob_tx, deployment, dynamic, legacy, set_code, signed, signers,
};
use prestate_types::{BlockFacts, StateDiff};
use serde_json::{Value, json, value::RawValue};
use std::{ops::ControlFlow, path::Path, sync::Arc, time::Duration};

fn open(config: DevConfig) -> DevChain {
    DevChain::open(config).expect("a dev chain")
}

fn in_memory() -> DevChain {
    open(DevConfig::default())
}

/// Every block is taken by a chain that executes it anew from genesis on and holds it against its
/// header; its parts add up to what it changed.
fn check_all(chain: &DevChain) -> Vec<(Arc<RecoveredBlock>, BlockFacts)> {
    let fresh = MemoryChain::from_genesis(chain.genesis());
    let head = chain.head().expect("a head").number;
    let mut all = Vec::new();
    for number in 1..=head {
        let hash = chain.canonical_hash(number).unwrap().expect("canonical up to the head");
        let block = chain.block(hash).unwrap().expect("a block");
        if let Some(change) = chain.spec().irregular_change(&hash) {
            fresh.spec().decree(hash, (*change).clone());
        }
        fresh.import((*block).clone()).expect("a valid block");
        let parent = || chain.state_after(block.parent_hash).expect("the parent's state");
        let mut txs = Vec::new();
        let execution = Execution { spec: chain.spec(), block: &block };
        let mut replayed = replay(execution, parent(), &mut (), |diff, _| {
            txs.push(diff);
            ControlFlow::Continue(())
        })
        .expect("the block replays");
        let whole = replayed.block_diff(&*parent()).expect("complete");
        let facts = replayed.facts(txs);
        check_invariant(&facts, &whole.diff).expect("the parts are the whole");
        all.push((block, facts));
    }
    all
}

#[test]
fn all_transaction_types_are_mined_into_valid_blocks() {
    for hardfork in Hardfork::ALL {
        let chain = open(DevConfig { hardfork, ..DevConfig::default() });
        let signers = signers(&chain);
        let mut sent = vec![chain.send_raw(&legacy(&signers[0], 0, FRESH, 1)).unwrap()];
        let item = AccessListItem { address: FRESH, storage_keys: vec![B256::ZERO] };
        let access_list = AccessList(vec![item]);
        let tx = TxEip2930 {
            chain_id: CHAIN_ID,
            nonce: 1,
            gas_price: 3 * GWEI,
            gas_limit: 100_000,
            to: FRESH.into(),
            access_list,
            ..TxEip2930::default()
        };
        sent.push(chain.send_raw(&signed(&signers[0], tx)).unwrap());
        sent.push(chain.send_raw(&signed(&signers[0], dynamic(2))).unwrap());
        if hardfork >= Hardfork::Cancun {
            sent.push(chain.send_raw(&blob_tx(&signers[1], hardfork)).unwrap());
        }
        if hardfork >= Hardfork::Prague {
            sent.push(chain.send_raw(&set_code(&signers[2], &signers[3])).unwrap());
        }
        let blocks = check_all(&chain);
        assert_eq!(blocks.len(), sent.len(), "{hardfork:?}: a block each");
        for ((block, _), hash) in blocks.iter().zip(sent) {
            assert_eq!(block.body().transactions[0].tx_hash(), &hash);
            assert!(chain.transaction(hash).unwrap().is_some());
        }
        if hardfork >= Hardfork::Prague {
            let delegated = chain.state_after(chain.head().unwrap().hash).unwrap();
            let account = delegated.account(signers[3].address()).unwrap().expect("funded");
            assert!(account.has_code(), "{hardfork:?}: the authority is delegated");
        }
    }
}

#[test]
fn the_seam_holds_across_blocks_and_a_reorg() {
    let chain = Arc::new(in_memory());
    let signer = signers(&chain).remove(0);
    chain.mine(3).unwrap();
    conformance::check(chain.clone(), || {
        chain.send_raw(&legacy(&signer, 0, FRESH, 1)).unwrap();
        chain.set_balance(FRESH, U256::from(5)).unwrap();
        chain.reorg(2).unwrap();
    });
}

#[test]
fn state_by_decree_is_a_system_change_of_its_own_block() {
    let chain = in_memory();
    let contract = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");
    let (slot, value) = (B256::with_last_byte(7), B256::with_last_byte(9));
    chain.set_balance(FRESH, U256::from(5)).unwrap();
    chain.set_storage(contract, slot, value).unwrap();
    chain.set_balance(FRESH, U256::ZERO).unwrap();
    chain.set_storage(contract, slot, B256::ZERO).unwrap();
    let refused = chain.set_storage(FRESH, slot, value).unwrap_err();
    assert!(matches!(refused, DevError::EmptyAccount(FRESH)), "{refused}");

    let blocks = check_all(&chain);
    let pre = |at: usize| -> &StateDiff { &blocks[at].1.pre_system };
    let balance = |at: usize| {
        let delta = pre(at).get(&FRESH).expect("the account is in the diff");
        (delta.pre.map(|info| info.balance), delta.post.map(|info| info.balance))
    };
    assert_eq!(balance(0), (None, Some(U256::from(5))));
    assert_eq!(balance(2), (Some(U256::from(5)), None), "an empty account does not exist");
    let change = |at: usize| {
        let delta = pre(at).slot(&contract, &slot).expect("the slot is in the diff");
        (delta.pre, delta.post)
    };
    assert_eq!(change(1), (B256::ZERO, value));
    assert_eq!(change(3), (value, B256::ZERO));
    assert!(blocks.iter().all(|(_, facts)| facts.txs.is_empty()));
}

#[test]
fn a_reorg_replaces_blocks_by_one_more_and_tells() {
    let chain = in_memory();
    let signers = signers(&chain);
    let mut listener = chain.notifications().expect("nobody listens yet");
    for nonce in 0..6 {
        chain.send_raw(&legacy(&signers[0], nonce, FRESH, 1)).unwrap();
        chain.send_raw(&legacy(&signers[1], nonce, FRESH, 1)).unwrap();
    }
    let before = chain.head().unwrap();
    let reorg = chain.reorg(8).unwrap();
    assert_eq!(reorg.dropped.len(), 8);
    assert_eq!(reorg.added.len(), 9);
    assert_eq!(reorg.dropped.last(), Some(&before));
    assert_eq!(reorg.common_ancestor.number, before.number - 8);
    assert_eq!(chain.head().unwrap(), *reorg.added.last().unwrap());

    let hashes = |blocks: &[prestate_types::BlockRef]| -> Vec<B256> {
        let block = |at: &prestate_types::BlockRef| chain.block(at.hash).unwrap().expect("known");
        let txs = |at| block(at).body().transactions.iter().map(|tx| *tx.tx_hash()).collect();
        blocks.iter().flat_map(|at| -> Vec<B256> { txs(at) }).collect()
    };
    let (old, new) = (hashes(&reorg.dropped), hashes(&reorg.added));
    assert!(!new.is_empty() && new.len() < old.len(), "{} of {} stay", new.len(), old.len());
    assert!(new.iter().all(|hash| old.contains(hash)));

    let mut last = None;
    while let Ok(notification) = listener.try_recv() {
        last = Some(notification);
    }
    let Some(Notification::Reorged { old, new }) = last else { panic!("a reorg is told") };
    assert_eq!(old, reorg.dropped);
    let told: Vec<_> = new.iter().map(|block| block.block_ref()).collect();
    assert_eq!(told, reorg.added);

    // What was left out comes back.
    chain.mine(1).unwrap();
    check_all(&chain);
    let state = chain.state_after(chain.head().unwrap().hash).unwrap();
    assert_eq!(state.account(FRESH).unwrap().expect("it was sent to").balance, U256::from(12));

    for (depth, text) in [(0, "depth is 0"), (65, "depth is 65, at most 64"), (15, "14 blocks")] {
        let refused = chain.reorg(depth).unwrap_err().to_string();
        assert!(refused.contains(text), "{depth}: {refused}");
    }
}

#[test]
fn nonces_queue_and_replacements_have_to_pay() {
    let chain = open(DevConfig { mining: Mining::OnDemand, ..DevConfig::default() });
    let signers = signers(&chain);
    let text = |raw: &Bytes| chain.send_raw(raw).unwrap_err().to_string();
    let first = legacy(&signers[0], 0, FRESH, 1);
    chain.send_raw(&legacy(&signers[0], 1, FRESH, 1)).unwrap();
    chain.mine(1).unwrap();
    assert!(check_all(&chain)[0].0.body().transactions.is_empty(), "a gap has to wait");
    chain.send_raw(&first).unwrap();
    assert_eq!(text(&first), "already known");
    assert_eq!(text(&legacy(&signers[0], 0, FRESH, 2)), "replacement transaction underpriced");
    let better =
        TxEip1559 { max_fee_per_gas: 4 * GWEI, max_priority_fee_per_gas: 4 * GWEI, ..dynamic(0) };
    chain.send_raw(&signed(&signers[0], better)).unwrap();
    chain.mine(1).unwrap();
    let blocks = check_all(&chain);
    assert_eq!(blocks[1].0.body().transactions.len(), 2);
    assert_eq!(blocks[1].0.body().transactions[0].tx_type() as u8, 2, "the better one");
    assert_eq!(text(&first), "nonce too low: next nonce 2, tx nonce 0");
    let poor = PrivateKeySigner::from_bytes(&B256::with_last_byte(1)).unwrap();
    assert_eq!(
        text(&legacy(&poor, 0, FRESH, 1)),
        "insufficient funds for gas * price + value: balance 0, tx cost 300000000000001, \
         overshot 300000000000001"
    );
    let cheap = |change: fn(TxEip1559) -> TxEip1559| text(&signed(&signers[1], change(dynamic(0))));
    for (given, wanted) in [
        (
            cheap(|tx| TxEip1559 { gas_limit: 20_000, ..tx }),
            "intrinsic gas too low: gas 20000, minimum needed 21000",
        ),
        (
            cheap(|tx| TxEip1559 { gas_limit: 60_000_001, ..tx }),
            "transaction gas limit too high (cap: 16777216, tx: 60000001)",
        ),
        (
            cheap(|tx| TxEip1559 { max_priority_fee_per_gas: 9 * GWEI, ..tx }),
            "max priority fee per gas higher than max fee per gas",
        ),
        (
            cheap(|tx| TxEip1559 { chain_id: 1, ..tx }),
            "invalid sender: invalid chain id for signer: have 1 want 31337",
        ),
        (cheap(|tx| TxEip1559 { nonce: u64::MAX, ..tx }), "nonce has max value"),
        (
            cheap(|tx| TxEip1559 {
                to: TxKind::Create,
                input: vec![0; 49_153].into(),
                gas_limit: 5_000_000,
                ..tx
            }),
            "max initcode size exceeded: code size 49153 limit 49152",
        ),
        (
            cheap(|tx| TxEip1559 { input: vec![1; 131_073].into(), gas_limit: 16_000_000, ..tx }),
            "oversized data: transaction size 131190, limit 131072",
        ),
    ] {
        assert_eq!(given, wanted);
    }
    // Below the base fee it waits.
    let low = TxEip1559 { max_fee_per_gas: 1, max_priority_fee_per_gas: 1, ..dynamic(0) };
    let hash = chain.send_raw(&signed(&signers[1], low)).unwrap();
    chain.mine(1).unwrap();
    assert_eq!(chain.transaction(hash).unwrap(), None);
}

fn on_disk(folder: &Path) -> DevConfig {
    DevConfig { datadir: Some(folder.to_owned()), ..DevConfig::default() }
}

#[test]
fn a_chain_on_disk_is_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (head, code) = {
        let chain = open(on_disk(folder.path()));
        let signer = signers(&chain).remove(0);
        chain.send_raw(&legacy(&signer, 0, FRESH, 1)).unwrap();
        let create = TxEip1559 { to: TxKind::Create, input: deployment(), ..dynamic(1) };
        chain.send_raw(&signed(&signer, create)).unwrap();
        chain.set_balance(FRESH, U256::from(77)).unwrap();
        chain.mine(70).unwrap();
        chain.reorg(3).unwrap();
        check_all(&chain);
        (chain.head().unwrap(), signer.address().create(1))
    };
    let chain = open(on_disk(folder.path()));
    assert_eq!(chain.head().unwrap(), head);
    let state = chain.state_after(head.hash).unwrap();
    assert_eq!(state.account(FRESH).unwrap().expect("it was set").balance, U256::from(77));
    assert!(state.account(code).unwrap().expect("it was deployed").has_code());
    check_all(&chain);
    let busy = DevChain::open(on_disk(folder.path())).unwrap_err();
    assert!(busy.to_string().contains("another process has this chain open"), "{busy}");
    drop(chain);
    for other in [
        DevConfig { chain_id: 1, ..on_disk(folder.path()) },
        DevConfig { hardfork: Hardfork::Cancun, ..on_disk(folder.path()) },
        DevConfig { hardfork: Hardfork::Osaka, ..on_disk(folder.path()) },
    ] {
        let refused = DevChain::open(other).unwrap_err();
        assert!(matches!(refused, OpenError::OtherChain { .. }), "{refused}");
    }
}

/// What the transactions after the set-up do, once there are so many blocks.
fn traffic(seed: u64, blocks: u64) -> Vec<(Option<Address>, Bytes, U256)> {
    let chain = Arc::new(in_memory());
    let config = TrafficConfig { tps: 1_000.0, seed, shape: TrafficShape::Steady };
    let contracts = chain.start_traffic(config).unwrap();
    let before = contracts.pools.iter().map(|pool| pool.address).collect::<Vec<_>>();
    let set_up = 4;
    while chain.head().unwrap().number < set_up + blocks {
        std::thread::sleep(Duration::from_millis(5));
    }
    let all = check_all(&chain);
    let reserves = |at: u64| {
        let hash = chain.canonical_hash(at).unwrap().expect("canonical");
        let state = chain.state_after(hash).unwrap();
        before.iter().map(|pool| state.storage(*pool, B256::ZERO).unwrap()).collect::<Vec<_>>()
    };
    assert_ne!(reserves(set_up), reserves(set_up + blocks), "nobody swaps");
    let txs = all.iter().skip(set_up as usize).flat_map(|(block, _)| &block.body().transactions);
    txs.take(blocks as usize).map(|tx| (tx.to(), tx.input().clone(), tx.value())).collect()
}

#[test]
fn traffic_makes_valid_blocks_and_follows_its_seed() {
    let first = traffic(1, 25);
    assert_eq!(first.len(), 25);
    assert_eq!(traffic(1, 25), first);
    assert_ne!(traffic(2, 25), first);
    let chain = Arc::new(in_memory());
    let heavy = TrafficConfig { tps: 1.0, seed: 1, shape: TrafficShape::Heavy };
    let refused = chain.start_traffic(heavy).unwrap_err();
    assert!(matches!(refused, TrafficError::GasLimit { gas_limit: 60_000_000 }), "{refused}");
}

#[test]
fn heavy_blocks_hold_forty_thousand_transactions() {
    if std::env::var_os("PRESTATE_HEAVY").is_none() {
        println!("skipped: heavy blocks take a minute unoptimised; set PRESTATE_HEAVY to run them");
        return;
    }
    let config = DevConfig { gas_limit: HEAVY_GAS_LIMIT, ..DevConfig::default() };
    let chain = Arc::new(open(config));
    let heavy = TrafficConfig { tps: 100_000.0, seed: 1, shape: TrafficShape::Heavy };
    chain.start_traffic(heavy).unwrap();
    let set_up = chain.head().unwrap().number;
    while chain.head().unwrap().number < set_up + 2 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = check_all(&chain);
    for (block, _) in &all[set_up as usize..] {
        assert_eq!(block.body().transactions.len(), HEAVY_TRANSACTIONS);
        assert!(block.gas_used < block.gas_limit / 2, "{}", block.gas_used);
    }
}

/// What is beyond a limit is told so, with the limit; what is wrong says what is wanted.
#[test]
fn bad_input_gets_typed_errors() {
    let chain = Arc::new(in_memory());
    let methods = Modules::new(dev_module(chain).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = |method: &str, params: &str| {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        let call = Call { method, params: Some(&params) };
        let error = runtime.block_on(methods.call(call)).unwrap_err();
        let data = error.data.map(|data| serde_json::from_str::<Value>(data.get()).unwrap());
        (error.code, error.message, data)
    };
    let limit = |what: &str, value: u64, given: u64| {
        let data = json!({ "limit": what, "value": value, "given": given });
        (-32005, format!("{what} is {given}, at most {value}"), Some(data))
    };
    assert_eq!(error("dev_mine", "[10001]"), limit("number of blocks", 10_000, 10_001));
    assert_eq!(error("dev_reorg", "[\"0x41\"]"), limit("depth", 64, 65));
    let slots = vec!["\"0x0\""; 1025].join(",");
    let address = "0x00000000000000000000000000000000000000aa";
    let proof = format!("[\"{address}\",[{slots}],\"latest\"]");
    assert_eq!(error("eth_getProof", &proof), limit("slots", 1024, 1025));
    let percentiles = (0..101).map(|p| p.to_string()).collect::<Vec<_>>().join(",");
    let history = format!("[\"0x1\",\"latest\",[{percentiles}]]");
    assert_eq!(error("eth_feeHistory", &history), limit("percentiles", 100, 101));
    for (method, params, code, text) in [
        ("dev_mine", "[true]", -32602, "a number, or a hex quantity, is wanted"),
        ("dev_mine", "[-1]", -32602, "a number, or a hex quantity, is wanted"),
        ("dev_reorg", "[]", -32602, "the chain has 0 blocks after its genesis"),
        ("dev_setBalance", "[\"0xzz\",\"0x1\"]", -32602, "Invalid params"),
        ("dev_setBalance", "[]", -32602, "Invalid params"),
        ("eth_getFilterChanges", "[\"0x99\"]", -32000, "filter not found"),
        (
            "eth_getStorageAt",
            &format!("[\"{address}\",\"0x{}\"]", "0".repeat(66)),
            -32602,
            "too long",
        ),
        ("eth_getBalance", &format!("[\"{address}\",\"0x99\"]"), -32000, "header not found"),
        (
            "eth_sendTransaction",
            &format!("[{{\"from\":\"{address}\"}}]"),
            -32000,
            "unknown account",
        ),
        ("eth_sendTransaction", "[{}]", -32000, "unknown account"),
        ("eth_sendRawTransaction", "[\"0x\"]", -32000, "typed transaction too short"),
    ] {
        let (have, message, _) = error(method, params);
        assert_eq!(have, code, "{method} {params}: {message}");
        assert!(message.contains(text), "{method} {params}: {message}");
    }
}

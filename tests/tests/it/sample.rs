//! The block files under `etc/samples`: our own chain, made here.
//!
//! `REGENERATE=samples cargo test -p prestate-tests --test it sample` writes them anew; without it
//! the test holds the files against what is made.

use crate::chain::extend;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes, U256, address};
use parking_lot::Mutex;
use prestate_diff::{Execution, replay, replay_lookups};
use prestate_host::{Host, RecoveredBlock, StateError, StateReader};
use prestate_host_embedded::MemoryChain;
use prestate_tests::{
    fixtures::workspace,
    generate::{
        Authorisation, BlockRecipe, CHAIN_ID, Code, Fork, GenesisPlan, Keys, Recipe, Shape, op,
    },
};
use prestate_types::AccountInfo;
use revm::bytecode::Bytecode;
use serde_json::{Value, json};
use std::{collections::BTreeMap, env, fs, ops::ControlFlow, sync::Arc};

/// Prague starts with this block's time; the blocks before are Cancun's.
const PRAGUE_TIME: u64 = 36;

/// Counts its calls in slot 0 and keeps the last caller in slot 1.
const COUNTER: Address = address!("0x00000000000000000000000000000000c0ffee01");
/// Sets slot `calldata[0..32]` to `calldata[32..64]`; without call data it clears slot 5.
const TABLE: Address = address!("0x00000000000000000000000000000000c0ffee02");
/// Reverts after a write.
const REFUSER: Address = address!("0x00000000000000000000000000000000c0ffee03");
/// Gets the tips.
const COINBASE: Address = address!("0x00000000000000000000000000000000c0ffee04");
/// Gets withdrawals.
const STAKER: Address = address!("0x00000000000000000000000000000000c0ffee05");

const ETHER: u128 = 1_000_000_000_000_000_000;

fn counter() -> Code {
    Code::new()
        .push(U256::ZERO)
        .op(op::SLOAD)
        .push(U256::ONE)
        .op(op::ADD)
        .push(U256::ZERO)
        .op(op::SSTORE)
        .op(op::CALLER)
        .push(U256::ONE)
        .op(op::SSTORE)
        .push(U256::ZERO)
        .push(U256::ZERO)
        .op(op::LOG0)
}

fn table() -> Code {
    // From byte 11 on: without call data.
    let set = Code::new()
        .ops(&[op::CALLDATASIZE, op::ISZERO])
        .push(U256::from(12))
        .op(op::JUMPI)
        .push(U256::from(32))
        .op(op::CALLDATALOAD)
        .push(U256::ZERO)
        .ops(&[op::CALLDATALOAD, op::SSTORE, op::STOP]);
    assert_eq!(set.len(), 12, "the jump's target");
    set.op(op::JUMPDEST).sstore(5, 0)
}

fn refuser() -> Code {
    Code::new().sstore(1, 1).push(U256::ZERO).push(U256::ZERO).op(0xfd)
}

fn keys() -> Keys {
    Keys::new(4)
}

fn genesis_json() -> Value {
    let mut plan = GenesisPlan::new(Fork::Prague);
    plan.base_fee = 1_000_000_000;
    for key in 0..keys().len() {
        plan.fund(keys().address(key), 100 * ETHER);
    }
    plan.contract(COUNTER, &counter(), 0, &[(0, 41)]);
    plan.contract(TABLE, &table(), 0, &[(5, 7), (6, 8)]);
    plan.contract(REFUSER, &refuser(), 3, &[]);
    let mut json: Value = serde_json::from_str(&plan.json()).expect("the plan is JSON");
    json["config"]["pragueTime"] = PRAGUE_TIME.into();
    json["gasLimit"] = "0x1c9c380".into();
    json
}

/// The chain's genesis.
pub(crate) fn genesis() -> Genesis {
    serde_json::from_value(genesis_json()).expect("a genesis file")
}

fn set(slot: u64, value: u64) -> Bytes {
    [U256::from(slot), U256::from(value)].map(|word| word.to_be_bytes::<32>()).concat().into()
}

fn recipes() -> [BlockRecipe; 4] {
    let keys = keys();
    let fresh = Address::with_last_byte(0xaa);
    let block =
        |transactions, withdrawals| BlockRecipe { coinbase: COINBASE, transactions, withdrawals };
    [
        block(
            vec![
                Recipe::call(0, fresh).value(ETHER).shape(Shape::Legacy),
                Recipe::call(1, COUNTER),
                Recipe::call(2, TABLE).input(set(9, 99)),
                Recipe::call(0, keys.address(1)).value(ETHER / 2),
            ],
            vec![(STAKER, 1_000_000)],
        ),
        block(
            vec![
                Recipe::create(1, table().deployed_after(&Code::new().sstore(5, 1)).bytes()),
                Recipe::call(2, TABLE),
                Recipe::call(3, REFUSER).value(1),
                Recipe::call(0, COUNTER).shape(Shape::AccessList(vec![(COUNTER, vec![0, 1])])),
                Recipe::call(0, TABLE).input(set(9, 99)),
            ],
            vec![],
        ),
        block(
            vec![
                Recipe::call(0, keys.address(3))
                    .shape(Shape::SetCode(vec![Authorisation::new(3, COUNTER)])),
                Recipe::call(1, keys.address(3)).no_tip(),
                Recipe::call(2, TABLE).input(set(6, 0)),
            ],
            vec![(STAKER, 2_000_000), (fresh, 1)],
        ),
        block(vec![], vec![]),
    ]
}

/// The chain's blocks: two of Cancun, two of Prague, the last one without transactions.
pub(crate) fn sample_blocks() -> Vec<RecoveredBlock> {
    let chain = MemoryChain::from_genesis(&genesis());
    recipes().iter().map(|recipe| extend(&chain, &keys(), recipe)).collect()
}

/// What was read of a state.
#[derive(Debug, Default)]
struct Read {
    accounts: BTreeMap<Address, Option<AccountInfo>>,
    storage: BTreeMap<Address, BTreeMap<B256, B256>>,
    codes: BTreeMap<B256, Bytecode>,
    block_hashes: BTreeMap<u64, B256>,
}

/// A state that keeps a record of what is read.
#[derive(Debug)]
struct Recorder {
    state: Box<dyn StateReader>,
    read: Arc<Mutex<Read>>,
}

impl StateReader for Recorder {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let account = self.state.account(address)?;
        self.read.lock().accounts.insert(address, account);
        Ok(account)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        // A slot cannot be written without its account.
        self.account(address)?;
        let value = self.state.storage(address, slot)?;
        self.read.lock().storage.entry(address).or_default().insert(slot, value);
        Ok(value)
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        let code = self.state.code(hash)?;
        self.read.lock().codes.insert(hash, code.clone());
        Ok(code)
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        let hash = self.state.block_hash(number)?;
        self.read.lock().block_hashes.insert(number, hash);
        Ok(hash)
    }
}

/// What a replay in either mode reads of the parent's state.
fn read_by(chain: &MemoryChain, block: &RecoveredBlock) -> Read {
    let read = Arc::new(Mutex::new(Read::default()));
    let open = || Recorder {
        state: chain.state_after(block.parent_hash).expect("the parent's state"),
        read: read.clone(),
    };
    let execution = Execution { spec: chain.spec(), block };
    let mut replayed =
        replay(execution, open(), &mut (), |_, _| ControlFlow::Continue(())).expect("valid");
    replayed.block_diff(&open()).expect("complete");
    replay_lookups(execution, open(), &mut (), |_, _, _| ControlFlow::Continue(())).expect("valid");
    // Codes that no step ran are shown all the same.
    let hashes: Vec<_> =
        read.lock().accounts.values().flatten().map(|info| info.code_hash).collect();
    let state = open();
    for hash in hashes {
        if hash != prestate_types::KECCAK_EMPTY {
            state.code(hash).expect("the code of an account");
        }
    }
    drop(state);
    std::mem::take(&mut *read.lock())
}

fn file(chain: &MemoryChain, block: &RecoveredBlock) -> String {
    let mut rpc = serde_json::to_value(block.header()).expect("a header is JSON");
    rpc["hash"] = json!(block.hash());
    rpc["uncles"] = json!([]);
    let mut transactions = Vec::new();
    for (tx, from) in block.body().transactions.iter().zip(block.senders()) {
        let mut json = serde_json::to_value(tx).expect("a transaction is JSON");
        json["from"] = json!(from);
        json["blockHash"] = json!(block.hash());
        json["blockNumber"] = json!(format!("{:#x}", block.number));
        json["transactionIndex"] = json!(format!("{:#x}", transactions.len()));
        transactions.push(json);
    }
    rpc["transactions"] = transactions.into();
    rpc["withdrawals"] = json!(block.body().withdrawals);

    let read = read_by(chain, block);
    let mut prestate = serde_json::Map::new();
    for (address, info) in read.accounts {
        let Some(info) = info else { continue };
        let mut account = json!({ "balance": format!("{:#x}", info.balance) });
        if info.nonce > 0 {
            account["nonce"] = info.nonce.into();
        }
        if let Some(code) = read.codes.get(&info.code_hash) {
            account["code"] = json!(code.original_bytes());
        }
        if let Some(storage) = read.storage.get(&address) {
            account["storage"] = json!(storage);
        }
        prestate.insert(format!("{address:#x}"), account);
    }
    let hashes: BTreeMap<_, _> =
        read.block_hashes.into_iter().map(|(number, hash)| (number.to_string(), hash)).collect();
    pretty(&json!({ "block": rpc, "prestate": prestate, "blockHashes": hashes }))
}

fn pretty(json: &Value) -> String {
    let mut text = serde_json::to_string_pretty(json).expect("JSON prints");
    text.push('\n');
    text
}

#[test]
fn samples_are_as_they_are_made() {
    let chain = MemoryChain::from_genesis(&genesis());
    let mut files = vec![("genesis.json".to_owned(), pretty(&genesis_json()))];
    for recipe in recipes() {
        let block = extend(&chain, &keys(), &recipe);
        files.push((format!("{}.json", block.number), file(&chain, &block)));
    }
    let folder = workspace().join("etc/samples");
    let write = env::var("REGENERATE").is_ok_and(|what| what == "samples");
    for (name, made) in files {
        let path = folder.join(name);
        if write {
            fs::write(&path, made).expect("the folder can be written to");
        } else {
            let there = fs::read_to_string(&path).expect("the sample is there");
            let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
            assert_eq!(parse(&there), parse(&made), "{}", path.display());
        }
    }
    assert_eq!(genesis().config.chain_id, CHAIN_ID);
}

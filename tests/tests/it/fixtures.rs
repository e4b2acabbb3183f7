//! 55 real mainnet blocks, whole and with one value changed.

use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, U64, U256, keccak256};
use prestate_diff::{Execution, ReplayError, Replayed, check_invariant, replay};
use prestate_host::{ChainSpec, StateError, check_header};
use prestate_host_embedded::{BlockFile, block_paths, load_path};
use prestate_tests::fixtures::{folder, skipped};
use prestate_types::{AccountDelta, AccountInfo, BlockFacts, SlotDelta, StateDiff, TxDiff};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, fs, io::Read, ops::ControlFlow, path::Path, sync::Arc};

/// Runs a block and holds it against its header; its transactions' diffs beside.
fn run(file: BlockFile) -> Result<(Replayed, Vec<TxDiff>, StateDiff), String> {
    let spec = ChainSpec::mainnet();
    let parent = Arc::new(file.prestate);
    let mut txs = Vec::new();
    let execution = Execution { spec: &spec, block: &file.block };
    let mut replayed = replay(execution, parent.clone(), &mut (), |tx, _| {
        txs.push(tx);
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    check_header(&spec, &file.block, replayed.finished.outcome())
        .map_err(|error| error.to_string())?;
    let whole = replayed.bundle_diff(&parent).map_err(|error| error.to_string())?;
    Ok((replayed, txs, whole.diff))
}

#[test]
fn every_block_is_its_headers_and_the_sum_of_its_parts() {
    let Some(mainnet) = folder("mainnet") else { return skipped("mainnet blocks") };
    let paths = block_paths(&mainnet).expect("the folder holds blocks");
    assert_eq!(paths.len(), 55);
    for path in paths {
        let file = load_path(&path).expect("a valid block file");
        let number = file.block.number;
        let (replayed, txs, whole) = run(file).unwrap_or_else(|error| panic!("{number}: {error}"));
        let facts = replayed.facts(txs);
        check_invariant(&facts, &whole).unwrap_or_else(|error| panic!("{error}"));
        // The codes of all accounts that changed are there, and are what their hashes say.
        let diffs = facts.txs.iter().map(|tx| &tx.diff);
        for diff in diffs.chain([&facts.pre_system, &facts.post_system, &whole]) {
            for (address, delta) in diff {
                for info in [delta.pre, delta.post].into_iter().flatten() {
                    assert!(replayed.codes.covers(&info), "{number}: code of {address}");
                }
            }
        }
        for (hash, code) in replayed.codes.iter() {
            assert_eq!(keccak256(code), *hash, "{number}");
        }
    }
}

/// The file's JSON.
fn json(path: &Path) -> Value {
    let raw = fs::read(path).expect("the file can be read");
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(raw.as_slice()).read_to_end(&mut text).expect("gzip");
    serde_json::from_slice(&text).expect("JSON")
}

fn parse(json: &Value) -> BlockFile {
    BlockFile::parse(json.to_string().as_bytes()).expect("a block file still")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    balance: U256,
    nonce: U64,
    code_hash: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlotChange {
    storage_key: B256,
    pre_value: Option<U256>,
    post_value: Option<U256>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountChange {
    address: Address,
    pre_account: Option<Account>,
    post_account: Option<Account>,
    #[serde(default)]
    storage: Vec<SlotChange>,
}

/// A contract that gets a withdrawal; the block file lacks its code (see the fixtures' README).
const CODE_NOT_IN_THE_FILE: &str = "0xf897e5cbab216805ded275c3d8caf0a3477e3400";

#[test]
fn block_22615247_is_as_another_source_has_it() {
    let Some(diffs) = folder("mainnet-statediff") else { return skipped("block 22615247") };
    let Some(mainnet) = folder("mainnet") else { return skipped("block 22615247") };
    let stated: Vec<AccountChange> =
        serde_json::from_value(json(&diffs.join("22615247.json.gz"))).expect("a list of changes");
    let file = load_path(&mainnet.join("22615247.json.gz")).expect("a block file");
    let (_, _, ours) = run(file).expect("a valid block");

    let info = |account: Option<Account>, address: Address| {
        account.map(|Account { balance, nonce, code_hash }| {
            let lacking = address == CODE_NOT_IN_THE_FILE.parse::<Address>().expect("an address");
            let code_hash = if lacking { prestate_types::KECCAK_EMPTY } else { code_hash };
            AccountInfo { nonce: nonce.to(), balance, code_hash }
        })
    };
    let mut slots = 0;
    let mut accounts = Vec::new();
    for change in stated {
        let value = |value: Option<U256>| B256::from(value.unwrap_or_default());
        let storage: Vec<_> = change
            .storage
            .into_iter()
            .map(|slot| {
                SlotDelta::new(slot.storage_key, value(slot.pre_value), value(slot.post_value))
            })
            .collect();
        slots += storage.len();
        let pre = info(change.pre_account, change.address);
        let post = info(change.post_account, change.address);
        accounts.push((change.address, AccountDelta { pre, post, storage, wiped: false }));
    }
    assert_eq!((accounts.len(), slots), (49, 48));
    let stated = StateDiff::from_unsorted(accounts);
    assert_eq!(
        (stated.len(), stated.slot_count()),
        (49, 48),
        "nothing is stated that is no change"
    );
    assert_eq!(ours.first_mismatch(&stated), None);
    assert_eq!(ours, stated);
}

/// Every slot of the file: account and key.
fn slots(file: &Value) -> Vec<(String, String)> {
    let accounts = file["prestate"].as_object().expect("a map of accounts");
    let mut slots = Vec::new();
    for (address, account) in accounts {
        for key in account["storage"].as_object().into_iter().flat_map(|storage| storage.keys()) {
            slots.push((address.clone(), key.clone()));
        }
    }
    slots
}

#[test]
fn a_missing_slot_is_named_and_never_taken_for_zero() {
    let Some(mainnet) = folder("mainnet") else { return skipped("a missing slot") };
    let whole = json(&mainnet.join("19426587.json.gz"));
    let all = slots(&whole);
    assert_eq!(all.len(), 136);
    for (address, key) in all.iter().step_by(9) {
        let mut cut = whole.clone();
        let storage = cut["prestate"][address]["storage"].as_object_mut().expect("slots");
        storage.remove(key).expect("the slot was there");
        let file = parse(&cut);
        let spec = ChainSpec::mainnet();
        let execution = Execution { spec: &spec, block: &file.block };
        let parent = Arc::new(file.prestate);
        let error = replay(execution, parent, &mut (), |_, _| ControlFlow::Continue(()))
            .expect_err("a slot is missing");
        let (owner, slot): (Address, B256) =
            (address.parse().expect("an address"), key.parse().expect("a slot"));
        let ReplayError::TxState { index, hash, source, .. } = &error else {
            panic!("{address} {key}: {error}");
        };
        assert_eq!(*source, StateError::MissingSlot { address: owner, slot });
        let transaction = &file.block.body().transactions[*index as usize];
        assert_eq!(transaction.tx_hash(), hash);
        assert!(transaction.gas_limit() > 21_000, "a plain transfer reads no slot");
        let text = error.to_string();
        let said = [owner.to_string(), slot.to_string(), hash.to_string()];
        assert!(said.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_wrong_value_of_one_slot_is_noticed() {
    let Some(mainnet) = folder("mainnet") else { return skipped("a wrong value") };
    let whole = json(&mainnet.join("19426587.json.gz"));
    let all = slots(&whole);
    let mut noticed = 0;
    let mut changed = 0;
    for (address, key) in all.iter().step_by(5) {
        let mut wrong = whole.clone();
        wrong["prestate"][address]["storage"][key] =
            Value::from(B256::repeat_byte(0x11).to_string());
        changed += 1;
        if let Err(error) = run(parse(&wrong)) {
            noticed += 1;
            assert!(error.contains("19426587"), "{error}");
        }
    }
    // A value that no branch, gas charge, log or return depends on cannot show in a header.
    assert!(noticed * 2 > changed, "{noticed} of {changed}");
}

/// Kinds of corruption: each changes one value of a block's parts.
type Corruption = (&'static str, fn(&mut BlockFacts) -> bool);

fn edit(
    diff: &mut StateDiff,
    change: impl FnOnce(&mut Vec<(Address, AccountDelta)>) -> bool,
) -> bool {
    let mut accounts = std::mem::take(diff).into_accounts();
    let done = change(&mut accounts);
    *diff = StateDiff::from_unsorted(accounts);
    done
}

/// Applies to the last part with an account that it fits; whether it fits one.
fn last(facts: &mut BlockFacts, change: impl Fn(&mut AccountDelta) -> bool) -> bool {
    // The last parts first: what they leave is what the block leaves.
    parts(facts).into_iter().rev().any(|diff| any(diff, &change))
}

/// As [`last`], from the front: what the first part finds is what the block finds.
fn first(facts: &mut BlockFacts, change: impl Fn(&mut AccountDelta) -> bool) -> bool {
    parts(facts).into_iter().any(|diff| any(diff, &change))
}

fn parts(facts: &mut BlockFacts) -> Vec<&mut StateDiff> {
    let BlockFacts { pre_system, txs, post_system, .. } = facts;
    let txs = txs.iter_mut().map(|tx| &mut tx.diff);
    std::iter::once(pre_system).chain(txs).chain(std::iter::once(post_system)).collect()
}

fn any(diff: &mut StateDiff, change: &impl Fn(&mut AccountDelta) -> bool) -> bool {
    edit(diff, |accounts| accounts.iter_mut().any(|(_, delta)| change(delta)))
}

const CORRUPTIONS: [Corruption; 9] = [
    ("a balance after", |facts| {
        last(facts, |delta| delta.post.as_mut().map(|post| post.balance += U256::ONE).is_some())
    }),
    ("a balance before", |facts| {
        first(facts, |delta| delta.pre.as_mut().map(|pre| pre.balance += U256::ONE).is_some())
    }),
    ("a nonce after", |facts| {
        last(facts, |delta| delta.post.as_mut().map(|post| post.nonce += 1).is_some())
    }),
    ("a code hash after", |facts| {
        last(facts, |delta| {
            delta.post.as_mut().map(|post| post.code_hash = B256::repeat_byte(1)).is_some()
        })
    }),
    ("a slot after", |facts| {
        last(facts, |delta| {
            delta.storage.first_mut().map(|slot| slot.post = B256::repeat_byte(2)).is_some()
        })
    }),
    ("a slot before", |facts| {
        first(facts, |delta| {
            delta.storage.first_mut().map(|slot| slot.pre = B256::repeat_byte(3)).is_some()
        })
    }),
    ("a slot dropped", |facts| {
        last(facts, |delta| {
            !delta.storage.is_empty() && {
                delta.storage.remove(0);
                true
            }
        })
    }),
    ("a slot too many", |facts| {
        last(facts, |delta| {
            let slot = B256::repeat_byte(0xee);
            delta.storage.push(SlotDelta::new(slot, B256::ZERO, B256::with_last_byte(1)));
            true
        })
    }),
    ("a transaction dropped", |facts| facts.txs.pop().is_some()),
];

#[test]
fn one_corrupted_value_breaks_the_invariant() {
    let Some(mainnet) = folder("mainnet") else { return skipped("corrupted facts") };
    for number in ["2688148", "12459406", "19426587", "22615247"] {
        let file = load_path(&mainnet.join(format!("{number}.json.gz"))).expect("a block file");
        let (replayed, txs, whole) = run(file).expect("a valid block");
        let sound = replayed.facts(txs);
        check_invariant(&sound, &whole).expect("sound facts");
        for (what, corrupt) in CORRUPTIONS {
            let mut facts = sound.clone();
            if !corrupt(&mut facts) {
                continue;
            }
            let error = check_invariant(&facts, &whole)
                .expect_err(&format!("block {number}: {what} goes unnoticed"));
            assert!(error.to_string().contains(number), "{error}");
        }
    }
    let kinds: BTreeMap<_, _> = CORRUPTIONS.into_iter().collect();
    assert_eq!(kinds.len(), CORRUPTIONS.len());
}

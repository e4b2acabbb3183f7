//! Geth's own vectors for `prestateTracer`, byte for byte.
//!
//! Geth's harness (`eth/tracers/internal/tracetest/prestate_test.go`) compares trees, and some
//! files hold their result in another key order than Geth's encoder writes; those are named in
//! [`OTHER_KEY_ORDER`] and put into the encoder's order by [`geth_order`] before bytes are compared.
//!
//! The harness does not finalise the state before the tracer reads it (rule A3 of the semantics),
//! a node does. Here a vector runs as in a node, as the only transaction of a block.

use alloy_consensus::{
    BlockBody, EthereumTxEnvelope, Header, TxEip4844, TxEip4844Variant,
    transaction::SignerRecoverable,
};
use alloy_eips::{
    eip2718::Decodable2718, eip4844::DATA_GAS_PER_BLOB, eip7685::EMPTY_REQUESTS_HASH,
};
use alloy_genesis::{ChainConfig, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use prestate_diff::{Execution, PlainOptions, ReplayError, replay, replay_lookups};
use prestate_host::{Block, ChainSpec, RecoveredBlock};
use prestate_host_embedded::MapState;
use prestate_tests::fixtures::{folder, skipped};
use prestate_types::{GethDiff, GethOptions};
use prestate_wire::{CodeTable, KnownCodes, RopeBuilder, write_geth_pair, write_geth_state};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, fs, ops::ControlFlow, path::Path, sync::Arc};

/// Files whose result is not in the order of Geth's encoder.
const OTHER_KEY_ORDER: [&str; 16] = [
    "prestate_tracer/disable_code.json",
    "prestate_tracer/disable_code_and_storage.json",
    "prestate_tracer/disable_storage.json",
    "prestate_tracer/simple.json",
    "prestate_tracer_with_diff_mode/create.json",
    "prestate_tracer_with_diff_mode/create_disable_code.json",
    "prestate_tracer_with_diff_mode/create_disable_storage.json",
    "prestate_tracer_with_diff_mode/create_failed.json",
    "prestate_tracer_with_diff_mode/create_post_eip158.json",
    "prestate_tracer_with_diff_mode/create_suicide.json",
    "prestate_tracer_with_diff_mode/inner_create.json",
    "prestate_tracer_with_diff_mode/inner_create_disable_code_and_storage.json",
    "prestate_tracer_with_diff_mode/simple.json",
    "prestate_tracer_with_diff_mode/simple_disable_code_and_storage.json",
    "prestate_tracer_with_diff_mode/suicide.json",
    "prestate_tracer_with_diff_mode/suicide_cancun.json",
];

/// Diff-mode vectors that differ without `exact`, and by which artefact of Geth.
const DIFFER_IN_TRUE_MODE: [(&str, &str); 0] = [];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    genesis: Genesis,
    context: Context,
    input: String,
    #[serde(default)]
    tracer_config: TracerConfig,
    result: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Genesis {
    config: ChainConfig,
    alloc: BTreeMap<Address, Account>,
    #[serde(default)]
    mix_hash: B256,
}

/// `codeHash`, which one file has, is left to the reader of the state.
#[derive(Deserialize)]
struct Account {
    balance: U256,
    nonce: Option<Quantity>,
    code: Option<Bytes>,
    storage: Option<BTreeMap<B256, B256>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    number: Quantity,
    timestamp: Quantity,
    difficulty: Quantity,
    gas_limit: Quantity,
    miner: Address,
    base_fee_per_gas: Option<Quantity>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TracerConfig {
    diff_mode: bool,
    disable_code: bool,
    disable_storage: bool,
    include_empty: bool,
}

/// A JSON number, or a string in decimal or hex.
#[derive(Clone, Copy)]
struct Quantity(u64);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(input)?;
        let number = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text
                .strip_prefix("0x")
                .map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
                .ok(),
            _ => None,
        };
        number.map(Self).ok_or_else(|| D::Error::custom(format!("{value} is no quantity")))
    }
}

impl Vector {
    /// The block that holds the transaction alone.
    fn block(&self, spec: &ChainSpec) -> RecoveredBlock {
        let text = self.input.trim_start_matches("0x");
        let raw = hex::decode(text).expect("the input is hex");
        let tx = EthereumTxEnvelope::<TxEip4844Variant>::decode_2718(&mut raw.as_slice())
            .expect("the input is a transaction");
        let tx: EthereumTxEnvelope<TxEip4844> = tx.map_eip4844(Into::into);
        let sender = tx.recover_signer_unchecked().expect("the signature recovers");
        let context = &self.context;
        let (number, timestamp) = (context.number.0, context.timestamp.0);
        let params = spec.blob_params_at(timestamp);
        // Excess blob gas is zero below: Geth computes the blob fee from a parent without blob
        // fields of its own (`tracetest/util.go`, `toBlockContext`), whatever the genesis says.
        let prague = self.genesis.config.prague_time.is_some_and(|time| timestamp >= time);
        let header = Header {
            number,
            timestamp,
            difficulty: U256::from(context.difficulty.0),
            gas_limit: context.gas_limit.0,
            beneficiary: context.miner,
            base_fee_per_gas: context.base_fee_per_gas.map(|fee| fee.0),
            mix_hash: self.genesis.mix_hash,
            excess_blob_gas: params.map(|_| 0),
            blob_gas_used: params.map(|_| {
                tx.as_eip4844()
                    .map_or(0, |tx| tx.tx().blob_versioned_hashes.len() as u64 * DATA_GAS_PER_BLOB)
            }),
            parent_beacon_block_root: params.map(|_| B256::ZERO),
            requests_hash: prague.then_some(EMPTY_REQUESTS_HASH),
            ..Default::default()
        };
        let body = BlockBody { transactions: vec![tx], ommers: Vec::new(), withdrawals: None };
        RecoveredBlock::new_unhashed(Block { header, body }, vec![sender])
    }

    fn state(&self) -> MapState {
        MapState::whole(self.genesis.alloc.iter().map(|(address, account)| {
            let Account { balance, nonce, code, storage } = account;
            let account = GenesisAccount {
                nonce: nonce.map(|nonce| nonce.0),
                balance: *balance,
                code: code.clone(),
                storage: storage.clone(),
                private_key: None,
            };
            (*address, account)
        }))
    }

    const fn fields(&self) -> GethOptions {
        let TracerConfig { disable_code, disable_storage, .. } = self.tracer_config;
        GethOptions { disable_code, disable_storage }
    }

    /// As Geth prints it.
    fn exact(&self) -> String {
        let spec = ChainSpec::from_genesis(&self.genesis.config);
        let block = self.block(&spec);
        let execution = Execution { spec: &spec, block: &block };
        let mut out = RopeBuilder::new();
        // Stopped after the transaction: the chain's system contracts are not in the vector.
        let ran =
            replay_lookups(execution, Arc::new(self.state()), &mut (), |_, lookups, codes| {
                let table = CodeTable::new();
                let codes = KnownCodes::new(&table, codes);
                let written = if self.tracer_config.diff_mode {
                    write_geth_pair(&mut out, &lookups.exact_diff(self.fields()), &codes)
                } else {
                    let include_empty = self.tracer_config.include_empty;
                    let options = PlainOptions { fields: self.fields(), include_empty };
                    write_geth_state(&mut out, &lookups.plain(options), &codes)
                };
                written.expect("the codes are known");
                ControlFlow::Break(())
            });
        assert_eq!(ran.err(), Some(ReplayError::Stopped));
        String::from_utf8(out.finish().to_vec()).expect("JSON is UTF-8")
    }

    /// Diff mode as it is by default: what the transaction really changed.
    fn true_diff(&self) -> String {
        let spec = ChainSpec::from_genesis(&self.genesis.config);
        let block = self.block(&spec);
        let execution = Execution { spec: &spec, block: &block };
        let mut out = RopeBuilder::new();
        let ran = replay(execution, Arc::new(self.state()), &mut (), |tx, codes| {
            let table = CodeTable::new();
            let codes = KnownCodes::new(&table, codes);
            write_geth_pair(&mut out, &GethDiff::of(&tx, self.fields()), &codes)
                .expect("the codes are known");
            ControlFlow::Break(())
        });
        assert_eq!(ran.err(), Some(ReplayError::Stopped));
        String::from_utf8(out.finish().to_vec()).expect("JSON is UTF-8")
    }
}

/// Compact JSON in the order of Geth's encoder: struct fields `balance`, `code`, `codeHash`,
/// `nonce`, `storage` and `post` before `pre` as they are declared
/// (`native/gen_account_json.go`, `native/prestate.go`), maps by key. Declared order and order by
/// key are the same here.
fn geth_order(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<_, _> = object.iter().collect();
            let entries: Vec<_> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), geth_order(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}

/// Drops white space between tokens; nothing else is changed.
fn compact(json: &str) -> String {
    let mut in_string = false;
    json.chars()
        .filter(|c| {
            // No string of the vectors holds an escape.
            in_string ^= *c == '"';
            in_string || !c.is_ascii_whitespace()
        })
        .collect()
}

/// Name and content of the vectors of a folder.
fn vectors(root: &Path, folder: &str) -> Vec<(String, Vector)> {
    let mut paths: Vec<_> = fs::read_dir(root.join(folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    paths.sort();
    let read = |path: &Path| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("the file can be read");
        let vector = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (format!("{folder}/{name}"), vector)
    };
    paths.iter().map(|path| read(path)).collect()
}

/// Holds a folder's vectors against exact mode; what differs, in words.
fn check(root: &Path, folder: &str, count: usize) {
    let vectors = vectors(root, folder);
    assert_eq!(vectors.len(), count, "vectors in {folder}");
    let mut wrong = Vec::new();
    for (name, vector) in &vectors {
        let stated = compact(vector.result.get());
        assert!(!stated.contains('\\'), "{name} holds an escape");
        let tree: Value = serde_json::from_str(&stated).expect("a result is JSON");
        let expected = geth_order(&tree);
        let other_order = expected != stated;
        assert_eq!(other_order, OTHER_KEY_ORDER.contains(&name.as_str()), "{name}: key order");
        let exact = vector.exact();
        if exact != expected {
            wrong.push(format!("{name}:\n  {exact}\n  {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn diff_mode_is_geths_byte_for_byte() {
    let Some(root) = folder("geth-tracers") else { return skipped("diff-mode vectors") };
    check(&root, "prestate_tracer_with_diff_mode", 13);
}

#[test]
fn plain_mode_is_geths_byte_for_byte() {
    let Some(root) = folder("geth-tracers") else { return skipped("plain-mode vectors") };
    check(&root, "prestate_tracer", 11);
}

#[test]
fn without_the_artefacts_only_the_named_vectors_differ() {
    let Some(root) = folder("geth-tracers") else { return skipped("diff-mode vectors") };
    let mut differ = Vec::new();
    for (name, vector) in vectors(&root, "prestate_tracer_with_diff_mode") {
        let expected: Value = serde_json::from_str(vector.result.get()).expect("JSON");
        let told = vector.true_diff();
        if told != geth_order(&expected) {
            println!("{name}:\n  {told}\n  {}", geth_order(&expected));
            differ.push(name);
        }
    }
    let named: Vec<_> = DIFFER_IN_TRUE_MODE.iter().map(|(name, _)| *name).collect();
    assert_eq!(differ, named);
}

#[test]
fn geth_order_sorts_and_compact_keeps_strings() {
    let text = "{ \"pre\": { \"b\": 1,\n \"a\": \"x y\" }, \"post\": {} }";
    assert_eq!(compact(text), r#"{"pre":{"b":1,"a":"x y"},"post":{}}"#);
    let tree: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(geth_order(&tree), r#"{"post":{},"pre":{"a":"x y","b":1}}"#);
}

//! One vector: a signed transaction on a state of its own, run through any tracer.

use alloy_consensus::{
    BlockBody, EthereumTxEnvelope, Header, TxEip4844, TxEip4844Variant,
    transaction::SignerRecoverable,
};
use alloy_eips::{eip2718::Decodable2718, eip4844::DATA_GAS_PER_BLOB};
use alloy_genesis::{ChainConfig, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, U256, b256, hex};
use prestate_diff::{Execution, TraceLimits, trace_block};
use prestate_host::{Block, ChainSpec, RecoveredBlock};
use prestate_host_embedded::MapState;
use prestate_types::Tracer;
use prestate_wire::{CodeTable, KnownCodes, RopeBuilder, StepText, write_trace};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fs, ops::ControlFlow, path::Path, sync::Arc};

/// The hash of the block that the transaction is put into; the files name none.
pub(crate) const BLOCK_HASH: B256 =
    b256!("0x000000000000000000000000000000000000000000000000000000000000b10c");

/// A vector whose expected result is not looked at yet.
#[derive(Debug)]
pub(crate) struct Vector {
    /// `<folder>/<file without .json>`.
    pub(crate) name: String,
    /// The file.
    pub(crate) file: Value,
    spec: ChainSpec,
    state: Arc<MapState>,
    block: RecoveredBlock,
}

/// The vectors of a folder, by name.
pub(crate) fn vectors(root: &Path, folder: &str) -> Vec<Vector> {
    let mut paths: Vec<_> = fs::read_dir(root.join(folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    paths.sort();
    paths.iter().map(|path| Vector::read(folder, path)).collect()
}

impl Vector {
    pub(crate) fn read(folder: &str, path: &Path) -> Self {
        let name = path.file_stem().expect("a file").to_string_lossy();
        let text = fs::read_to_string(path).expect("the file can be read");
        let file: Value = serde_json::from_str(&text).expect("the file is JSON");
        let config = chain_config(&file["genesis"]["config"]);
        let spec = ChainSpec::from_genesis(&config);
        let block = block(&file, &spec);
        let state = Arc::new(MapState::whole(accounts(&file["genesis"]["alloc"])));
        Self { name: format!("{folder}/{name}"), file, spec, state, block }
    }

    /// What to run.
    pub(crate) const fn execution(&self) -> Execution<'_> {
        Execution { spec: &self.spec, block: &self.block }
    }

    /// The state it runs on.
    pub(crate) fn state(&self) -> Arc<MapState> {
        self.state.clone()
    }

    /// Whether the vector's tracer options switch something on.
    pub(crate) fn option(&self, name: &str) -> bool {
        self.file["tracerConfig"][name].as_bool().unwrap_or_default()
    }

    /// Runs the transaction with a tracer and returns its text.
    pub(crate) fn trace(&self, tracer: &Tracer) -> String {
        // Stopped after the transaction: the chain's system contracts are not in the vector.
        let limits = TraceLimits { only: Some(0), max_step_bytes: 1 << 30 };
        let mut text = None;
        let run = trace_block(
            self.execution(),
            self.state(),
            tracer,
            limits,
            (),
            StepText::default,
            |_, _, trace, codes| {
                let table = CodeTable::new();
                let mut out = RopeBuilder::new();
                write_trace(&mut out, trace, &KnownCodes::new(&table, codes))
                    .expect("the codes are known");
                text = Some(out.finish().to_vec());
                ControlFlow::Continue(())
            },
        );
        run.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        String::from_utf8(text.expect("the transaction ran")).expect("JSON is UTF-8")
    }
}

/// A chain's rules. Go reads keys whatever their case, and some vectors rely on it. One vector
/// (`call_tracer_flat/nested_create_inerror`) stands between Constantinople and Petersburg, which
/// is a set of rules that revm does not have; they differ in SSTORE's gas alone (EIP-1283), and it
/// has no SSTORE.
fn chain_config(config: &Value) -> ChainConfig {
    let mut folded = serde_json::Map::new();
    for (key, value) in config.as_object().expect("a config") {
        let key = key.replacen("IstanbulBlock", "istanbulBlock", 1);
        folded.insert(key, value.clone());
    }
    if let Some(block) = folded.get("constantinopleBlock").cloned() {
        folded.insert("petersburgBlock".to_owned(), block);
    }
    parse(&Value::Object(folded))
}

/// The block that holds the transaction alone. Geth's harness computes the blob fee from a parent
/// without blob fields of its own (`tracetest/util.go`, `toBlockContext`), whatever the genesis
/// says.
fn block(file: &Value, spec: &ChainSpec) -> RecoveredBlock {
    let input = file["input"].as_str().expect("an input");
    let raw = hex::decode(input).expect("the input is hex");
    let tx = EthereumTxEnvelope::<TxEip4844Variant>::decode_2718(&mut raw.as_slice())
        .expect("the input is a transaction");
    let tx: EthereumTxEnvelope<TxEip4844> = tx.map_eip4844(Into::into);
    let sender = tx.recover_signer_unchecked().expect("the signature recovers");
    let context = &file["context"];
    let timestamp = quantity(&context["timestamp"]).expect("a time");
    let params = spec.blob_params_at(timestamp);
    let blobs = tx.as_eip4844().map_or(0, |tx| tx.tx().blob_versioned_hashes.len() as u64);
    let header = Header {
        number: quantity(&context["number"]).expect("a number"),
        timestamp,
        difficulty: U256::from(quantity(&context["difficulty"]).unwrap_or_default()),
        gas_limit: quantity(&context["gasLimit"]).expect("a gas limit"),
        beneficiary: parse(&context["miner"]),
        base_fee_per_gas: quantity(&context["baseFeePerGas"]),
        mix_hash: file["genesis"].get("mixHash").map(parse).unwrap_or_default(),
        excess_blob_gas: params.map(|_| 0),
        blob_gas_used: params.map(|_| blobs * DATA_GAS_PER_BLOB),
        parent_beacon_block_root: params.map(|_| B256::ZERO),
        ..Default::default()
    };
    let body = BlockBody { transactions: vec![tx], ommers: Vec::new(), withdrawals: None };
    RecoveredBlock::new(Block { header, body }, vec![sender], BLOCK_HASH)
}

/// `codeHash`, which one file has, is left to the reader of the state.
fn accounts(alloc: &Value) -> Vec<(Address, GenesisAccount)> {
    let accounts = alloc.as_object().expect("an alloc");
    let account = |(address, account): (&String, &Value)| {
        let genesis = GenesisAccount {
            nonce: quantity(&account["nonce"]),
            balance: parse(&account["balance"]),
            code: account.get("code").map(parse::<Bytes>),
            storage: account.get("storage").map(parse),
            private_key: None,
        };
        (address.parse().expect("an address"), genesis)
    };
    accounts.iter().map(account).collect()
}

/// A JSON number, or a string in decimal or hex.
fn quantity(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        other => other.as_u64(),
    }
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("the field has its type")
}

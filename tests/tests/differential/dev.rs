//! A dev chain against Geth: it imports the chain's blocks, and answers what clients ask the same
//! way.

use alloy_consensus::{TxEip1559, TxEip2930};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use alloy_rlp::Encodable;
use alloy_signer_local::PrivateKeySigner;
use prestate_host::Host;
use prestate_host_embedded::dev::{DevChain, DevConfig, Hardfork, dev_module};
use prestate_rpc::{Call, Modules, Reply, Service};
use prestate_tests::{
    dev_chain::{CHAIN_ID, FRESH, GWEI, blob_tx, dynamic, legacy, set_code, signed, signers},
    geth::{self, Answer, Geth},
};
use serde_json::{Value, json, value::RawValue};
use std::{error::Error, fs, sync::Arc};
use tokio::runtime::Runtime;

/// Reverts with `Error("no")`, which stands behind its code.
fn refuser() -> Bytes {
    let reason = [
        hex!("08c379a0").to_vec(),
        U256::from(32).to_be_bytes::<32>().to_vec(),
        U256::from(2).to_be_bytes::<32>().to_vec(),
        B256::right_padding_from(b"no").to_vec(),
    ]
    .concat();
    // CODECOPY(0, 10, 100), REVERT(0, 100); before it CODECOPY(0, 10, 110), RETURN(0, 110).
    let runtime = [hex!("6064600a5f3960645ffd").to_vec(), reason].concat();
    [hex!("606e600a5f39606e5ff3").to_vec(), runtime].concat().into()
}

struct Scene {
    chain: Arc<DevChain>,
    methods: Modules,
    runtime: Runtime,
    signers: Vec<PrivateKeySigner>,
    refuser: Address,
}

impl Scene {
    fn play() -> Self {
        let chain = Arc::new(DevChain::open(DevConfig::default()).expect("a dev chain"));
        let signers = signers(&chain);
        let send = |raw: Bytes| chain.send_raw(&raw).expect("it is taken");
        send(legacy(&signers[0], 0, FRESH, 5));
        let listed = TxEip2930 {
            chain_id: CHAIN_ID,
            nonce: 1,
            gas_price: 3 * GWEI,
            gas_limit: 100_000,
            to: FRESH.into(),
            ..TxEip2930::default()
        };
        send(signed(&signers[0], listed));
        send(blob_tx(&signers[1], Hardfork::Bpo2));
        send(set_code(&signers[2], &signers[3]));
        let create = TxEip1559 { to: TxKind::Create, input: refuser(), ..dynamic(0) };
        send(signed(&signers[4], create));
        let refuser = signers[4].address().create(0);
        send(signed(&signers[4], TxEip1559 { to: refuser.into(), ..dynamic(1) }));
        // An empty block, and one of several transactions.
        chain.mine(2).expect("blocks");
        Self {
            methods: Modules::new(dev_module(chain.clone()).expect("its methods")),
            runtime: Runtime::new().expect("a runtime"),
            chain,
            signers,
            refuser,
        }
    }

    fn blocks(&self) -> Vec<u8> {
        let mut rlp = Vec::new();
        for number in 1..=self.chain.head().expect("a head").number {
            let hash = self.chain.canonical_hash(number).expect("no error").expect("canonical");
            let block = self.chain.block(hash).expect("no error").expect("a block");
            block.sealed_block().encode(&mut rlp);
        }
        rlp
    }

    fn call(&self, method: &str, params: &str) -> Result<Value, (i64, String, Value)> {
        let params = RawValue::from_string(params.to_owned()).expect("JSON");
        self.runtime.block_on(async {
            match self.methods.call(Call { method, params: Some(&params) }).await {
                Ok(answer) => match answer.reply {
                    Reply::Whole(rope) => Ok(serde_json::from_slice(&rope.to_vec()).expect("JSON")),
                    Reply::Stream(_) => panic!("modules answer in one piece"),
                },
                Err(error) => {
                    let data = error.data.map_or(Value::Null, |data| {
                        serde_json::from_str(data.get()).expect("JSON")
                    });
                    Err((i64::from(error.code), error.message, data))
                }
            }
        })
    }

    /// What clients ask, about every block and transaction.
    fn questions(&self) -> Vec<(&'static str, Value)> {
        let head = self.chain.head().expect("a head").number;
        let mut asked = vec![
            ("eth_chainId", json!([])),
            ("eth_blockNumber", json!([])),
            ("net_version", json!([])),
            ("web3_sha3", json!(["0x68656c6c6f"])),
            ("eth_blobBaseFee", json!([])),
            ("eth_getLogs", json!([{ "fromBlock": "0x0" }])),
            ("eth_getLogs", json!([{ "fromBlock": "0x3", "toBlock": "0x1" }])),
            ("eth_feeHistory", json!(["0x4", "latest", [10.0, 50.0, 99.0]])),
            ("eth_feeHistory", json!([2, "0x3", []])),
            ("eth_feeHistory", json!(["0x4", "latest", [50.0, 10.0]])),
            ("eth_feeHistory", json!(["0x4", "latest", [101.0]])),
            ("eth_feeHistory", json!(["0x4", "0xffff", []])),
            ("eth_getBlockByNumber", json!(["0xffff", false])),
            ("eth_getBlockByHash", json!([B256::ZERO, false])),
            ("eth_getTransactionByHash", json!([B256::ZERO])),
            ("eth_getTransactionReceipt", json!([B256::ZERO])),
            ("eth_getBalance", json!([FRESH, "0xffff"])),
            ("eth_getBalance", json!([FRESH, { "blockHash": B256::ZERO }])),
            ("eth_getBlockReceipts", json!(["0xffff"])),
            ("eth_getUncleCountByBlockNumber", json!(["0x1"])),
        ];
        for number in 0..=head {
            let tag = format!("{number:#x}");
            let hash = self.chain.canonical_hash(number).expect("no error").expect("canonical");
            asked.extend([
                ("eth_getBlockByNumber", json!([tag, false])),
                ("eth_getBlockByNumber", json!([tag, true])),
                ("eth_getBlockByHash", json!([hash, true])),
                ("eth_getBlockReceipts", json!([tag])),
                ("eth_getBlockTransactionCountByNumber", json!([tag])),
                ("eth_getBlockTransactionCountByHash", json!([hash])),
                ("eth_getTransactionByBlockNumberAndIndex", json!([tag, "0x0"])),
                ("eth_getTransactionByBlockHashAndIndex", json!([hash, "0x7"])),
                ("eth_getLogs", json!([{ "blockHash": hash }])),
            ]);
            for address in self.signers.iter().map(PrivateKeySigner::address).chain([FRESH]) {
                asked.push(("eth_getBalance", json!([address, tag])));
                asked.push(("eth_getTransactionCount", json!([address, { "blockHash": hash }])));
                asked.push(("eth_getCode", json!([address, tag])));
                asked.push(("eth_getProof", json!([address, ["0x0", B256::ZERO], tag])));
            }
            let beacon_roots = "0x000f3df6d732807ef1319fb7b8bb8522d0beac02";
            let block = self.chain.block(hash).expect("no error").expect("a block");
            let slot = format!("{:#x}", block.timestamp % 8191);
            asked.push(("eth_getStorageAt", json!([beacon_roots, slot, tag])));
            asked.push(("eth_getProof", json!([beacon_roots, [slot, "0x1"], tag])));
            for tx in &block.body().transactions {
                asked.push(("eth_getTransactionByHash", json!([tx.tx_hash()])));
                asked.push(("eth_getTransactionReceipt", json!([tx.tx_hash()])));
                asked.push(("eth_getRawTransactionByHash", json!([tx.tx_hash()])));
            }
        }
        asked
    }

    /// Calls and estimates, successful and not.
    fn calls(&self) -> Vec<Value> {
        let from = self.signers[5].address();
        let poor = Address::with_last_byte(0xee);
        let proxy = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
        // SSTORE in a loop until the gas is gone; an invalid opcode; a jump to nowhere.
        let codes = ["0x5b5f545f555f56", "0xfe", "0x600356", "0x5f5ffd", "0x6000"];
        let mut calls = vec![
            json!([{ "from": from, "to": FRESH, "value": "0x1" }]),
            json!([{ "to": self.refuser }]),
            json!([{ "from": from, "to": self.refuser, "gas": "0x5208" }]),
            json!([{ "from": from, "to": self.refuser, "gas": "0x10" }]),
            json!([{ "from": poor, "to": FRESH, "value": "0x1" }]),
            json!([{ "from": poor, "to": FRESH, "gasPrice": "0x3b9aca00" }]),
            json!([{ "from": from, "to": FRESH, "maxFeePerGas": "0x1" }]),
            json!([{ "from": from, "to": FRESH, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2" }]),
            json!([{ "from": from, "to": FRESH, "gasPrice": "0x1", "maxFeePerGas": "0x2" }]),
            json!([{ "from": from, "data": refuser() }]),
            json!([{ "from": from, "to": proxy, "data": format!("0x{}{}", "00".repeat(32), "600160005500") }]),
            json!([{ "from": from, "to": FRESH, "data": format!("0x{}", "01".repeat(2000)) }]),
            json!([{ "from": from, "to": FRESH, "chainId": "0x1" }]),
        ];
        for code in codes {
            let to = Address::with_last_byte(0xcc);
            let account = json!({ to.to_string(): { "code": code } });
            calls.push(json!([{ "from": from, "to": to, "gas": "0x186a0" }, "latest", account]));
        }
        calls
    }

    /// Raw transactions that a pool refuses.
    fn refused(&self) -> Vec<Bytes> {
        let signer = &self.signers[0];
        let poor = PrivateKeySigner::from_bytes(&B256::with_last_byte(1)).expect("a key");
        let change = |change: fn(TxEip1559) -> TxEip1559| signed(signer, change(dynamic(9)));
        vec![
            Bytes::new(),
            legacy(signer, 0, FRESH, 1),
            legacy(&poor, 0, FRESH, 1),
            change(|tx| TxEip1559 { gas_limit: 20_000, ..tx }),
            change(|tx| TxEip1559 { gas_limit: 21_000, input: vec![1; 100].into(), ..tx }),
            change(|tx| TxEip1559 { gas_limit: 25_000, input: vec![1; 200].into(), ..tx }),
            change(|tx| TxEip1559 { gas_limit: 60_000_001, ..tx }),
            change(|tx| TxEip1559 { max_priority_fee_per_gas: 9 * GWEI, ..tx }),
            change(|tx| TxEip1559 { chain_id: 1, ..tx }),
            change(|tx| TxEip1559 { nonce: u64::MAX, ..tx }),
            change(|tx| TxEip1559 {
                to: TxKind::Create,
                input: vec![0; 49_153].into(),
                gas_limit: 5_000_000,
                ..tx
            }),
            change(|tx| TxEip1559 { input: vec![1; 131_073].into(), gas_limit: 16_000_000, ..tx }),
            blob_tx(signer, Hardfork::Cancun),
            hex!("05c0").into(),
        ]
    }
}

/// As Geth says it, in a form that can be compared.
fn theirs(answer: Answer) -> Result<Value, (i64, String, Value)> {
    match &answer {
        Answer::Result(json) => Ok(serde_json::from_str(json).expect("JSON")),
        Answer::Error(error) => {
            let error: Value = serde_json::from_str(error).expect("JSON");
            let message = error["message"].as_str().expect("a message").to_owned();
            Err((error["code"].as_i64().expect("a code"), message, error["data"].clone()))
        }
    }
}

/// JSON numbers as numbers: `0` is `0.0`.
fn numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Array(items) => items.iter_mut().for_each(numbers),
        Value::Object(members) => members.values_mut().for_each(numbers),
        _ => {}
    }
}

#[test]
fn geth_takes_the_blocks_and_answers_the_same() -> Result<(), Box<dyn Error>> {
    let binary = match geth::locate() {
        Ok(binary) => binary,
        Err(reason) => {
            println!("skipped: dev chain against Geth: {reason}");
            return Ok(());
        }
    };
    let scene = Scene::play();
    let geth = Geth::start(&binary, &serde_json::to_string(scene.chain.genesis())?)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("blocks.rlp");
    fs::write(&file, scene.blocks())?;
    geth.import(&file)?;

    let mut differences = Vec::new();
    let mut compare = |method: &str, params: &Value| -> Result<(), Box<dyn Error>> {
        let text = params.to_string();
        let (mut want, mut have) = (theirs(geth.call(method, &text)?), scene.call(method, &text));
        if let (Ok(want), Ok(have)) = (&mut want, &mut have) {
            numbers(want);
            numbers(have);
        }
        if want != have {
            let text: String = text.chars().take(200).collect();
            differences.push(format!("{method} {text}\n  geth {want:?}\n  ours {have:?}"));
        }
        Ok(())
    };
    let questions = scene.questions();
    for (method, params) in &questions {
        compare(method, params)?;
    }
    let calls = scene.calls();
    for params in &calls {
        compare("eth_call", params)?;
        compare("eth_estimateGas", params)?;
    }
    let refused = scene.refused();
    for raw in &refused {
        compare("eth_sendRawTransaction", &json!([raw]))?;
    }
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
    println!("{} questions, {} calls, {} refusals", questions.len(), calls.len(), refused.len());
    Ok(())
}

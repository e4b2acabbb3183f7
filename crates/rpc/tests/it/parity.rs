//! `trace_*` held against what the `debug_*` tracers say of the same blocks, which are compared
//! with Geth elsewhere.

use crate::support::{Case, answer, call, errors_chain, exact, truthful, value};
use prestate_host::{ChainSpec, Host};
use prestate_host_embedded::{ReplayHost, block_paths, load_path};
use prestate_rpc::{METHODS, Rpc, RpcConfig};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

const FLAT: &str = r#"{"tracer":"flatCallTracer","timeout":"10m"}"#;
const DIFF: &str =
    r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true},"timeout":"10m"}"#;

fn scenarios() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/scenarios");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(Case::read).collect()
}

/// Traces of a block, the transactions' own.
async fn traces(rpc: &Rpc, block: &str) -> Vec<Value> {
    let traces = value(rpc, "trace_block", &format!("[{block}]")).await;
    traces.as_array().unwrap().clone()
}

/// What both forms say of a call. Of the transaction's own, Geth's flat form counts the intrinsic
/// gas and the refund, OpenEthereum's does not.
fn comparable(trace: &Value) -> Value {
    let mut trace = trace.clone();
    if trace["traceAddress"] == json!([]) {
        trace["action"].as_object_mut().unwrap().remove("gas");
        if let Some(result) = trace["result"].as_object_mut() {
            result.remove("gasUsed");
        }
    }
    let object = trace.as_object_mut().unwrap();
    let failed = object.remove("error").is_some();
    object.insert("failed".to_owned(), json!(failed));
    if failed || object.get("result").is_some_and(Value::is_null) {
        object.remove("result");
    }
    trace
}

/// The same calls, in the same order, with the same values, gas and data.
#[tokio::test]
async fn calls_are_those_of_the_flat_tracer() {
    let mut compared = 0;
    for case in scenarios() {
        let chain = case.chain();
        let rpc = exact(chain.clone());
        for number in 1..=chain.head().unwrap().number {
            let block = format!("\"0x{number:x}\"");
            let ours = traces(&rpc, &block).await;
            let flat = value(&rpc, "debug_traceBlockByNumber", &format!("[{block},{FLAT}]")).await;
            let flat: Vec<Value> = flat
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|tx| tx["result"].as_array().unwrap().clone())
                .collect();
            assert_eq!(ours.len(), flat.len(), "{} block {number}", case.name);
            for (ours, flat) in ours.iter().zip(&flat) {
                compared += 1;
                let (ours, flat) = (comparable(ours), comparable(flat));
                assert_eq!(ours, flat, "{} block {number}", case.name);
            }
        }
    }
    println!("{compared} calls compared");
    assert!(compared > 300, "{compared}");
}

/// A diff of `prestateTracer` in OpenEthereum's form, by a writer of its own.
fn state_diff(diff: &Value) -> Value {
    let none = Map::new();
    let side = |name: &str| diff[name].as_object().unwrap_or(&none).clone();
    let (pre, post) = (side("pre"), side("post"));
    let mut addresses: Vec<&String> = pre.keys().chain(post.keys()).collect();
    addresses.sort();
    addresses.dedup();
    let mut all = Map::new();
    for address in addresses {
        let (before, after) = (pre.get(address), post.get(address));
        let mut account = Map::new();
        for (field, zero) in [("balance", json!("0x0")), ("nonce", json!(0)), ("code", json!("0x"))]
        {
            let hex = |side: &Value| {
                let value = side.get(field).unwrap_or(&zero);
                value.as_u64().map_or(value.clone(), |nonce| json!(format!("0x{nonce:x}")))
            };
            let delta = match (before, after) {
                (None, Some(after)) => json!({"+": hex(after)}),
                (Some(before), None) => json!({"-": hex(before)}),
                (Some(before), Some(after)) if after.get(field).is_some() => {
                    json!({"*": {"from": hex(before), "to": hex(after)}})
                }
                _ => json!("="),
            };
            account.insert(field.to_owned(), delta);
        }
        let slots = |side: Option<&Value>| {
            side.and_then(|side| side["storage"].as_object().cloned()).unwrap_or_default()
        };
        let (before_slots, after_slots) = (slots(before), slots(after));
        let zero = json!(format!("0x{}", "0".repeat(64)));
        let mut storage = Map::new();
        for key in before_slots.keys().chain(after_slots.keys()) {
            let from = before_slots.get(key).unwrap_or(&zero);
            let to = after_slots.get(key).unwrap_or(&zero);
            let delta = match (before, after) {
                (None, _) => json!({"+": to}),
                // Slots that were looked up and never set are no change.
                (_, None) if *from == zero => continue,
                (_, None) => json!({"-": from}),
                _ => json!({"*": {"from": from, "to": to}}),
            };
            storage.insert(key.clone(), delta);
        }
        account.insert("storage".to_owned(), Value::Object(storage));
        all.insert(address.clone(), Value::Object(account));
    }
    Value::Object(all)
}

/// Geth's tracer does not show empty accounts: neither that EIP-161 deletes them, nor that they
/// came about before it.
fn without_empty(diff: &Value) -> Value {
    let empty = |sign: &str| json!({"balance": {sign: "0x0"}, "code": {sign: "0x"}, "nonce": {sign: "0x0"}, "storage": {}});
    let empty = [empty("-"), empty("+")];
    let kept = diff.as_object().unwrap().iter().filter(|(_, account)| !empty.contains(account));
    kept.map(|(address, account)| (address.clone(), account.clone())).collect()
}

/// Delegations set and cleared, accounts destroyed, slots cleared: all of it is in `stateDiff`.
#[tokio::test]
async fn state_diffs_are_those_of_the_prestate_tracer() {
    let mut compared = 0;
    for case in scenarios() {
        let chain = case.chain();
        let rpc = truthful(chain.clone());
        for number in 1..=chain.head().unwrap().number {
            let block = format!("\"0x{number:x}\"");
            let params = format!("[{block},[\"stateDiff\"]]");
            let ours = value(&rpc, "trace_replayBlockTransactions", &params).await;
            let want = value(&rpc, "debug_traceBlockByNumber", &format!("[{block},{DIFF}]")).await;
            let (ours, want) = (ours.as_array().unwrap(), want.as_array().unwrap());
            assert_eq!(ours.len(), want.len());
            for (ours, want) in ours.iter().zip(want) {
                compared += 1;
                assert_eq!(ours["transactionHash"], want["txHash"]);
                assert_eq!(ours["trace"], json!([]));
                assert_eq!(ours["vmTrace"], Value::Null);
                assert_eq!(
                    without_empty(&ours["stateDiff"]),
                    state_diff(&want["result"]),
                    "{} block {number}",
                    case.name
                );
            }
        }
    }
    println!("{compared} transactions compared");
    assert!(compared > 90, "{compared}");
}

/// The other methods give parts of the same.
#[tokio::test]
async fn transactions_and_addresses_are_parts_of_blocks() {
    for case in scenarios().into_iter().take(20) {
        let chain = case.chain();
        let rpc = exact(chain.clone());
        for number in 1..=chain.head().unwrap().number {
            let all = traces(&rpc, &format!("\"0x{number:x}\"")).await;
            let mut hashes: Vec<&Value> =
                all.iter().map(|trace| &trace["transactionHash"]).collect();
            hashes.dedup();
            let mut joined = Vec::new();
            for hash in hashes {
                let own = value(&rpc, "trace_transaction", &format!("[{hash}]")).await;
                for trace in own.as_array().unwrap() {
                    let params = format!("[{hash},{}]", trace["traceAddress"]);
                    let got = value(&rpc, "trace_get", &params).await;
                    if trace["type"] != "suicide" {
                        assert_eq!(got["traceAddress"], trace["traceAddress"]);
                    }
                }
                joined.extend(own.as_array().unwrap().clone());
                let params = format!("[{hash},[\"trace\",\"vmTrace\",\"stateDiff\"]]");
                let replayed = value(&rpc, "trace_replayTransaction", &params).await;
                let own_calls = own.as_array().unwrap().len();
                assert_eq!(replayed["trace"].as_array().unwrap().len(), own_calls);
                assert!(replayed["stateDiff"].is_object() && replayed["vmTrace"].is_object());
            }
            assert_eq!(joined, all, "{} block {number}", case.name);
            let range = format!(r#"[{{"fromBlock":"0x{number:x}","toBlock":"0x{number:x}"}}]"#);
            assert_eq!(value(&rpc, "trace_filter", &range).await, json!(all));
        }
    }
}

#[tokio::test]
async fn filters_match_skip_and_count() {
    let case = scenarios().into_iter().max_by_key(|case| case.requests.len()).unwrap();
    let chain = case.chain();
    let rpc = exact(chain.clone());
    let all = value(&rpc, "trace_filter", "[{}]").await;
    let all = all.as_array().unwrap();
    assert!(all.len() > 1);
    for (after, count) in [(0, 1), (1, 1), (1, 100), (all.len(), 5), (0, 0)] {
        let params = format!(r#"[{{"after":{after},"count":{count}}}]"#);
        let part: Vec<&Value> = all.iter().skip(after).take(count).collect();
        assert_eq!(value(&rpc, "trace_filter", &params).await, json!(part), "{params}");
    }
    let from = &all[0]["action"]["from"];
    let sent: Vec<&Value> = all.iter().filter(|trace| trace["action"]["from"] == *from).collect();
    let params =
        format!(r#"[{{"fromAddress":[{from}],"fromBlock":"earliest","toBlock":"latest"}}]"#);
    assert_eq!(value(&rpc, "trace_filter", &params).await, json!(sent));
    let params =
        format!(r#"[{{"fromAddress":[{from}],"toAddress":[{from}],"mode":"intersection"}}]"#);
    assert_eq!(call(&rpc, "trace_filter", &params).await.unwrap(), "[]");
}

#[tokio::test]
async fn unknown_things_are_null_and_bad_input_is_refused() {
    let rpc = exact(errors_chain());
    let hash = format!("\"0x{}\"", "1a".repeat(32));
    for (method, params, want) in [
        ("trace_block", "[\"0x3e7\"]".to_owned(), "null"),
        ("trace_block", format!("[{hash}]"), "null"),
        ("trace_block", "[\"0x0\"]".to_owned(), "[]"),
        ("trace_block", "[]".to_owned(), "error -32602: missing value for required argument 0"),
        ("trace_transaction", format!("[{hash}]"), "null"),
        ("trace_get", format!("[{hash},[]]"), "null"),
        ("trace_get", format!("[{hash}]"), "error -32602: missing value for required argument 1"),
        ("trace_replayBlockTransactions", "[\"0x3e7\",[]]".to_owned(), "null"),
        ("trace_replayTransaction", format!("[{hash},[]]"), "error -32000: transaction not found"),
        (
            "trace_filter",
            "[{\"fromBlock\":\"0x3e7\",\"toBlock\":\"0x3e8\"}]".to_owned(),
            "error -32000: block #999 not found",
        ),
        (
            "trace_filter",
            "[{\"fromBlock\":\"0x2\",\"toBlock\":\"0x1\"}]".to_owned(),
            "error -32602: invalid argument 0: fromBlock 2 is after toBlock 1",
        ),
        (
            "trace_filter",
            "[{\"toBlock\":\"0xffffffff\"}]".to_owned(),
            "error -32005: trace_filter spans 4294967296 blocks, the limit is 100",
        ),
        (
            "trace_filter",
            "[{\"toBlock\":\"0x64\"}]".to_owned(),
            "error -32005: trace_filter spans 101 blocks, the limit is 100",
        ),
    ] {
        assert_eq!(answer(&rpc, method, &params).await, want, "{method} {params}");
    }
    for (method, params) in [
        ("trace_replayBlockTransactions", "[\"0x1\",[\"opcodes\"]]"),
        ("trace_replayBlockTransactions", "[\"0x1\",\"trace\"]"),
        ("trace_filter", "[{\"from\":1}]"),
        ("trace_filter", "[{\"count\":-1}]"),
        ("trace_filter", "[{\"fromAddress\":\"0x1\"}]"),
        ("trace_filter", "[[]]"),
    ] {
        let answer = answer(&rpc, method, params).await;
        assert!(
            answer.starts_with("error -32602: invalid argument"),
            "{method} {params}: {answer}"
        );
    }
}

#[test]
fn methods_are_sorted() {
    assert!(METHODS.is_sorted());
}

/// Real mainnet blocks of every fork, as far as they are on this machine: the calls are those of
/// the flat tracer, the state diffs those of the prestate tracer, the rewards those of the yellow
/// paper and its changes (EIP-649, EIP-1234), and a block whose uncles are not in its file is
/// refused instead of rewarded wrongly.
#[tokio::test]
async fn mainnet_blocks() {
    let folder = std::env::var_os("PRESTATE_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures"),
        PathBuf::from,
    );
    let Ok(paths) = block_paths(&folder.join("mainnet")) else {
        println!("skipped: no mainnet blocks in {} (set PRESTATE_FIXTURES)", folder.display());
        return;
    };
    let files = paths.iter().map(|path| load_path(path).unwrap());
    let host = Arc::new(ReplayHost::new(ChainSpec::mainnet(), files).unwrap());
    let rpc = Rpc::new(host.clone(), RpcConfig::default());
    let (mut calls, mut rewards, mut diffs) = (0, 0, 0);
    for block in host.blocks() {
        let number = block.number;
        let name = format!("\"0x{number:x}\"");
        let replay = format!("[{name},[\"trace\",\"stateDiff\"]]");
        let replayed = value(&rpc, "trace_replayBlockTransactions", &replay).await;
        let flat = value(&rpc, "debug_traceBlockByNumber", &format!("[{name},{FLAT}]")).await;
        let diff = value(&rpc, "debug_traceBlockByNumber", &format!("[{name},{DIFF}]")).await;
        let flat = flat.as_array().unwrap();
        for ((ours, flat), diff) in
            replayed.as_array().unwrap().iter().zip(flat).zip(diff.as_array().unwrap())
        {
            let (own, flat) =
                (ours["trace"].as_array().unwrap(), flat["result"].as_array().unwrap());
            assert_eq!(own.len(), flat.len(), "block {number}");
            for (own, flat) in own.iter().zip(flat) {
                calls += 1;
                let (own, mut flat) = (comparable(own), comparable(&unlocated(flat)));
                // Before Homestead a contract whose code could not be paid for is there without
                // any; Geth shows the code all the same.
                if number < 1_150_000 && own["result"]["code"] == "0x" {
                    flat["result"]["code"] = json!("0x");
                }
                assert_eq!(own, flat, "block {number}");
            }
            diffs += 1;
            assert_eq!(
                without_empty(&ours["stateDiff"]),
                state_diff(&diff["result"]),
                "block {number}"
            );
        }
        let whole = answer(&rpc, "trace_block", &format!("[{name}]")).await;
        if matches!(number, 1_796_867 | 5_283_152) {
            assert!(whole.starts_with("error -32000: ") && whole.contains("uncles"), "{whole}");
            continue;
        }
        let whole: Vec<Value> = serde_json::from_str(&whole).unwrap();
        let eth = match number {
            15_537_394.. => None,
            7_280_000.. => Some(2),
            4_370_000.. => Some(3),
            _ => Some(5),
        };
        let reward = whole.last().filter(|trace| trace["type"] == "reward");
        assert_eq!(reward.is_some(), eth.is_some(), "block {number}");
        if let Some((reward, eth)) = reward.zip(eth) {
            rewards += 1;
            let wei = format!("0x{:x}", eth * 10_u128.pow(18));
            let author = block.beneficiary.to_string().to_lowercase();
            let action = json!({"author": author, "rewardType": "block", "value": wei});
            assert_eq!(reward["action"], action);
            assert_eq!(reward["transactionHash"], Value::Null);
            assert_eq!(reward["blockHash"], json!(block.hash()));
        }
    }
    println!("{calls} calls, {diffs} state diffs, {rewards} rewards compared");
    assert!(calls > 10_000 && rewards > 20, "{calls} {rewards}");
}

/// A trace without its place, as `trace_replay*` shows it.
fn unlocated(trace: &Value) -> Value {
    let mut trace = trace.clone();
    for field in ["blockHash", "blockNumber", "transactionHash", "transactionPosition"] {
        trace.as_object_mut().unwrap().remove(field);
    }
    trace
}

/// Opcodes of a frame and those inside it, in the order they ran.
fn opcodes(trace: &Value, depth: u64, all: &mut Vec<(u64, u64)>) {
    for op in trace["ops"].as_array().unwrap() {
        all.push((depth, op["pc"].as_u64().unwrap()));
        if op["sub"].is_object() {
            opcodes(&op["sub"], depth + 1, all);
        }
    }
}

/// `vmTrace` has the opcodes that the struct logger has, each at its place and depth.
#[tokio::test]
async fn opcodes_are_those_of_the_struct_logger() {
    let mut compared = 0;
    for case in scenarios() {
        let chain = case.chain();
        let rpc = exact(chain.clone());
        for number in 1..=chain.head().unwrap().number {
            let block = format!("\"0x{number:x}\"");
            let params = format!("[{block},[\"vmTrace\"]]");
            let ours = value(&rpc, "trace_replayBlockTransactions", &params).await;
            let logs = value(&rpc, "debug_traceBlockByNumber", &format!("[{block},{{}}]")).await;
            for (ours, logs) in ours.as_array().unwrap().iter().zip(logs.as_array().unwrap()) {
                let mut own = Vec::new();
                opcodes(&ours["vmTrace"], 1, &mut own);
                let steps = logs["result"]["structLogs"].as_array().unwrap().iter();
                let steps: Vec<_> = steps
                    .map(|step| (step["depth"].as_u64().unwrap(), step["pc"].as_u64().unwrap()))
                    .collect();
                compared += steps.len();
                assert_eq!(own, steps, "{} block {number}", case.name);
            }
        }
    }
    println!("{compared} opcodes compared");
    assert!(compared > 2_000, "{compared}");
}

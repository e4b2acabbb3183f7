//! Requests that Geth refuses, or answers in a way worth pinning, on one small chain.

use crate::record;
use alloy_primitives::{Address, B256, U256, address};
use prestate_tests::{
    generate::{BlockRecipe, Chain, Code, Fork, GenesisPlan, Keys, Recipe, op},
    geth::{Case, Request},
};
use serde_json::value::RawValue;
use std::{error::Error, path::Path};

const A: Address = address!("0xaaaa00000000000000000000000000000000000a");
/// Runs until its gas is gone.
const LOOP: Address = address!("0xdddd00000000000000000000000000000000000d");

/// Three blocks: two calls, an endless loop, nothing.
fn chain(binary: &Path) -> Result<Chain, Box<dyn Error>> {
    let keys = Keys::new(2);
    let mut genesis = GenesisPlan::new(Fork::Prague);
    let endless = Code::new().op(op::JUMPDEST).op(op::PUSH0).op(op::JUMP);
    let small = Code::new().sstore(1, 2).push(U256::from(1)).ops(&[op::PUSH0, op::MSTORE]);
    genesis.fund(keys.address(0), 10u128.pow(20)).contract(A, &small, 0, &[(1, 5)]).contract(
        LOOP,
        &endless,
        0,
        &[],
    );
    let mut chain = Chain::start(binary, &genesis, keys)?;
    let coinbase = Address::with_last_byte(0x77);
    for transactions in [
        vec![Recipe::call(0, A), Recipe::call(0, A).value(3)],
        vec![Recipe::call(0, A), Recipe::call(0, LOOP).gas(500_000_000)],
        vec![],
    ] {
        chain.extend(&BlockRecipe { coinbase, transactions, withdrawals: Vec::new() })?;
    }
    Ok(chain)
}

/// Records `cases/errors.json`.
pub(crate) fn record_errors(binary: &Path) -> Result<usize, Box<dyn Error>> {
    let chain = chain(binary)?;
    let blocks = chain.raw_blocks()?;
    let requests = requests(&chain)?;
    let exchanges = record::ask(&chain, &requests)?;
    let count = exchanges.len();
    let case = Case {
        name: "errors".to_owned(),
        about: "Requests refused, and bounds of what is accepted (research sections H and J4); \
                safe and finalized are not set"
            .to_owned(),
        geth: record::version(&chain)?,
        genesis: RawValue::from_string(chain.genesis().to_owned())?,
        blocks,
        requests: exchanges,
    };
    case.write(&record::cases().join("errors.json"))?;
    Ok(count)
}

const TRACE: [&str; 4] = [
    "debug_traceBlockByNumber",
    "debug_traceBlockByHash",
    "debug_traceBlock",
    "debug_traceTransaction",
];

/// `tracerConfig`s of prestateTracer that are wrong, odd or unknown.
const PRESTATE_CONFIGS: [&str; 26] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "\"diffMode\"",
    "0",
    "1",
    "true",
    "false",
    r#"{"diffMode":"true"}"#,
    r#"{"diffMode":1}"#,
    r#"{"diffMode":-1}"#,
    r#"{"diffMode":1e999}"#,
    r#"{"diffMode":null}"#,
    r#"{"diffMode":[]}"#,
    r#"{"diffMode":{}}"#,
    r#"{"disableCode":"x"}"#,
    r#"{"disableStorage":7}"#,
    r#"{"includeEmpty":"yes"}"#,
    r#"{"diffMode":true,"includeEmpty":true}"#,
    r#"{"diffMode":true,"includeEmpty":false}"#,
    r#"{"DIFFMODE":true}"#,
    r#"{"diffmode":true}"#,
    r#"{"unknown":17}"#,
    r#"{"diffMode":true,"diffMode":false}"#,
    r#"{"diffMode":false,"disableCode":"x","includeEmpty":3}"#,
];

/// Whole option objects.
const OPTIONS: [&str; 77] = [
    "null",
    "{}",
    "[]",
    "[1]",
    "\"\"",
    "\"prestateTracer\"",
    "0",
    "true",
    r#"{"tracer":null}"#,
    r#"{"tracer":""}"#,
    r#"{"tracer":1}"#,
    r#"{"tracer":true}"#,
    r#"{"tracer":{}}"#,
    r#"{"tracer":[]}"#,
    r#"{"tracer":"noSuchTracer"}"#,
    r#"{"tracer":"PrestateTracer"}"#,
    r#"{"tracer":"prestateTracer "}"#,
    r#"{"tracer":"{"}"#,
    r#"{"tracer":"{}"}"#,
    r#"{"tracer":"1+1"}"#,
    r#"{"tracer":"throw 1"}"#,
    r#"{"tracer":"callTracer","tracerConfig":{"onlyTopCall":"x"}}"#,
    r#"{"tracer":"callTracer","tracerConfig":{"withLog":1}}"#,
    r#"{"tracer":"callTracer","tracerConfig":[]}"#,
    r#"{"tracer":"callTracer","tracerConfig":null}"#,
    r#"{"tracer":"callTracer","tracerConfig":{"unknown":[]}}"#,
    r#"{"tracer":"flatCallTracer","tracerConfig":{"convertParityErrors":"x"}}"#,
    r#"{"tracer":"flatCallTracer","tracerConfig":7}"#,
    r#"{"tracer":"4byteTracer","tracerConfig":7}"#,
    r#"{"tracer":"4byteTracer","tracerConfig":{"x":1}}"#,
    r#"{"tracer":"noopTracer","tracerConfig":"x"}"#,
    r#"{"tracer":"muxTracer"}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{}}"#,
    r#"{"tracer":"muxTracer","tracerConfig":[]}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{"noSuchTracer":{}}}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":null}}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":1}}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{"prestateTracer":{"diffMode":true,"includeEmpty":true}}}"#,
    r#"{"tracer":"muxTracer","tracerConfig":{"muxTracer":{"noopTracer":{}}}}"#,
    r#"{"tracer":"prestateTracer","timeout":""}"#,
    r#"{"tracer":"prestateTracer","timeout":null}"#,
    r#"{"tracer":"prestateTracer","timeout":5}"#,
    r#"{"tracer":"prestateTracer","timeout":"5"}"#,
    r#"{"tracer":"prestateTracer","timeout":"5x"}"#,
    r#"{"tracer":"prestateTracer","timeout":"5 s"}"#,
    r#"{"tracer":"prestateTracer","timeout":" 5s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"."}"#,
    r#"{"tracer":"prestateTracer","timeout":".s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1.5.5s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1h2m3"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1d"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1\"s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"5ß"}"#,
    r#"{"tracer":"prestateTracer","timeout":"9999999999999h"}"#,
    r#"{"tracer":"prestateTracer","timeout":"2562047h47m16.854775807s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"2562047h47m16.854775808s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"+5s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1.5h0.5m1e3s"}"#,
    r#"{"tracer":"prestateTracer","timeout":"1h2.5m.5s3ms4us5µs6μs7ns"}"#,
    r#"{"tracer":"prestateTracer","reexec":128}"#,
    r#"{"tracer":"prestateTracer","reexec":"x"}"#,
    r#"{"tracer":"prestateTracer","disableStorage":true}"#,
    r#"{"tracer":"prestateTracer","disableStorage":"x"}"#,
    r#"{"tracer":"prestateTracer","enableMemory":1}"#,
    r#"{"tracer":"prestateTracer","limit":-1}"#,
    r#"{"tracer":"prestateTracer","limit":"7"}"#,
    r#"{"tracer":"prestateTracer","limit":1.5}"#,
    r#"{"tracer":"prestateTracer","limit":99999999999999999999}"#,
    r#"{"tracer":"prestateTracer","overrides":{}}"#,
    r#"{"tracer":"prestateTracer","unknown":{"a":[1]}}"#,
    r#"{"TRACER":"prestateTracer"}"#,
    r#"{"tracer":"prestateTracer","Tracer":"noopTracer"}"#,
    r#"{"disableStack":"x"}"#,
    r#"{"disableStorage":0}"#,
    r#"{"enableReturnData":"true"}"#,
    r#"{"limit":-1}"#,
];

/// Block parameters of `debug_traceBlockByNumber`.
const NUMBERS: [&str; 36] = [
    r#""latest""#,
    r#""earliest""#,
    r#""pending""#,
    r#""safe""#,
    r#""finalized""#,
    r#""Latest""#,
    r#""""#,
    r#""0x""#,
    r#""0x0""#,
    r#""0x00""#,
    r#""0x1""#,
    r#""0X1""#,
    r#""0x01""#,
    r#""0xg""#,
    r#""3""#,
    r#""-1""#,
    r#""-0x1""#,
    r#""0x-1""#,
    r#"" 0x1""#,
    r#""0x1 ""#,
    r#""0x3e7""#,
    r#""0x7fffffffffffffff""#,
    r#""0x8000000000000000""#,
    r#""0xffffffffffffffff""#,
    r#""0x10000000000000000""#,
    "1",
    "0",
    "999",
    "-1",
    "1.5",
    "null",
    "true",
    "[]",
    "{}",
    r#"{"blockNumber":"0x1"}"#,
    r#""0x1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809""#,
];

/// Block hashes and transaction hashes.
const HASHES: [&str; 12] = [
    r#""0x1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809""#,
    r#""0x00""#,
    r#""""#,
    r#""0x""#,
    r#""0x1""#,
    r#""latest""#,
    r#""0x1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80""#,
    r#""0x1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8090a""#,
    r#""1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809""#,
    r#""0xzz2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809""#,
    "null",
    "1",
];

fn requests(chain: &Chain) -> Result<Vec<Request>, Box<dyn Error>> {
    let (genesis, _) = chain.hashes(0)?;
    let (first, transactions) = chain.hashes(1)?;
    let (_, slow) = chain.hashes(2)?;
    let rlp = chain.geth().raw_block(1)?;
    let place = |method: &str| match method {
        "debug_traceBlockByNumber" => "\"0x1\"".to_owned(),
        "debug_traceBlockByHash" => format!("\"{first}\""),
        "debug_traceBlock" => format!("\"{rlp}\""),
        _ => format!("\"{}\"", transactions[0]),
    };
    let mut list = Vec::new();
    let mut add = |method: &str, params: String| list.push(Request::new(method, params));

    for method in TRACE {
        let at = place(method);
        for config in PRESTATE_CONFIGS {
            // The four methods share one decoder; all of it goes through two of them.
            if method == TRACE[0] || method == TRACE[3] {
                add(
                    method,
                    format!("[{at},{{\"tracer\":\"prestateTracer\",\"tracerConfig\":{config}}}]"),
                );
            }
        }
        for options in OPTIONS {
            if method == TRACE[0] || method == TRACE[3] {
                add(method, format!("[{at},{options}]"));
            }
        }
        add(method, format!("[{at},{{\"tracer\":\"noSuchTracer\"}}]"));
        for params in ["[]", "null", "{}", "\"x\"", "7", "[null]"] {
            add(method, params.to_owned());
        }
        add(method, format!("[{at},{{}},1]"));
        add(method, format!("[{at},{{}},null]"));
        add(method, format!("[{at},null,{{\"tracer\":\"noopTracer\"}}]"));
    }
    let noop = "{\"tracer\":\"noopTracer\"}";
    for number in NUMBERS {
        add("debug_traceBlockByNumber", format!("[{number},{noop}]"));
        // Geth prints the hash of a pending block it builds for the question: never twice the same.
        if number != "\"pending\"" {
            for method in ["debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"] {
                add(method, format!("[{number}]"));
            }
        }
    }
    for hash in HASHES {
        add("debug_traceBlockByHash", format!("[{hash},{noop}]"));
        add("debug_traceTransaction", format!("[{hash},{noop}]"));
        add("debug_getRawTransaction", format!("[{hash}]"));
        add("debug_getRawBlock", format!("[{{\"blockHash\":{hash}}}]"));
    }
    add("debug_traceBlockByHash", format!("[\"{genesis}\",{noop}]"));

    // EIP-1898 and hashes where a block number or hash may stand.
    for canonical in [
        "",
        ",\"requireCanonical\":true",
        ",\"requireCanonical\":false",
        ",\"requireCanonical\":\"x\"",
    ] {
        for method in ["debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"] {
            add(method, format!("[{{\"blockHash\":\"{first}\"{canonical}}}]"));
        }
    }
    for block in [
        "{\"blockNumber\":\"0x1\"}".to_owned(),
        "{\"blockNumber\":1}".to_owned(),
        "{\"blockNumber\":\"latest\"}".to_owned(),
        "{\"blockNumber\":\"safe\"}".to_owned(),
        format!("{{\"blockNumber\":\"0x1\",\"blockHash\":\"{first}\"}}"),
        format!("\"{first}\""),
        format!("\"{genesis}\""),
        "{\"x\":1}".to_owned(),
    ] {
        for method in ["debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"] {
            add(method, format!("[{block}]"));
        }
        add("debug_traceCall", format!("[{{\"to\":\"{A}\"}},{block},{noop}]"));
    }
    for params in ["[]", "null", "{}", "[null]", "[\"0x1\",1]"] {
        for method in [
            "debug_getRawBlock",
            "debug_getRawHeader",
            "debug_getRawReceipts",
            "debug_getRawTransaction",
        ] {
            add(method, params.to_owned());
        }
    }

    // Time. The loop burns 500 million gas; a nanosecond is too short for anything.
    for timeout in ["1ns", "0s", "-1s", "1us"] {
        for tracer in
            ["prestateTracer", "callTracer", "noopTracer", "flatCallTracer", "4byteTracer"]
        {
            let options = format!("{{\"tracer\":\"{tracer}\",\"timeout\":\"{timeout}\"}}");
            add("debug_traceTransaction", format!("[\"{}\",{options}]", slow[1]));
            add("debug_traceBlockByNumber", format!("[\"0x2\",{options}]"));
        }
        add("debug_traceTransaction", format!("[\"{}\",{{\"timeout\":\"{timeout}\"}}]", slow[1]));
    }

    // Blocks given as RLP.
    let second = chain.geth().raw_block(2)?;
    let mut orphan = second.to_vec();
    // The parent hash is the first field of the header: list heads of 3 bytes each, then 0xa0.
    if let Some(at) = orphan.windows(32).position(|window| window == first.as_slice()) {
        orphan[at] ^= 1;
    }
    let orphan = alloy_primitives::Bytes::from(orphan);
    let third = chain.geth().raw_block(3)?;
    let genesis_rlp = chain.geth().raw_block(0)?;
    let cut = rlp.slice(..rlp.len() - 1);
    let mut longer = rlp.to_vec();
    longer.push(0);
    let longer = alloy_primitives::Bytes::from(longer);
    for bytes in [
        orphan.to_string(),
        third.to_string(),
        genesis_rlp.to_string(),
        cut.to_string(),
        longer.to_string(),
        "0x".to_owned(),
        "0x00".to_owned(),
        "0x80".to_owned(),
        "0xc0".to_owned(),
        "0xc3c0c0c0".to_owned(),
        "0xdeadbeef".to_owned(),
        "0xf90fff".to_owned(),
        "0x1".to_owned(),
        "0xzz".to_owned(),
        "deadbeef".to_owned(),
        "zm9v".to_owned(),
        String::new(),
        B256::repeat_byte(7).to_string(),
    ] {
        add("debug_traceBlock", format!("[\"{bytes}\",{noop}]"));
    }
    for bytes in ["null", "1", "[]", "{}", "true"] {
        add("debug_traceBlock", format!("[{bytes},{noop}]"));
    }

    // traceCall.
    for block in NUMBERS {
        add("debug_traceCall", format!("[{{\"to\":\"{A}\"}},{block},{noop}]"));
    }
    for call in [
        "null",
        "[]",
        "1",
        "\"x\"",
        "{\"to\":1}",
        "{\"to\":\"0x1\"}",
        "{\"gas\":\"x\"}",
        "{\"value\":\"0x01\"}",
        "{\"data\":\"0x1\"}",
        "{\"data\":\"0x01\",\"input\":\"0x02\"}",
        "{\"gasPrice\":\"0x1\",\"maxFeePerGas\":\"0x1\"}",
        "{\"maxFeePerGas\":\"0x1\",\"maxPriorityFeePerGas\":\"0x2\"}",
        "{\"gas\":\"0x1\"}",
        "{\"value\":\"0xffffffffffffffffffffff\"}",
        "{\"unknown\":1}",
    ] {
        add("debug_traceCall", format!("[{call},\"latest\",{noop}]"));
    }
    for params in
        ["[]", "null", "[{}]", "[{},\"latest\",{},1]", "[{},\"latest\",null]", "[{},null,null]"]
    {
        add("debug_traceCall", params.to_owned());
    }
    let call = format!("{{\"to\":\"{A}\"}}");
    for options in [
        r#"{"tracer":"noSuchTracer"}"#,
        r#"{"tracer":"prestateTracer"}"#,
        r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}"#,
        r#"{"tracer":"callTracer"}"#,
        "{}",
        r#"{"stateOverrides":[]}"#,
        r#"{"stateOverrides":{"0x1":{}}}"#,
        r#"{"blockOverrides":{"number":"x"}}"#,
        r#"{"txIndex":"0x5"}"#,
        r#"{"txIndex":5}"#,
        r#"{"timeout":"x"}"#,
    ] {
        add("debug_traceCall", format!("[{call},\"0x1\",{options}]"));
    }

    // Methods that are not there.
    for method in [
        "debug_noSuchMethod",
        "debug_",
        "debug",
        "",
        "nosuch_method",
        "debug_traceBlockByNumber_x",
        "debug_TraceBlockByNumber",
        "Debug_traceBlockByNumber",
    ] {
        add(method, "[]".to_owned());
    }
    add(&"x".repeat(400), "[]".to_owned());
    Ok(list)
}

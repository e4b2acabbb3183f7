//! Geth's vectors through every tracer but the prestate tracer alone: against the result that the
//! vector states, and against the bytes that Geth v1.17.10 makes of the same transaction.

use crate::transaction::{Vector, vectors};
use alloy_primitives::keccak256;
use prestate_tests::fixtures::{folder, skipped};
use prestate_types::{CallOptions, FlatCallOptions, PrestateOptions, StructLogOptions, Tracer};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

/// What Geth v1.17.10 answers: for each vector and tracer of [`tracers`] the first eight bytes of
/// the Keccak-256 of its text. Measured by running the vectors through Geth's own tracers, each in
/// a block with [`crate::transaction::BLOCK_HASH`]. A line holds a vector's name and its hashes.
const MEASURED: &str = include_str!("measured.txt");

/// Vectors of these folders are not compared with the result they state, and why. All of them run
/// through the tracers against what Geth v1.17.10 answers.
const LEFT_OUT: [(&str, usize, &str); 3] = [
    ("call_tracer_legacy", 12, "callTracerLegacy is written in JavaScript"),
    ("prestate_tracer_legacy", 1, "prestateTracerLegacy is written in JavaScript"),
    ("erc7562_tracer", 3, "erc7562Tracer is not offered"),
];

/// Every folder with its number of vectors.
const FOLDERS: [(&str, usize); 8] = [
    ("call_tracer", 15),
    ("call_tracer_flat", 32),
    ("call_tracer_legacy", 12),
    ("call_tracer_withLog", 10),
    ("erc7562_tracer", 3),
    ("prestate_tracer", 11),
    ("prestate_tracer_legacy", 1),
    ("prestate_tracer_with_diff_mode", 13),
];

/// The tracers measured, in the order of the hashes in a line.
fn tracers() -> [(&'static str, Tracer); 11] {
    let call = |with_log, only_top_call| Tracer::Call(CallOptions { with_log, only_top_call });
    let flat = |all| {
        Tracer::FlatCall(FlatCallOptions { convert_parity_errors: all, include_precompiles: all })
    };
    let exact = PrestateOptions { diff_mode: true, exact: true, ..PrestateOptions::default() };
    let steps = StructLogOptions::default();
    let mux = [
        ("4byteTracer", Tracer::FourByte),
        ("callTracer", call(true, false)),
        ("flatCallTracer", flat(false)),
        ("noopTracer", Tracer::Noop),
        ("prestateTracer", Tracer::Prestate(exact)),
    ];
    let everything = StructLogOptions { enable_memory: true, enable_return_data: true, ..steps };
    let least = StructLogOptions { disable_stack: true, disable_storage: true, ..steps };
    [
        ("callTracer", call(false, false)),
        ("callTracer with logs", call(true, false)),
        ("callTracer, top call with logs", call(true, true)),
        ("flatCallTracer", flat(false)),
        ("flatCallTracer, all options", flat(true)),
        ("4byteTracer", Tracer::FourByte),
        ("muxTracer", Tracer::Mux(mux.map(|(name, tracer)| (name.to_owned(), tracer)).into())),
        ("struct logger", Tracer::StructLog(steps)),
        ("struct logger with memory and return data", Tracer::StructLog(everything)),
        ("struct logger without stack and storage", Tracer::StructLog(least)),
        (
            "struct logger, limited to 5,000 bytes",
            Tracer::StructLog(StructLogOptions { limit: 5_000, ..steps }),
        ),
    ]
}

/// As much of a text as a line of [`MEASURED`] holds.
fn digest(text: &str) -> String {
    keccak256(text)[..8].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[test]
fn every_vector_through_every_tracer_is_geths_byte_for_byte() {
    let Some(root) = folder("geth-tracers") else { return skipped("tracer vectors") };
    let measured: BTreeMap<&str, Vec<&str>> = MEASURED
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap_or_default(), words.collect())
        })
        .collect();
    let tracers = tracers();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (folder, count) in FOLDERS {
        let vectors = vectors(&root, folder);
        assert_eq!(vectors.len(), count, "vectors in {folder}");
        for vector in vectors {
            let hashes = &measured[vector.name.as_str()];
            assert_eq!(hashes.len(), tracers.len(), "{}", vector.name);
            for ((name, tracer), hash) in tracers.iter().zip(hashes) {
                compared += 1;
                if digest(&vector.trace(tracer)) != *hash {
                    wrong.push(format!("{}: {name}", vector.name));
                }
            }
        }
    }
    println!("{compared} traces compared with Geth v1.17.10");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn call_vectors_state_what_we_say() {
    let Some(root) = folder("geth-tracers") else { return skipped("call vectors") };
    let with_log = |vector: &Vector| {
        Tracer::Call(CallOptions {
            with_log: vector.option("withLog"),
            only_top_call: vector.option("onlyTopCall"),
        })
    };
    compare(&root, "call_tracer", 15, with_log, call_frame);
    compare(&root, "call_tracer_withLog", 10, with_log, call_frame);
    for (folder, count, reason) in LEFT_OUT {
        println!("left out: {folder} ({count}): {reason}");
        assert_eq!(vectors(&root, folder).len(), count);
    }
}

/// Geth's harness compares decoded frames, so that some files hold fields in forms that Geth does
/// not print, and places of other blocks: those are put right or left out on both sides.
#[test]
fn flat_vectors_state_what_we_say() {
    let Some(root) = folder("geth-tracers") else { return skipped("flat vectors") };
    let vectors = vectors(&root, "call_tracer_flat");
    assert_eq!(vectors.len(), 32);
    for vector in vectors {
        let tracer = Tracer::FlatCall(FlatCallOptions {
            convert_parity_errors: vector.option("convertParityErrors"),
            include_precompiles: vector.option("includePrecompiles"),
        });
        let said: Value = serde_json::from_str(&vector.trace(&tracer)).expect("JSON");
        let (said, stated) = (flat_frames(&said), flat_frames(&vector.file["result"]));
        assert_eq!(said, stated, "{}", vector.name);
    }
}

fn compare(
    root: &Path,
    folder: &str,
    count: usize,
    tracer: impl Fn(&Vector) -> Tracer,
    in_order: impl Fn(&Value) -> String,
) {
    let vectors = vectors(root, folder);
    assert_eq!(vectors.len(), count, "vectors in {folder}");
    for vector in vectors {
        let said = vector.trace(&tracer(&vector));
        assert_eq!(said, in_order(&vector.file["result"]), "{}", vector.name);
    }
}

/// A call frame's text with its keys in the order of Geth's encoder (`gen_callframe_json.go`).
fn call_frame(frame: &Value) -> String {
    const FRAME: [&str; 12] = [
        "from",
        "gas",
        "gasUsed",
        "to",
        "input",
        "output",
        "error",
        "revertReason",
        "calls",
        "logs",
        "value",
        "type",
    ];
    const LOG: [&str; 5] = ["address", "topics", "data", "index", "position"];
    let frame = frame.as_object().expect("a frame");
    let keys: &[&str] = if frame.contains_key("topics") { &LOG } else { &FRAME };
    assert!(frame.keys().all(|key| keys.contains(&key.as_str())), "{frame:?}");
    let members: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            // Some files leave out what is zero.
            let zero = Value::from("0x0");
            let left_out = matches!(*key, "index" | "position").then_some(&zero);
            let text = match frame.get(*key).or(left_out)? {
                Value::Array(items) if *key != "topics" => {
                    let items: Vec<String> = items.iter().map(call_frame).collect();
                    format!("[{}]", items.join(","))
                }
                other => other.to_string(),
            };
            Some(format!("\"{key}\":{text}"))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn flat_frames(frames: &Value) -> Value {
    let frames = frames.as_array().expect("a list").iter().map(|frame| {
        let mut frame = frame.as_object().expect("a frame").clone();
        for place in ["blockHash", "blockNumber", "transactionHash", "transactionPosition"] {
            frame.remove(place);
        }
        for part in ["action", "result"] {
            // Nothing and a zero value are the same to Geth's harness.
            if let Some(members) = frame.get_mut(part).and_then(Value::as_object_mut) {
                members.retain(|_, value| {
                    let text = value.as_str().unwrap_or_default();
                    text.trim_start_matches("0x").chars().any(|digit| digit != '0')
                });
            }
        }
        let result = frame
            .get("result")
            .is_some_and(|result| result.as_object().is_some_and(|members| !members.is_empty()));
        if !result {
            frame.remove("result");
        }
        Value::Object(frame)
    });
    Value::Array(frames.collect())
}

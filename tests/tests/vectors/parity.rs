//! Parity's traces held against Geth's `flatCallTracer` with `convertParityErrors`, which was made
//! to agree with them.

use crate::transaction::{Vector, vectors};
use alloy_primitives::{Address, U256};
use alloy_rpc_types_trace::parity::{ChangedType, Delta, TraceResults, TraceType, VmTrace};
use prestate_diff::trace_block_parity;
use prestate_tests::fixtures::{folder, skipped};
use prestate_types::{FlatCallOptions, PrestateOptions, StructLogOptions, Tracer};
use serde_json::Value;
use std::ops::ControlFlow;

fn parity(vector: &Vector, types: &[TraceType]) -> TraceResults {
    let types = types.iter().copied().collect();
    let mut found = None;
    trace_block_parity(vector.execution(), vector.state(), &types, Some(0), (), |_, _, results| {
        found = Some(results);
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{}: {error}", vector.name));
    found.expect("the transaction ran")
}

/// Vectors in which the two differ, and why.
const DIFFER: [(&str, &str); 4] = [
    ("call_tracer_flat/callcode_precompiled_oog", "Geth keeps CALLCODE to a precompile"),
    ("call_tracer_flat/callcode_precompiled_throw", "Geth keeps CALLCODE to a precompile"),
    ("call_tracer_flat/gas", "Geth keeps CALLCODE to a precompile"),
    (
        "call_tracer_withLog/frontier_create_outofstorage",
        "Geth shows code that could not be paid for",
    ),
];

/// Frames without what the two say differently on purpose: Parity's have no result where the frame
/// failed, its transaction's own call starts after the intrinsic gas, and it has a text of its own
/// for a lack of balance.
fn comparable(frames: &Value) -> Vec<Value> {
    let frames = frames.as_array().expect("a list").iter().map(|frame| {
        let mut frame = frame.as_object().expect("a frame").clone();
        for place in ["blockHash", "blockNumber", "transactionHash", "transactionPosition"] {
            frame.remove(place);
        }
        if frame["traceAddress"] == Value::Array(Vec::new()) {
            frame["action"].as_object_mut().expect("an action").remove("gas");
            if let Some(result) = frame.get_mut("result").and_then(Value::as_object_mut) {
                result.remove("gasUsed");
            }
        }
        if let Some(error) = frame.get("error").and_then(Value::as_str) {
            let error = error.replacen("Insufficient", "insufficient", 1);
            frame.insert("error".to_owned(), error.into());
            frame.remove("result");
        }
        if frame.get("result").is_some_and(Value::is_null) {
            frame.remove("result");
        }
        Value::Object(frame)
    });
    frames.collect()
}

#[test]
fn parity_traces_are_geths_flat_ones() {
    let Some(root) = folder("geth-tracers") else { return skipped("Parity traces") };
    let mut wrong = Vec::new();
    for folder in ["call_tracer", "call_tracer_flat", "call_tracer_withLog"] {
        for vector in vectors(&root, folder) {
            let tracer = Tracer::FlatCall(FlatCallOptions {
                convert_parity_errors: true,
                include_precompiles: false,
            });
            let geth: Value = serde_json::from_str(&vector.trace(&tracer)).expect("JSON");
            let ours = parity(&vector, &[TraceType::Trace]).trace;
            let ours = serde_json::to_value(ours).expect("it serialises");
            let (geth, ours) = (comparable(&geth), comparable(&ours));
            if let Some((_, why)) = DIFFER.iter().find(|(name, _)| *name == vector.name) {
                assert_ne!(geth, ours, "{}: {why}", vector.name);
                continue;
            }
            for (at, (geth, ours)) in geth.iter().zip(&ours).enumerate() {
                if geth != ours {
                    wrong.push(format!("{} {at}:\n  {geth}\n  {ours}", vector.name));
                }
            }
            if geth.len() != ours.len() {
                wrong.push(format!("{}: {} and {}", vector.name, geth.len(), ours.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each vector's opcode trace tells what Geth's struct logger tells, and its state diff shows the
/// accounts and balances of Geth's.
#[test]
fn vm_traces_and_state_diffs_agree_with_geths_tracers() {
    let Some(root) = folder("geth-tracers") else { return skipped("Parity traces") };
    let types = [TraceType::Trace, TraceType::VmTrace, TraceType::StateDiff];
    for folder in ["call_tracer", "prestate_tracer_with_diff_mode"] {
        for vector in vectors(&root, folder) {
            let ours = parity(&vector, &types);
            let steps = Tracer::StructLog(StructLogOptions::default());
            let steps: Value = serde_json::from_str(&vector.trace(&steps)).expect("JSON");
            let mut steps = steps["structLogs"].as_array().expect("steps").iter().peekable();
            let vm = ours.vm_trace.expect("a vmTrace");
            same_opcodes(&vm, &mut steps);
            assert_eq!(steps.next(), None, "{}", vector.name);

            let diff =
                Tracer::Prestate(PrestateOptions { diff_mode: true, ..PrestateOptions::default() });
            let diff: Value = serde_json::from_str(&vector.trace(&diff)).expect("JSON");
            let state = ours.state_diff.expect("a stateDiff");
            for (address, account) in &state.0 {
                let key = format!("{address:#x}");
                let (pre, post) = (&diff["pre"][&key], &diff["post"][&key]);
                let balance = |side: &Value| -> Option<U256> {
                    serde_json::from_value(side["balance"].clone()).ok()
                };
                match account.balance {
                    Delta::Changed(ChangedType { from, to }) => {
                        assert_eq!(balance(pre).unwrap_or_default(), from, "{}", vector.name);
                        assert_eq!(balance(post), Some(to), "{}", vector.name);
                    }
                    Delta::Added(to) => {
                        assert_eq!(balance(post).unwrap_or_default(), to, "{}", vector.name);
                    }
                    Delta::Removed(from) => {
                        assert_eq!(balance(pre), Some(from), "{}", vector.name);
                        assert!(post.is_null(), "{}", vector.name);
                    }
                    Delta::Unchanged => assert_eq!(balance(post), None, "{}", vector.name),
                }
            }
            let known = diff["post"].as_object().expect("accounts").keys();
            for key in known.chain(diff["pre"].as_object().expect("accounts").keys()) {
                let address: Address = key.parse().expect("an address");
                assert!(state.0.contains_key(&address), "{}: {address}", vector.name);
            }
        }
    }
}

type Steps<'a> = std::iter::Peekable<std::slice::Iter<'a, Value>>;

/// Holds a frame's opcodes against the struct logger's steps: place, price, gas left, and what an
/// opcode pushed against the stack that the next one of the frame finds.
fn same_opcodes(trace: &VmTrace, steps: &mut Steps<'_>) {
    assert!(trace.ops.is_empty() || !trace.code.is_empty(), "code is missing");
    for op in &trace.ops {
        let step = steps.next().expect("a step for each opcode");
        assert_eq!(step["pc"], op.pc);
        if let Some(sub) = &op.sub {
            same_opcodes(sub, steps);
        }
        let Some(ex) = &op.ex else { continue };
        assert_eq!(step["gasCost"], op.cost, "{step}");
        let next = steps.peek().filter(|next| next["depth"] == step["depth"]);
        let Some(stack) = next.and_then(|next| next["stack"].as_array()) else { continue };
        let top: Vec<U256> = stack[stack.len() - ex.push.len()..]
            .iter()
            .map(|item| serde_json::from_value(item.clone()).expect("a word"))
            .collect();
        assert_eq!(ex.push, top, "{step}");
        assert_eq!(next.expect("seen")["gas"], ex.used, "{step}");
    }
}

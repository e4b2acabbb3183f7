use crate::support::{Case, answer, exact};

/// What the JavaScript engine says, which is not offered.
const JAVASCRIPT: &str = "ReferenceError";

async fn compare(path: &str, method: &str) -> usize {
    let case = Case::read(path);
    let rpc = exact(case.chain());
    let mut compared = 0;
    let mut differences = Vec::new();
    for exchange in case.requests.iter().filter(|exchange| exchange.method == method) {
        let geth = exchange.answer();
        let ours = answer(&rpc, method, exchange.params.get()).await;
        compared += 1;
        if geth.contains(JAVASCRIPT) {
            assert!(ours.starts_with("error -32000: tracer "), "{ours}");
        } else if geth != ours {
            differences.push(format!("{}\n  geth {geth}\n  ours {ours}", exchange.params.get()));
        }
    }
    let name = &case.name;
    assert!(
        differences.is_empty(),
        "{name}: {} of {compared}\n{}",
        differences.len(),
        differences.join("\n")
    );
    compared
}

#[tokio::test]
async fn bad_input_to_trace_call_is_refused_in_geths_words() {
    let compared = compare("../../tests/cases/errors.json", "debug_traceCall").await;
    assert!(compared > 70, "{compared}");
}

/// Calls put to Geth v1.17.10 over the chain of `errors.json`: every opcode that reads the
/// block, every override, fees, precompiles moved and replaced, wrong types.
/// One is left out: Geth lets a sender's nonce of 2^64 - 1 wrap around, here it stays.
#[tokio::test]
async fn trace_call_answers_as_geth() {
    let compared = compare("tests/cases/trace_call.json", "debug_traceCall").await;
    assert_eq!(compared, 798);
}

/// Calls with authorizations, and programs that create, destroy, delegate, revert and fail, with
/// every tracer; put to Geth v1.17.10 over the same chain.
#[tokio::test]
async fn programs_are_traced_as_geth_traces_them() {
    let compared = compare("tests/cases/trace_call_programs.json", "debug_traceCall").await;
    assert_eq!(compared, 308);
}

/// The same on chains of earlier rules.
#[tokio::test]
async fn earlier_rules_hold_for_calls() {
    let shanghai = compare("tests/cases/trace_call_shanghai.json", "debug_traceCall").await;
    let cancun = compare("tests/cases/trace_call_cancun.json", "debug_traceCall").await;
    assert_eq!((shanghai, cancun), (403, 403));
}

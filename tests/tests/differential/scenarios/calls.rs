//! `debug_traceCall` at every place of a block.

use super::*;

/// A block whose first transaction delegates an account and writes two logs; calls traced before,
/// between and behind its transactions, with and without overrides.
pub(super) fn scenarios() -> Vec<Scenario> {
    let log = code().push(U256::from(7)).ops(&[op::PUSH0, op::PUSH0, op::LOG0 + 1]);
    let body = log.clone().then(&log).sload(1).sstore(2, 3);
    let draft = scenario(
        "calls-inside-a-block",
        Fork::Prague,
        "txIndex: code of the block's earlier transactions, log numbers, overrides",
    )
    .contract_with(A, body, 0, &[(1, 5)])
    .contract(B, code().sload(1))
    .fund(authority(), 10u128.pow(18))
    .block([
        set_code(A, &[Authorisation::new(AUTHORITY, B)]),
        Recipe::call(SENDER, A),
        Recipe::call(SENDER, authority()),
    ]);
    let mut calls = Vec::new();
    for tracer in [
        r#""tracer":"prestateTracer""#,
        r#""tracer":"prestateTracer","tracerConfig":{"diffMode":true}"#,
        r#""tracer":"callTracer","tracerConfig":{"withLog":true}"#,
        r#""tracer":"flatCallTracer""#,
        r#""limit":30"#,
    ] {
        for place in [
            "",
            r#","txIndex":"0x0""#,
            r#","txIndex":"0x1""#,
            r#","txIndex":"0x2""#,
            r#","txIndex":"0x3""#,
        ] {
            for (from, to) in [(authority(), A), (keys().address(SENDER), authority())] {
                let params = format!(
                    r#"[{{"from":"{from:#x}","to":"{to:#x}","gas":"0x493e0"}},"0x1",{{{tracer}{place}}}]"#
                );
                calls.push(Request::new("debug_traceCall", params));
            }
        }
    }
    vec![Scenario { calls, depth: Depth::Wide, ..draft.0 }]
}

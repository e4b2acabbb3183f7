use crate::support::{answer, call, errors_chain, exact};

fn rpc() -> prestate_rpc::Rpc {
    exact(errors_chain())
}

/// The EVM is stopped inside an endless loop: the call comes back, and the permit with it.
#[tokio::test]
async fn an_endless_loop_is_stopped() {
    let rpc = rpc();
    // JUMPDEST, PUSH1 0, JUMP. What stops it is the clock: 50 million gas last longer.
    for tracer in ["", r#""tracer":"callTracer","#, r#""tracer":"prestateTracer","#] {
        let params = format!(
            r#"[{{"to":"0x00000000000000000000000000000000000000ee"}},"latest",{{{tracer}"timeout":"1ms","stateOverrides":{{"0x00000000000000000000000000000000000000ee":{{"code":"0x5b600056"}}}}}}]"#
        );
        assert_eq!(
            answer(&rpc, "debug_traceCall", &params).await,
            "error -32000: execution timeout"
        );
    }
    let params = r#"[{"to":"0x00000000000000000000000000000000000000ee"},"latest",{"tracer":"noopTracer","timeout":"1ms","stateOverrides":{"0x00000000000000000000000000000000000000ee":{"code":"0x5b600056"}}}]"#;
    assert_eq!(answer(&rpc, "debug_traceCall", params).await, "{}");
    assert!(call(&rpc, "debug_traceCall", "[{}]").await.is_ok());
}

/// A call without code costs 100 gas however much memory it is given: a megabyte a time, what a
/// call tracer keeps would fill any machine before the gas is gone.
#[tokio::test]
async fn what_is_kept_is_bounded() {
    let rpc = rpc();
    // Memory to a megabyte, then for ever STATICCALL(gas, 0xff, 0, 1 MiB, 0, 0).
    let code = "0x5f620fffff535b5f5f621000005f60ff5afa50600656";
    for tracer in [
        r#""tracer":"callTracer""#,
        r#""tracer":"flatCallTracer""#,
        r#""tracer":"muxTracer","tracerConfig":{"callTracer":{}}"#,
        r#""enableMemory":true"#,
    ] {
        let params = format!(
            r#"[{{"to":"0x00000000000000000000000000000000000000ee"}},"latest",{{{tracer},"timeout":"10m","stateOverrides":{{"0x00000000000000000000000000000000000000ee":{{"code":"{code}"}}}}}}]"#
        );
        let refused = call(&rpc, "debug_traceCall", &params).await.unwrap_err();
        assert_eq!(refused.code, -32005, "{tracer}: {refused:?}");
        let limit = "exceeds 134217728 bytes";
        assert!(refused.message.ends_with(limit), "{tracer}: {}", refused.message);
    }
    // The same without the data is a trace like any other.
    let params = format!(
        r#"[{{"to":"0x00000000000000000000000000000000000000ee"}},"latest",{{"tracer":"callTracer","timeout":"10m","tracerConfig":{{"onlyTopCall":true}},"stateOverrides":{{"0x00000000000000000000000000000000000000ee":{{"code":"{code}"}}}}}}]"#
    );
    assert!(answer(&rpc, "debug_traceCall", &params).await.contains("out of gas"));
}

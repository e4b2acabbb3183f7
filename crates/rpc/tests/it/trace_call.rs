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

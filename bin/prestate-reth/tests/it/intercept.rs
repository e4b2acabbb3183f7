//! `--prestate.intercept-debug`: what is answered in the node's place, and what is not.

use crate::{http::call, node::Node, workload::Workload};
use alloy_primitives::B256;
use serde_json::{Value, json};

fn diffs() -> Value {
    json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } })
}

/// Geth's shape has a `codeHash` wherever code is listed; the node's own has none.
fn is_geths(answer: &Value) -> bool {
    answer.to_string().contains("\"codeHash\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_blocks_are_answered_in_the_nodes_place() {
    let mut node = Node::start(&["--prestate.intercept-debug"]).await;
    let lane = node.lane().await;
    let (mut workload, deploying) = Workload::deploy(300);
    node.commit(&deploying).await;
    let txs = workload.block();
    let block = node.commit(&txs).await;
    node.settled(block).await;
    let number = format!("0x{:x}", block.number);
    let tx =
        node.host.block(block.hash).unwrap().unwrap().body().transactions[2].tx_hash().to_owned();
    for (method, what) in [
        ("debug_traceBlockByHash", json!(block.hash)),
        ("debug_traceBlockByNumber", json!(number)),
        ("debug_traceBlockByNumber", json!("latest")),
        ("debug_traceTransaction", json!(tx)),
    ] {
        let params = json!([what, diffs()]);
        let here = call(node.http, method, params.clone()).await.unwrap();
        assert!(is_geths(&here), "{method}: {here}");
        assert_eq!(here, call(lane, method, params).await.unwrap());
    }
    let calls = json!([number, { "tracer": "callTracer" }]);
    let here = call(node.http, "debug_traceBlockByNumber", calls.clone()).await.unwrap();
    assert_eq!(here, call(lane, "debug_traceBlockByNumber", calls).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_else_passes_through() {
    let mut on = Node::start(&["--prestate.intercept-debug"]).await;
    let (mut workload, deploying) = Workload::deploy(300);
    on.commit(&deploying).await;
    let txs = workload.block();
    let block = on.commit(&txs).await;
    on.settled(block).await;
    let number = format!("0x{:x}", block.number);
    // A tracer that is not kept, none, a block that is not known, parameters that are none: as the
    // node words it.
    let nobody = B256::repeat_byte(7);
    let by_number = "debug_traceBlockByNumber";
    let four =
        call(on.http, by_number, json!([number, { "tracer": "4byteTracer" }])).await.unwrap();
    assert!(four[0]["result"].is_object(), "{four}");
    assert!(call(on.http, by_number, json!([number])).await.is_ok());
    assert!(call(on.http, by_number, json!([7, 8, 9])).await.is_err());
    let unknown = call(on.http, "debug_traceBlockByHash", json!([nobody, diffs()])).await;
    assert!(unknown.unwrap_err()["message"].as_str().unwrap().contains("not found"));
    drop(on);

    // And without the flag the node's own tracer answers.
    let mut off = Node::start(&[]).await;
    let (mut workload, deploying) = Workload::deploy(300);
    off.commit(&deploying).await;
    let txs = workload.block();
    let block = off.commit(&txs).await;
    off.settled(block).await;
    let own = call(off.http, "debug_traceBlockByHash", json!([block.hash, diffs()])).await;
    assert!(!is_geths(&own.unwrap()));
}

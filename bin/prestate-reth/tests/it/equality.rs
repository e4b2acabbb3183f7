//! Equality with the node's own tracer. Where the two are known to differ (rules by their number
//! in the table of differences between Geth and reth's tracer), the difference is taken out by a
//! function named after the rule; whatever is left must be the same.

use crate::{http::call, node::Node, workload::Workload};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// X1: reth has no `codeHash`.
fn x1_without_code_hashes(ours: &mut Value) {
    for side in ["pre", "post"] {
        for account in accounts(ours, side) {
            account.1.as_object_mut().unwrap().remove("codeHash");
        }
    }
}

/// X3: reth lists an account that did not exist before as one without a balance.
fn x3_without_accounts_that_were_not_there(theirs: &mut Value, ours: &Value) {
    let nothing = json!({ "balance": "0x0" });
    let pre = theirs["pre"].as_object_mut().unwrap();
    pre.retain(|address, account| *account != nothing || ours["pre"].get(address).is_some());
}

/// X5: code that was taken away is in Geth's `post` as `0x`, and not in reth's.
fn x5_without_cleared_code(ours: &mut Value) {
    for (_, account) in accounts(ours, "post") {
        let account = account.as_object_mut().unwrap();
        if account.get("code").is_some_and(|code| code == "0x") {
            account.remove("code");
        }
    }
}

fn accounts<'a>(
    diff: &'a mut Value,
    side: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    diff[side].as_object_mut().unwrap().iter_mut()
}

/// What was compared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) blocks: usize,
    pub(crate) txs: usize,
    pub(crate) accounts: usize,
}

/// Compares a block's transactions, as the node traces them and as the lane has them.
pub(crate) async fn compare(node: SocketAddr, lane: SocketAddr, hash: &str, sum: &mut Compared) {
    let config = json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } });
    let params = json!([hash, config]);
    let theirs = call(node, "debug_traceBlockByHash", params.clone()).await.unwrap();
    let ours = call(lane, "debug_traceBlockByHash", params).await.unwrap();
    let (theirs, ours) = (theirs.as_array().unwrap(), ours.as_array().unwrap());
    assert_eq!(theirs.len(), ours.len(), "transactions of block {hash}");
    for (theirs, ours) in theirs.iter().zip(ours) {
        let tx = &ours["txHash"];
        assert_eq!(theirs["txHash"], *tx);
        let (mut theirs, mut ours) = (theirs["result"].clone(), ours["result"].clone());
        sum.accounts += ours["post"].as_object().unwrap().len();
        x1_without_code_hashes(&mut ours);
        x3_without_accounts_that_were_not_there(&mut theirs, &ours);
        x5_without_cleared_code(&mut ours);
        assert_eq!(ours, theirs, "transaction {tx} of block {hash}, ours and the node's");
        sum.txs += 1;
    }
    sum.blocks += 1;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_change_what_the_nodes_own_tracer_says() {
    let blocks: u64 = std::env::var("PRESTATE_EQUALITY_BLOCKS")
        .map_or(40, |blocks| blocks.parse().expect("PRESTATE_EQUALITY_BLOCKS is a number"));
    let mut node = Node::start(&[]).await;
    let lane = node.lane().await;
    let (mut workload, deploying) = Workload::deploy(2_000);
    let mut committed = vec![node.commit(&deploying).await];
    for _ in 0..blocks {
        let txs = workload.block();
        committed.push(node.commit(&txs).await);
    }
    node.settled(*committed.last().unwrap()).await;
    let mut sum = Compared::default();
    for block in &committed {
        compare(node.http, lane, &block.hash.to_string(), &mut sum).await;
    }
    println!("compared with the node's own tracer: {sum:?}");
    assert_eq!(sum.blocks, committed.len());
    assert!(sum.txs >= sum.blocks * 10, "{sum:?}");
}

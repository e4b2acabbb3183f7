//! A kill at any moment: what was confirmed is there after a restart.

use super::server::Server;
use prestate_tests::geth::{Answer, Client};
use serde_json::{Value, json};
use std::{path::Path, thread, time::Duration};

fn start(folder: &Path) -> Server {
    Server::start(["--datadir".as_ref(), folder.as_os_str()])
}

/// Transactions that were confirmed, with their blocks.
fn send_until_it_is_gone(client: &Client) -> Vec<(Value, Value)> {
    let ask = |method: &str, params: Value| match client.call(method, &params.to_string()) {
        Ok(Answer::Result(json)) => serde_json::from_str::<Value>(&json).ok(),
        Ok(Answer::Error(error)) => panic!("{method}: {error}"),
        Err(_) => None,
    };
    let mut sent = Vec::new();
    let Some(accounts) = ask("eth_accounts", json!([])) else { return sent };
    loop {
        let tx = json!([{ "from": accounts[0], "to": accounts[1], "value": "0x1" }]);
        let Some(hash) = ask("eth_sendTransaction", tx) else { return sent };
        let Some(receipt) = ask("eth_getTransactionReceipt", json!([hash])) else { return sent };
        assert_eq!(receipt["status"], "0x1");
        sent.push((hash, receipt["blockHash"].clone()));
    }
}

#[test]
fn kill_9_loses_nothing_that_was_confirmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut confirmed: Vec<(Value, Value)> = Vec::new();
    for round in 0..4_u64 {
        let server = start(folder.path());
        // All that was confirmed before the last kill, and the diffs of the newest blocks.
        for (hash, block) in &confirmed {
            let receipt = server.call("eth_getTransactionReceipt", json!([hash]));
            assert_eq!(&receipt["blockHash"], block, "{hash} after {round} kills");
        }
        let head = server.call("eth_getBlockByNumber", json!(["latest", false]));
        if head["number"] != "0x0" {
            let diff = server.call("prestate_getBlockDiff", json!(["latest"]));
            assert_eq!(diff["block"]["hash"], head["hash"]);
        }

        let client = server.client();
        let sending = thread::spawn(move || send_until_it_is_gone(&client));
        thread::sleep(Duration::from_millis(300 + 170 * round));
        // In the middle of a call, and while the archive still writes.
        drop(server);
        confirmed.extend(sending.join().expect("what was answered was right"));
    }
    assert!(confirmed.len() > 4, "{} transactions were confirmed", confirmed.len());
    println!("{} confirmed transactions over 4 kills", confirmed.len());
}

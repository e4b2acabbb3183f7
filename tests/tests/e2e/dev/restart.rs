//! A kill at any moment: what was confirmed is there after a restart.

use super::server::Server;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

fn start(folder: &Path) -> Server {
    Server::start(["--datadir".as_ref(), folder.as_os_str()])
}

#[test]
fn kill_9_loses_nothing_that_was_confirmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut confirmed: Vec<(Value, Value)> = Vec::new();
    for round in 0..4_u64 {
        let server = Arc::new(start(folder.path()));
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

        let stop = Arc::new(AtomicBool::new(false));
        let (sender, stopped) = (server.clone(), stop.clone());
        let sending = thread::spawn(move || {
            let accounts = sender.call("eth_accounts", json!([]));
            let mut sent = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let tx = json!([{ "from": accounts[0], "to": accounts[1], "value": "0x1" }]);
                let hash = sender.call("eth_sendTransaction", tx);
                let receipt = sender.call("eth_getTransactionReceipt", json!([hash]));
                assert_eq!(receipt["status"], "0x1");
                sent.push((hash, receipt["blockHash"].clone()));
            }
            sent
        });
        thread::sleep(Duration::from_millis(300 + 170 * round));
        stop.store(true, Ordering::Relaxed);
        // The last call is under way or done; the kill comes while the archive still writes.
        confirmed.extend(sending.join().expect("calls succeed"));
        drop(Arc::into_inner(server).expect("nobody else has it"));
    }
    assert!(confirmed.len() > 4, "{} transactions were confirmed", confirmed.len());
    println!("{} confirmed transactions over 4 kills", confirmed.len());
}

//! What the flags do, and the calls that the banner shows.

use super::server::Server;
use crate::program::{binary, prestate};
use serde_json::{Value, json};
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Pasted into a shell, each line works.
#[test]
fn the_three_calls_of_the_banner_work_when_pasted() {
    let server = Server::start([] as [&str; 0]);
    let lines: Vec<_> = server.banner.lines().filter(|line| line.contains("curl ")).collect();
    assert_eq!(lines.len(), 3, "{}", server.banner);
    for line in lines {
        let ran = Command::new("sh").arg("-c").arg(line).output().expect("there is a shell");
        let answer: Value = serde_json::from_slice(&ran.stdout).expect("the answer is JSON");
        assert!(answer["result"].is_string() || !answer["result"].is_null(), "{line}: {answer}");
    }
    let keys = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    assert!(server.banner.contains(keys), "{}", server.banner);
    assert!(server.banner.contains("(9) 0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"));
}

/// The servers that `bench` starts are not left behind when it is killed.
#[test]
fn a_server_of_another_command_ends_with_it() {
    for args in
        [&["bench", "rival", "lane-heavy", "4"][..], &["dev", "--port", "0", "--with-parent"]]
    {
        let mut command = Command::new(binary());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().expect("the program starts");
        let input = server.stdin.take();
        std::thread::sleep(Duration::from_secs(1));
        assert!(server.try_wait().expect("it is a child").is_none(), "{args:?} ends by itself");
        drop(input);
        let ended = Instant::now();
        while server.try_wait().expect("it is a child").is_none() {
            if ended.elapsed() > Duration::from_secs(30) {
                let _ = server.kill();
                panic!("{args:?} goes on");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn traffic_flows_at_once_and_its_diffs_add_up() {
    let server = Server::start(["--traffic", "40", "--seed", "7", "--block-time", "0.2"]);
    let contracts = server.call("dev_contracts", json!([]));
    let pool = &contracts["pools"][0]["address"];
    let before = server.call("eth_getBlockByNumber", json!(["latest", false]));
    let reserves = |block: &Value| server.call("eth_getStorageAt", json!([pool, "0x0", block]));
    let old = reserves(&before["number"]);
    let mut tries = 0;
    while reserves(&json!("latest")) == old {
        std::thread::sleep(std::time::Duration::from_millis(100));
        tries += 1;
        assert!(tries < 300, "nobody swaps");
    }
    server.call("dev_reorg", json!([2]));
    let head = server.call("eth_getBlockByNumber", json!(["latest", false]));
    let range = server.call("prestate_getDiffRange", json!([before["hash"], head["hash"]]));
    let slot = "0x0000000000000000000000000000000000000000000000000000000000000000";
    let at = pool.as_str().expect("an address").to_lowercase();
    // What is as it was is not in the range.
    let told = range["post"][&at]["storage"].get(slot).cloned().unwrap_or(old);
    assert_eq!(told, reserves(&head["number"]), "{range}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    for (args, text) in [
        (&["--hardfork", "london"][..], "paris, shanghai, cancun, prague, osaka, bpo1, bpo2"),
        (&["--block-time", "0.0001"], "is not 0 and not between 0.001 and 86400 seconds"),
        (&["--block-time", "x"], "invalid float"),
        (&["--accounts", "10001"], "at most 10000"),
        (&["--mnemonic", "test"], "mnemonic"),
        (&["--traffic", "0"], "a number above 0"),
        (&["--traffic", "NaN"], "a number above 0"),
        (&["--traffic", "1", "--traffic-shape", "odd"], "expected `steady` or `heavy`"),
        (&["--traffic", "1", "--traffic-shape", "heavy", "--gas-limit", "30000000"], "gas limit"),
        (&["--seed", "1"], "--traffic"),
        (&["--shape", "rtt=30"], "`rtt=30`: rtt=30ms or up to 10s is wanted"),
        (&["--shape", "rate=0/s"], "rate=100/s, at least 1/s is wanted"),
    ] {
        let ran = prestate([&["dev", "--port", "0"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(text), "{args:?}: {}", ran.stderr);
    }
}

/// A provider's habits: a round trip, and each item of a batch above the rate refused by itself.
#[test]
fn a_shape_makes_it_answer_as_a_provider_does() {
    let server = Server::start(["--shape", "rtt=40ms,rate=3/s,bandwidth=80mbit"]);
    let item = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_blockNumber" });
    let batch: Value = (0..40).map(item).collect();
    let started = std::time::Instant::now();
    let answers = server.client().post(batch.to_string().as_bytes()).expect("an answer");
    assert!(started.elapsed().as_millis() >= 80, "one trip to connect, one to ask");
    let answers: Vec<Value> = serde_json::from_str(&answers).expect("a batch");
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.get("error")).collect();
    assert!(refused.len() < 40, "the bucket is full at first");
    assert!(refused.len() >= 30, "{refused:?}");
    assert!(refused.iter().all(|error| error["code"] == -32005
        && error["message"] == "rate limit exceeded: 3 calls a second"
        && error["data"]["limit"] == "callsPerSecond"));
}

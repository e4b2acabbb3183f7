//! `replay --check` and `diff` on the samples and on mainnet.

use crate::program::{binary, prestate, succeeds};
use prestate_tests::fixtures::{folder, skipped, workspace};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Stdio},
};

const GENESIS: &str = "etc/samples/genesis.json";

#[test]
fn the_samples_pass_their_check() {
    let table = succeeds(["replay", "etc/samples", "--check", "--chain", GENESIS]);
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 6, "{table}");
    assert!(lines[0].contains("block") && lines[0].contains("JSON bytes"), "{table}");
    for (line, (number, rules, txs)) in lines[1..].iter().zip([
        ("1", "CANCUN", "4"),
        ("2", "CANCUN", "5"),
        ("3", "PRAGUE", "3"),
        ("4", "PRAGUE", "0"),
    ]) {
        let columns: Vec<_> = line.split_whitespace().collect();
        assert_eq!(columns[..3], [number, rules, txs], "{table}");
    }
    assert_eq!(lines[5], "4 blocks checked, none differs");
}

#[test]
fn mainnet_passes_its_check() {
    let Some(mainnet) = folder("mainnet") else { return skipped("replay --check on mainnet") };
    let table = succeeds(["replay".as_ref(), mainnet.as_os_str(), "--check".as_ref()]);
    assert_eq!(table.lines().count(), 57, "{table}");
    assert!(table.ends_with("55 blocks checked, none differs\n"), "{table}");
}

/// One slot's value of one block is changed: the block is named, the others pass, exit code 1.
#[test]
fn a_differing_block_is_named() {
    let path = workspace().join("etc/samples/2.json");
    let mut block: Value =
        serde_json::from_slice(&fs::read(path).expect("the sample")).expect("JSON");
    let slot = "0x0000000000000000000000000000000000000000000000000000000000000005";
    let table = "0x00000000000000000000000000000000c0ffee02";
    let value = &mut block["prestate"][table]["storage"][slot];
    assert!(value.is_string(), "the slot that block 2 clears");
    // Zero to zero: no refund, so more gas is used.
    *value = format!("0x{}", "0".repeat(64)).into();
    let scratch = tempfile::tempdir().expect("a folder");
    let wrong = scratch.path().join("2.json");
    fs::write(&wrong, block.to_string()).expect("written");

    let args = ["replay", "etc/samples/1.json", wrong.to_str().expect("UTF-8"), "--check"];
    let ran = prestate(args.into_iter().chain(["--chain", GENESIS]));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.ends_with("2 blocks checked, 1 differ\n"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    let hash = block["block"]["hash"].as_str().expect("a hash");
    for part in ["2.json", hash, "gas used", "transaction"] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value and nothing else")
}

#[test]
fn diff_prints_each_view() {
    let diff = |extra: &[&str]| {
        let args = ["diff", "etc/samples/3.json", "--chain", GENESIS];
        succeeds(args.into_iter().chain(extra.iter().copied()))
    };
    let geth = json(&diff(&[]));
    let entries = geth.as_array().expect("one entry a transaction");
    assert_eq!(entries.len(), 3);
    let hash = entries[1]["txHash"].as_str().expect("a hash");
    // The keys come in Geth's order.
    let text = diff(&[]);
    assert!(text.starts_with(r#"[{"txHash":"0x"#), "{text}");
    let post = text.find(r#""result":{"post":{"#).expect("post comes first");
    assert!(post < text.find(r#""pre":{"#).expect("pre"), "{text}");

    let one = json(&diff(&["--tx", hash]));
    assert_eq!(one, entries[1]["result"]);
    let bare = diff(&["--no-code"]);
    assert!(text.contains(r#""code":"0x"#) && !bare.contains(r#""code":"0x"#), "{bare}");

    let block = json(&diff(&["--view", "block"]));
    assert_eq!(block["block"]["number"], "0x3");
    let keys = |side: &str| -> Vec<String> {
        block[side].as_object().expect("accounts").keys().cloned().collect()
    };
    assert_eq!(keys("pre"), keys("post"), "both sides have the same keys");

    // EIP-2935 and EIP-4788 before, two withdrawals after.
    let system = json(&diff(&["--view", "system"]));
    assert_eq!(system["preSystem"]["post"].as_object().map(|accounts| accounts.len()), Some(2));
    let staker = "0x00000000000000000000000000000000c0ffee05";
    assert!(system["postSystem"]["post"][staker]["balance"].is_string(), "{system}");
    // Nothing of this block falls under Geth's artefacts but what is looked up and absent.
    assert_eq!(json(&diff(&["--exact"])).as_array().map(Vec::len), Some(3));
}

/// `prestate … | head` ends in silence, whatever prints.
#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let report = tempfile::tempdir().expect("a folder");
    let out = report.path().to_str().expect("a path in UTF-8");
    let commands: [&[&str]; 4] = [
        &["diff", "etc/samples/2.json", "--chain", "etc/samples/genesis.json"],
        &["replay", "etc/samples", "--check", "--chain", "etc/samples/genesis.json"],
        &["bench", "compare", "etc/bench/2026-11-30/report", "etc/bench/2026-12-01/report"],
        &[
            "bench",
            "encode",
            "etc/samples/2.json",
            "--chain",
            "etc/samples/genesis.json",
            "--from",
            "0",
            "--rounds",
            "1",
            "--out",
            out,
        ],
    ];
    for args in commands {
        let mut command = Command::new(binary());
        command.args(args).current_dir(workspace()).stdin(Stdio::null());
        // Nobody holds the other end.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ran = command.stdout(writer).stderr(Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), &*said), (Some(0), ""), "{args:?}");
    }
    assert!(report.path().join("report.md").exists(), "the report is written all the same");
}

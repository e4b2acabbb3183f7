//! An archive filled by one process and served by others: the bytes of a server that replays.

use super::Sample;
use crate::{
    program::{prestate, succeeds},
    server::Served,
};
use prestate_host_embedded::{block_paths, load_path};
use prestate_tests::fixtures::{folder, skipped, workspace};
use serde_json::{Value, json};
use std::path::PathBuf;

fn ask(server: &Served, method: &str, params: &Value) -> String {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = server.post(&call.to_string(), "");
    assert_eq!(answer.status, 200, "{method}");
    String::from_utf8(answer.body).expect("text")
}

/// Every view that an archive renders, of a block with so many transactions.
fn views(hash: &str, number: &str, transactions: &[String]) -> Vec<(&'static str, Value)> {
    let tracer = |config: Value| json!({ "tracer": "prestateTracer", "tracerConfig": config });
    let full = json!({ "code": "full", "system": true });
    let mut views = vec![
        ("prestate_getBlockDiff", json!([hash])),
        ("prestate_getBlockDiff", json!([hash, full])),
        ("prestate_getTransactionDiffs", json!([hash])),
        ("prestate_getTransactionDiffs", json!([hash, full])),
        ("debug_traceBlockByHash", json!([hash, tracer(json!({ "diffMode": true }))])),
        (
            "debug_traceBlockByNumber",
            json!([number, tracer(json!({ "diffMode": true, "disableCode": true }))]),
        ),
        (
            "debug_traceBlockByHash",
            json!([hash, tracer(json!({ "diffMode": true, "disableStorage": true }))]),
        ),
    ];
    // The first, the middle and the last.
    for at in [0, transactions.len() / 2, transactions.len().saturating_sub(1)] {
        if let Some(tx) = transactions.get(at) {
            views.push(("prestate_getTransactionDiff", json!([tx])));
            views
                .push(("debug_traceTransaction", json!([tx, tracer(json!({ "diffMode": true }))])));
        }
    }
    views
}

/// Fills an archive in one process, serves it from two others, and compares every view with that
/// of a server without an archive.
fn compare(paths: &[PathBuf], chain: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let given: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let with = |more: &[&str]| {
        let mut args = vec!["replay".to_owned(), "--chain".to_owned(), chain.to_owned()];
        args.extend(given.iter().cloned());
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        args
    };
    let reserve = ["--archive", &archive, "--archive.reserve", "0"];
    let mut filling = with(&reserve);
    filling.push("--no-serve".to_owned());
    let filled = prestate(&filling);
    assert!(filled.stderr.contains(" blocks written, "), "{filled:?}");
    let report = succeeds(["archive", "verify", &archive, "--json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");

    let fresh = Served::start(with(&[]));
    let replica = Served::start(["archive", "serve", &archive]);
    // The process that has the archive open for writing, at the same time.
    let restarted = Served::start(with(&reserve));
    let (mut blocks, mut compared, mut refused) = (0, 0, 0);
    for path in paths.iter().flat_map(|path| block_paths(path).expect("block files")) {
        let block = load_path(&path).expect("a block file").block;
        let transactions: Vec<_> =
            block.body().transactions.iter().map(|tx| tx.tx_hash().to_string()).collect();
        let (hash, number) = (block.hash().to_string(), format!("0x{:x}", block.number));
        // A block file without the headers of its uncles: the archive does not take the block.
        let whole = ask(&fresh, "prestate_getBlockDiff", &json!([hash]));
        let held = !whole.contains("has uncles whose headers are not in the data");
        refused += usize::from(!held);
        for (method, params) in views(&hash, &number, &transactions) {
            let expected = ask(&fresh, method, &params);
            assert!(ask(&restarted, method, &params) == expected, "{method}{params}: restarted");
            let copied = ask(&replica, method, &params);
            assert!(copied == expected || !held, "{method}{params}: the replica");
            compared += 1 + usize::from(held);
        }
        blocks += 1;
    }
    println!("{blocks} blocks, {compared} answers equal, {refused} blocks not held; {report}");
    assert!(compared > 0);
}

#[test]
fn the_samples_are_served_from_the_archive_as_they_are_replayed() {
    let samples = workspace().join("etc/samples");
    let genesis = samples.join("genesis.json").display().to_string();
    compare(&[samples], &genesis);
}

#[test]
fn mainnet_blocks_are_served_from_the_archive_as_they_are_replayed() {
    let Some(folder) = folder("mainnet") else { return skipped("archived mainnet blocks") };
    // Every fourth in the short form; all with PRESTATE_ALL_FIXTURES.
    let all = std::env::var_os("PRESTATE_ALL_FIXTURES").is_some();
    let paths = block_paths(&folder).expect("block files");
    let paths: Vec<_> = paths.into_iter().step_by(if all { 1 } else { 4 }).collect();
    compare(&paths, "mainnet");
}

#[test]
fn a_folder_without_an_archive_or_an_archive_without_blocks_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = prestate(["archive", "serve", &folder.path().display().to_string()]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("no archive"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&folder.path().display().to_string()), "{}", refused.stderr);
    let empty = Sample::of([]);
    let refused = prestate(["archive", "serve", &empty.text()]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("holds no block yet"), "{}", refused.stderr);
}

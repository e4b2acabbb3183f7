//! Bad input: nothing on standard output, one clear line on standard error, exit code 2.

use crate::program::prestate;
use flate2::{Compression, write::GzEncoder};
use prestate_tests::fixtures::workspace;
use serde_json::Value;
use std::{fs, io::Write, path::Path};

const GENESIS: &str = "etc/samples/genesis.json";

fn refused(args: &[&str], says: &[&str]) {
    let ran = prestate(args);
    assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
    assert_eq!(ran.stdout, "", "{args:?}");
    assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{args:?}: {ran:?}");
    for part in says {
        assert!(ran.stderr.contains(part), "{args:?} does not say {part:?}: {}", ran.stderr);
    }
}

fn sample(name: &str) -> Vec<u8> {
    fs::read(workspace().join("etc/samples").join(name)).expect("the sample")
}

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_file_that_is_not_there() {
    refused(&["diff", "no/such/file.json"], &["no/such/file.json", "No such file"]);
    refused(&["replay", "no/such/folder", "--check"], &["no/such/folder", "No such file"]);
}

#[test]
fn a_folder_without_blocks() {
    let empty = tempfile::tempdir().expect("a folder");
    let path = empty.path().to_str().expect("UTF-8");
    refused(&["replay", path, "--check"], &[path, "no .json"]);
}

#[test]
fn a_gzip_cut_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&sample("1.json")).expect("in memory");
    let whole = gzip.finish().expect("in memory");
    let path = write(folder.path(), "1.json.gz", &whole[..whole.len() / 2]);
    refused(&["diff", &path, "--chain", GENESIS], &[&path, "unpack"]);
}

#[test]
fn another_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content, says) in [
        ("no-json.json", &b"\x00\x01"[..], "not a block file"),
        ("list.json", b"[]", "not a block file"),
        ("other.json", b"{\"blok\":{}}", "blok"),
        ("empty.json", b"", "not a block file"),
    ] {
        let path = write(folder.path(), name, content);
        refused(&["diff", &path], &[&path, says]);
    }
    // A genesis file is no block.
    refused(&["diff", GENESIS], &[GENESIS, "not a block file"]);
}

#[test]
fn a_header_that_is_not_its_hash() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut block: Value = serde_json::from_slice(&sample("1.json")).expect("JSON");
    block["block"]["gasUsed"] = "0x1".into();
    let path = write(folder.path(), "1.json", block.to_string().as_bytes());
    let stated = block["block"]["hash"].as_str().expect("a hash");
    refused(&["diff", &path, "--chain", GENESIS], &[&path, "header hashes to", stated]);
}

/// The file lacks a slot that is read: account, slot and transaction are named; never zero.
#[test]
fn a_slot_that_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut block: Value = serde_json::from_slice(&sample("1.json")).expect("JSON");
    let counter = "0x00000000000000000000000000000000c0ffee01";
    let slot = format!("0x{}", "0".repeat(64));
    let storage = block["prestate"][counter]["storage"].as_object_mut().expect("slots");
    storage.remove(&slot).expect("the counter's slot");
    let path = write(folder.path(), "1.json", block.to_string().as_bytes());
    let hash = block["block"]["transactions"][1]["hash"].as_str().expect("a hash");
    // Addresses are printed with their checksum.
    let checksummed: alloy_primitives::Address = counter.parse().expect("an address");
    let account = checksummed.to_string();
    let says = ["transaction 1", hash, &account, &slot];
    refused(&["diff", &path, "--chain", GENESIS], &says);
    refused(&["diff", &path, "--chain", GENESIS, "--exact"], &says);
    refused(&["diff", &path, "--chain", GENESIS, "--view", "block"], &says);
}

#[test]
fn a_transaction_that_is_not_in_the_block() {
    let hash = format!("0x{}", "ab".repeat(32));
    let args = ["diff", "etc/samples/1.json", "--chain", GENESIS, "--tx", &hash];
    refused(&args, &[&hash, "4 transactions"]);
}

#[test]
fn a_chain_that_is_not_known() {
    refused(&["diff", "etc/samples/1.json", "--chain", "atlantis"], &["atlantis"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "genesis.json", b"{\"config\": 1}");
    refused(&["diff", "etc/samples/1.json", "--chain", &path], &[&path, "not a genesis file"]);
}

#[test]
fn views_that_do_not_go_together() {
    refused(
        &["diff", "etc/samples/1.json", "--view", "block", "--exact", "--chain", GENESIS],
        &["--view geth"],
    );
}

#[test]
fn flags_about_an_archive_that_is_not_there() {
    for command in [&["dev"][..], &["replay", "etc/samples", "--chain", "etc/samples/genesis.json"]]
    {
        for flag in [
            &["--backfill", "1..2"][..],
            &["--archive.reserve", "0"],
            &["--archive.retention", "blocks=100"],
        ] {
            let ran = prestate(command.iter().chain(flag));
            assert_eq!(ran.code, Some(2), "{flag:?}: {}", ran.stderr);
            let expected = format!("{} is about an archive, and there is none", flag[0]);
            assert!(ran.stderr.contains(&expected), "{flag:?}: {}", ran.stderr);
        }
    }
}

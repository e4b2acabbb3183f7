//! What each command prints, does and exits with.

use super::{Sample, append, canonical, contents};
use crate::program::{prestate, succeeds};
use serde_json::Value;
use std::fs;

fn json(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_sound_archive_verifies_and_is_not_touched() {
    let sample = Sample::of(1..=100);
    let before = contents(sample.path());
    let text = succeeds(["archive", "verify", &sample.text()]);
    assert_eq!(text, "100 blocks, 100 of them canonical, 100 transactions, 0 codes: all is well\n");
    let report = json(&succeeds(["archive", "verify", "--json", &sample.text()]));
    assert_eq!((&report["blocks"], &report["problemCount"]), (&100.into(), &0.into()));
    assert_eq!(report["enginePutRight"], Value::Null);
    assert_eq!(contents(sample.path()), before);
    let report = json(&succeeds(["archive", "verify", "--engine", "--json", &sample.text()]));
    assert_eq!(report["enginePutRight"], false);
}

/// A bit of one record flips: the block is named, and the exit code says so.
#[test]
fn a_record_that_rotted_is_named() {
    let sample = Sample::of(1..=20);
    let file = sample.path().join("archive.redb");
    let mut bytes = fs::read(&file).unwrap();
    // The hash opens the plain section, 32 bytes into the record.
    let hash = super::hash(7, 1);
    let records: Vec<_> = (32..bytes.len() - 32)
        .filter(|at| {
            bytes[*at..].starts_with(hash.as_slice()) && bytes[at - 32..].starts_with(b"PSR1")
        })
        .collect();
    assert!(!records.is_empty());
    for at in records {
        // The timestamp's place, behind both hashes.
        bytes[at + 64] ^= 1;
    }
    fs::write(&file, bytes).unwrap();
    let ran = prestate(["archive", "verify", &sample.text()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.ends_with(": 1 problems\n"), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    assert!(
        ran.stderr.contains(&hash.to_string()) && ran.stderr.contains(&sample.text()),
        "{ran:?}"
    );
    let ran = prestate(["archive", "verify", "--json", &sample.text()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""), "{ran:?}");
    let report = json(&ran.stdout);
    assert_eq!(report["problemCount"], 1);
    assert!(report["problems"][0].as_str().unwrap().contains(&hash.to_string()), "{report}");
}

#[test]
fn stats_tell_counts_sizes_and_gaps() {
    let sample = Sample::of((1..=10).chain(21..=30));
    let (mut writer, _) = sample.writer();
    let sibling = super::block(25, 2, 1);
    writer.append(&sibling, &Default::default(), false).unwrap();
    // Also while another process writes.
    let text = succeeds(["archive", "stats", &sample.text()]);
    for line in [
        "chain         chain 1337 with genesis 0x6767",
        "blocks        21, 20 of them canonical",
        "gaps          1, 10 heights",
        "transactions  21",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let stats = json(&succeeds(["archive", "stats", "--json", &sample.text()]));
    for (key, value) in [
        ("chainId", 1337),
        ("formatVersion", 1),
        ("blocks", 21),
        ("canonicalBlocks", 20),
        ("gaps", 1),
        ("missingBlocks", 10),
        ("transactions", 21),
        ("codes", 0),
    ] {
        assert_eq!(stats[key], value, "{key}: {stats}");
    }
    assert_eq!((&stats["first"]["number"], &stats["last"]["number"]), (&1.into(), &30.into()));
    assert!(stats["availableBytes"].as_u64().is_some() && stats["diskBytes"].as_u64() > Some(0));
}

#[test]
fn pruning_keeps_what_it_is_told_to_and_compacting_gives_the_space_back() {
    let sample = Sample::of(1..=2000);
    let report = json(&succeeds([
        "archive",
        "prune",
        &sample.text(),
        "--retention",
        "blocks=100",
        "--json",
    ]));
    assert_eq!((&report["blocks"], &report["first"]), (&1900.into(), &1901.into()));
    let numbers: Vec<_> = canonical(sample.path()).iter().map(|block| block.number).collect();
    assert_eq!(numbers, (1901..=2000).collect::<Vec<_>>());
    let again = succeeds(["archive", "prune", &sample.text(), "--retention", "blocks=100"]);
    assert_eq!(again, "removed 0 blocks (0 bytes) and 0 codes (0 bytes); 1901 to 2000 stay\n");
    let report = json(&succeeds(["archive", "compact", &sample.text(), "--json"]));
    assert!(report["bytesAfter"].as_u64() < report["bytesBefore"].as_u64(), "{report}");
    succeeds(["archive", "verify", &sample.text()]);
    // And goes on.
    let (mut writer, _) = sample.writer();
    append(&mut writer, 2001..=2002, 1);
}

#[test]
fn retentions_that_make_no_sense_are_refused() {
    let sample = Sample::of(1..=3);
    for wrong in ["7", "blocks", "bytes=x"] {
        let ran = prestate(["archive", "prune", &sample.text(), "--retention", wrong]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(wrong) && ran.stderr.contains("blocks=N"), "{ran:?}");
    }
    // Fewer than a reorg may reach back.
    let ran = prestate(["archive", "prune", &sample.text(), "--retention", "blocks=63"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("64"), "{ran:?}");
}

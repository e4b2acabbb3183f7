//! What is refused: path and cause in one line, exit code 2, nothing touched.

use super::{CHAIN, NO_RESERVE, Sample, contents, options};
use crate::program::prestate;
use alloy_primitives::B256;
use prestate_store::{Archive, ChainId};
use std::{fs, path::Path};
use tempfile::TempDir;

/// Every command on a folder.
pub(super) fn commands<'a>(dir: &'a str, elsewhere: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["archive", "verify", dir],
        vec!["archive", "verify", "--engine", dir],
        vec!["archive", "stats", dir],
        vec!["archive", "prune", dir, "--retention", "blocks=64"],
        vec!["archive", "compact", dir],
        vec!["archive", "export", dir, "--to", elsewhere],
    ]
}

fn refused(args: &[&str], says: &[&str]) {
    let ran = prestate(args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}: {ran:?}");
    assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{args:?}: {ran:?}");
    for part in says {
        assert!(ran.stderr.contains(part), "{args:?} does not say {part:?}: {}", ran.stderr);
    }
}

/// Every command says so, and nothing below `root` changes.
fn all_refused(root: &Path, dir: &str, says: &[&str]) {
    let scratch = TempDir::new().unwrap();
    let elsewhere = scratch.path().join("out");
    let before = contents(root);
    for args in commands(dir, elsewhere.to_str().unwrap()) {
        refused(&args, says);
    }
    assert_eq!(contents(root), before);
    assert!(!elsewhere.exists(), "an export began");
}

#[test]
fn what_is_no_archive() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    all_refused(folder.path(), &path("nowhere"), &[&path("nowhere"), "no archive"]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    all_refused(folder.path(), &path("empty"), &[&path("empty"), "no archive"]);
    fs::create_dir(folder.path().join("photos")).unwrap();
    fs::write(folder.path().join("photos/1.jpg"), "x").unwrap();
    all_refused(folder.path(), &path("photos"), &[&path("photos"), "is no archive"]);
    fs::write(folder.path().join("file"), "x").unwrap();
    all_refused(folder.path(), &path("file"), &[&path("file"), "is no archive", "a file"]);
    // Nor is anything put into it.
    let source = Sample::of(1..=3);
    let out = source.beside("out");
    crate::program::succeeds(["archive", "export", &source.text(), "--to", &out]);
    let before = contents(folder.path());
    refused(&["archive", "import", &path("photos"), "--from", &out], &["is no archive"]);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_newer_version() {
    let sample = Sample::of(1..=3);
    let file = sample.path().join("prestate.archive");
    let mut descriptor = fs::read(&file).unwrap();
    descriptor[8] = 2;
    fs::write(&file, descriptor).unwrap();
    let says = [&*sample.text(), "format version 2", "reads up to 1"];
    all_refused(&sample.path(), &sample.text(), &says);
}

#[test]
fn a_descriptor_or_a_store_that_is_damaged() {
    let sample = Sample::of(1..=3);
    let file = sample.path().join("prestate.archive");
    let good = fs::read(&file).unwrap();
    fs::write(&file, &good[..30]).unwrap();
    all_refused(&sample.path(), &sample.text(), &["prestate.archive is damaged"]);
    fs::write(&file, &good).unwrap();
    fs::remove_file(sample.path().join("archive.redb")).unwrap();
    all_refused(&sample.path(), &sample.text(), &["archive.redb is damaged", "missing"]);
    fs::write(sample.path().join("archive.redb"), "").unwrap();
    all_refused(&sample.path(), &sample.text(), &["archive.redb is damaged", "empty"]);
}

/// Chain id and genesis hash both count.
#[test]
fn another_chain() {
    let source = Sample::of(1..=3);
    let out = source.beside("out");
    crate::program::succeeds(["archive", "export", &source.text(), "--to", &out]);
    let segment = contents(Path::new(&out).join("segments"));
    let segment = segment.keys().next().unwrap().to_str().unwrap();
    let others = [
        ChainId { chain_id: 1, ..CHAIN },
        ChainId { genesis_hash: B256::repeat_byte(0x68), ..CHAIN },
    ];
    for other in others {
        let folder = TempDir::new().unwrap();
        let dir = folder.path().join("archive");
        drop(Archive::create(&dir, other, &options()).unwrap());
        let (before, there) = (contents(folder.path()), contents(&out));
        let dir = dir.to_str().unwrap();
        let (ours, theirs) = (CHAIN.to_string(), other.to_string());
        for from in [&out, segment] {
            refused(&["archive", "import", dir, "--from", from], &[&ours, &theirs, dir]);
        }
        assert_eq!(contents(folder.path()), before);
        // Nor do its blocks mix with those of another chain in one location.
        let sample = TempDir::new().unwrap();
        let dir = sample.path().join("archive");
        let (mut writer, _) = Archive::create(&dir, other, &options()).unwrap();
        super::append(&mut writer, 1..=2, 1);
        drop(writer);
        refused(
            &["archive", "export", dir.to_str().unwrap(), "--to", &out],
            &[&out, &ours, &theirs],
        );
        assert_eq!(contents(&out), there);
    }
}

/// One writer: who wants to write is refused, who reads is not.
#[test]
fn an_archive_in_use() {
    let sample = Sample::of(1..=3);
    let (_writer, _) = sample.writer();
    let dir = sample.text();
    let before = contents(sample.path());
    let says = [&*dir, "in use by another process"];
    refused(&["archive", "prune", &dir, "--retention", "blocks=64"], &says);
    refused(&["archive", "compact", &dir], &says);
    refused(&["archive", "verify", "--engine", &dir], &says);
    assert_eq!(contents(sample.path()), before);
    let text = crate::program::succeeds(["archive", "verify", &dir]);
    assert!(text.ends_with("all is well\n"), "{text}");
    let out = sample.beside("out");
    crate::program::succeeds(["archive", "export", &dir, "--to", &out]);
    let mut import = vec!["archive", "import", &dir, "--from", &out];
    import.extend(NO_RESERVE);
    refused(&import, &says);
}

/// As a kill leaves it, or a copy made while the writer was open: the way out is named, and works.
#[test]
fn an_archive_that_was_not_closed() {
    let sample = Sample::of(1..=3);
    let copy = TempDir::new().unwrap();
    let (_writer, _) = sample.writer();
    for file in ["prestate.archive", "archive.redb"] {
        fs::copy(sample.path().join(file), copy.path().join(file)).unwrap();
    }
    let dir = copy.path().to_str().unwrap();
    let before = contents(dir);
    refused(&["archive", "stats", dir], &[dir, "not closed", "verify --engine"]);
    assert_eq!(contents(dir), before);
    crate::program::succeeds(["archive", "verify", "--engine", dir]);
    crate::program::succeeds(["archive", "stats", dir]);
    assert_eq!(super::canonical(dir), super::canonical(sample.path()));
}

/// The guard: nothing is written while less is free than is to stay free.
#[test]
fn a_disk_with_too_little_space() {
    let source = Sample::of(1..=3);
    let out = source.beside("out");
    crate::program::succeeds(["archive", "export", &source.text(), "--to", &out]);
    let sample = Sample::of(1..=1);
    let dir = sample.text();
    let before = super::canonical(sample.path());
    let reserve = u64::MAX.to_string();
    let args = ["archive", "import", &dir, "--from", &out, "--reserve-bytes", &reserve];
    refused(&args, &[&dir, "bytes are free", &reserve]);
    assert_eq!(super::canonical(sample.path()), before);
}

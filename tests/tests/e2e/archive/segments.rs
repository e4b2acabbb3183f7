//! Export and import over a folder.

use super::{NO_RESERVE, Sample, append, canonical, contents, options};
use crate::program::{prestate, succeeds};
use prestate_store::Archive;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

const BY_TEN: [&str; 2] = ["--segment-blocks", "10"];

pub(super) fn export(dir: &str, to: &str, more: &[&str]) -> Value {
    let args = ["archive", "export", dir, "--to", to, "--json"];
    serde_json::from_str(&succeeds(args.iter().chain(&BY_TEN).chain(more))).unwrap()
}

pub(super) fn import(dir: &str, from: &str, more: &[&str]) -> Value {
    let args = ["archive", "import", dir, "--from", from, "--json"];
    serde_json::from_str(&succeeds(args.iter().chain(&NO_RESERVE).chain(more))).unwrap()
}

/// Counts by name.
#[track_caller]
pub(super) fn says(report: &Value, counts: &[(&str, u64)]) {
    for (key, value) in counts {
        assert_eq!(report[key], *value, "{key}: {report}");
    }
}

fn objects(to: &str) -> BTreeSet<String> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    contents(to).keys().map(|path| name(path)).collect()
}

/// First and last block of every segment that the manifest lists.
fn listed(to: &str) -> Vec<(u64, u64)> {
    let manifest = fs::read(Path::new(to).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let number = |entry: &Value, key| entry[key].as_u64().unwrap();
    let segments = manifest["segments"].as_array().unwrap();
    segments.iter().map(|entry| (number(entry, "first"), number(entry, "last"))).collect()
}

#[test]
fn a_copy_made_of_segments_is_the_archive() {
    let sample = Sample::of((3..=25).chain(31..=42));
    let (dir, to) = (sample.text(), sample.beside("out"));
    says(&export(&dir, &to, &[]), &[("written", 5), ("present", 0), ("blocks", 35)]);
    assert_eq!(listed(&to), [(3, 9), (10, 19), (20, 25), (31, 39), (40, 42)]);
    // Again, as a URL: nothing to do.
    let url = format!("file://{to}");
    says(&export(&dir, &url, &[]), &[("written", 0), ("present", 5), ("blocks", 35)]);

    let copy = sample.beside("copy");
    says(&import(&copy, &url, &[]), &[("segments", 5), ("stored", 35), ("present", 0)]);
    says(&import(&copy, &to, &[]), &[("segments", 0), ("stored", 0), ("present", 5)]);
    assert_eq!(canonical(&copy), canonical(sample.path()));
    succeeds(["archive", "verify", &copy]);
    // Equal stretches make equal bytes, in whatever archive they lie.
    let again = sample.beside("again");
    export(&copy, &again, &[]);
    assert_eq!(objects(&again), objects(&to));

    // Some of it.
    let part = sample.beside("part");
    let report = import(&part, &to, &["--blocks", "12..20"]);
    says(&report, &[("segments", 2), ("stored", 16)]);
    let ran = prestate(["archive", "import", &part, "--from", &to, "--blocks", "26..30"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("no blocks from 26 to 30"), "{ran:?}");
}

#[test]
fn an_interrupted_export_goes_on_by_the_hashes_that_are_there() {
    let sample = Sample::of(0..=39);
    let (dir, to) = (sample.text(), sample.beside("out"));
    export(&dir, &to, &[]);
    let whole = contents(&to);
    // As if it had ended before the manifest was written, and within a segment.
    let segments: Vec<_> =
        whole.keys().filter(|path| path.extension().unwrap() != "json").collect();
    fs::remove_file(Path::new(&to).join("manifest.json")).unwrap();
    fs::remove_file(segments[0]).unwrap();
    fs::write(segments[1], &whole[segments[1]][..100]).unwrap();
    says(&export(&dir, &to, &[]), &[("written", 2), ("present", 2)]);
    assert_eq!(contents(&to), whole);
}

#[test]
fn the_head_grows_and_the_tail_is_pruned() {
    let sample = Sample::of(0..=14);
    let (dir, to) = (sample.text(), sample.beside("out"));
    let sealed = sample.beside("sealed");
    says(&export(&dir, &to, &[]), &[("written", 2)]);
    says(&export(&dir, &sealed, &["--sealed"]), &[("written", 1)]);
    append(&mut sample.writer().0, 15..=99, 1);
    says(&export(&dir, &to, &[]), &[("written", 9), ("present", 1), ("replaced", 1)]);
    says(&export(&dir, &sealed, &["--sealed"]), &[("written", 9), ("present", 1), ("replaced", 0)]);
    let tens: Vec<_> = (0..10).map(|ten| (ten * 10, ten * 10 + 9)).collect();
    assert_eq!((listed(&to), listed(&sealed)), (tens.clone(), tens.clone()));
    // What was pruned here stays there.
    succeeds(["archive", "prune", &dir, "--retention", "blocks=65"]);
    append(&mut sample.writer().0, 100..=104, 1);
    says(&export(&dir, &to, &[]), &[("written", 1), ("present", 7), ("replaced", 0)]);
    assert_eq!(listed(&to), [tens, vec![(100, 104)]].concat());
    let copy = sample.beside("copy");
    says(&import(&copy, &to, &[]), &[("stored", 105)]);
}

/// Another branch at the head: the manifest takes it, and who imports says whether to follow.
#[test]
fn a_reorg_is_followed_where_that_is_wanted() {
    let sample = Sample::of(0..=24);
    let (dir, to, copy) = (sample.text(), sample.beside("out"), sample.beside("copy"));
    export(&dir, &to, &[]);
    import(&copy, &to, &[]);
    {
        let (mut writer, _) = sample.writer();
        let mut batch = writer.batch().unwrap();
        batch.revert_from(22).unwrap();
        batch.commit().unwrap();
        writer.append(&super::block(22, 2, 1), &Default::default(), true).unwrap();
        append(&mut writer, 23..=33, 2);
    }
    says(&export(&dir, &to, &[]), &[("written", 2), ("present", 2), ("replaced", 1)]);
    let before = canonical(&copy);
    let args = ["archive", "import", &copy, "--from", &to, "--reserve-bytes", "0"];
    let ran = prestate(args);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains(".segment: block") && ran.stderr.contains("canonical"), "{ran:?}");
    assert_eq!(canonical(&copy), before);
    let report = import(&copy, &to, &["--follow"]);
    says(&report, &[("reverted", 5), ("stored", 12), ("segments", 2)]);
    assert_eq!(canonical(&copy), canonical(sample.path()));
    succeeds(["archive", "verify", &copy]);
    // What lost its place is held still.
    let reader = Archive::open_read_only(&copy, &options()).unwrap();
    assert_eq!(reader.facts(&super::hash(24, 1)).unwrap(), Some(super::block(24, 1, 1)));
}

/// Blocks that only the location has are not given up for another branch.
#[test]
fn nothing_is_lost_for_another_branch() {
    let sample = Sample::of(0..=14);
    let (dir, to) = (sample.text(), sample.beside("out"));
    export(&dir, &to, &[]);
    // Another archive of the chain, which begins in the middle of the segment, on another branch.
    let other = Sample::of([]);
    {
        let (mut writer, _) = other.writer();
        writer.append(&super::block(12, 2, 1), &Default::default(), true).unwrap();
        append(&mut writer, 13..=19, 2);
    }
    let before = contents(&to);
    let ran = prestate(["archive", "export", &other.text(), "--to", &to, BY_TEN[0], BY_TEN[1]]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("another branch") && ran.stderr.contains(&to), "{ran:?}");
    assert_eq!(contents(&to), before);
}

#[test]
fn damage_is_named_and_nothing_of_it_is_taken_in() {
    let sample = Sample::of(0..=29);
    let (dir, to, copy) = (sample.text(), sample.beside("out"), sample.beside("copy"));
    export(&dir, &to, &[]);
    let good = contents(&to);
    let refused = |says: &[&str], held: u64| {
        let args = ["archive", "import", &copy, "--from", &to, "--reserve-bytes", "0"];
        let ran = prestate(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        for part in says {
            assert!(ran.stderr.contains(part), "{part}: {ran:?}");
        }
        assert_eq!(canonical(&copy).len() as u64, held);
    };
    // The last segment, in the middle and at its very end, and one that is not there.
    let manifest: Value =
        serde_json::from_slice(&good[&Path::new(&to).join("manifest.json")]).unwrap();
    let digest = manifest["segments"][2]["digest"].as_str().unwrap();
    let name = format!("segments/{}.segment", &digest[2..]);
    let path = Path::new(&to).join(&name);
    let bytes = &good[&path];
    for at in [bytes.len() / 2, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 4;
        fs::write(&path, bad).unwrap();
        refused(&[&to, &name, "is damaged"], 20);
    }
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    refused(&[&to, &name, "bytes"], 20);
    fs::remove_file(&path).unwrap();
    refused(&[&to, &name, "No such file"], 20);
    fs::write(&path, bytes).unwrap();
    let file = Path::new(&to).join("manifest.json");
    for (wrong, says) in [
        ("{", "manifest.json is damaged"),
        (r#"{"format": "prestate-segments", "version": 9}"#, "has version 9"),
    ] {
        fs::write(&file, wrong).unwrap();
        refused(&[&to, says], 20);
    }
    fs::remove_file(&file).unwrap();
    refused(&[&to, "no manifest.json"], 20);
    fs::write(&file, &good[&file]).unwrap();
    says(&import(&copy, &to, &[]), &[("stored", 10), ("present", 2)]);
}

/// One segment, as `tests/old` of the store keeps it.
#[test]
fn a_single_segment_of_version_1_is_imported() {
    let kept = prestate_tests::fixtures::workspace().join("crates/store/tests/old/v1/segment.zst");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, copy) = (path("old.segment"), path("copy"));
    let segment = zstd::decode_all(&fs::read(kept).unwrap()[..]).unwrap();
    fs::write(&file, &segment).unwrap();
    says(&import(&copy, &file, &[]), &[("blocks", 22), ("stored", 22), ("codes", 40)]);
    says(&import(&copy, &file, &[]), &[("blocks", 22), ("stored", 0)]);
    succeeds(["archive", "verify", &copy]);
    for cut in [0, 50, segment.len() - 1] {
        fs::write(&file, &segment[..cut]).unwrap();
        let ran = prestate(["archive", "import", &path("new"), "--from", &file]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(&file), "{ran:?}");
    }
    let ran = prestate(["archive", "import", &copy, "--from", &file, "--follow"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}

#[test]
fn places_that_make_no_sense() {
    let sample = Sample::of(1..=3);
    let nowhere = sample.beside("nowhere");
    let new = sample.beside("new");
    for (from, says) in [
        (nowhere.as_str(), "No such file"),
        ("ftp://host/x", "file:// and s3://"),
        ("s3:///x", "the bucket is missing"),
        ("file://host/x", "no host"),
    ] {
        let ran = prestate(["archive", "import", &new, "--from", from]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(from) && ran.stderr.contains(says), "{says}: {ran:?}");
        assert!(!fs::exists(&new).unwrap());
    }
    let file = sample.beside("file");
    fs::write(&file, "x").unwrap();
    let ran = prestate(["archive", "export", &sample.text(), "--to", &file]);
    assert!(ran.code == Some(2) && ran.stderr.contains(&file), "{ran:?}");
}

//! Opening what is, and what is not, an archive.

use crate::{
    basics::{append_plain, fresh, options},
    chain::{self, hash, plain},
};
use alloy_primitives::B256;
use prestate_store::{Archive, ChainId, FORMAT_VERSION, OpenError};
use std::{collections::BTreeMap, fs, path::Path};
use tempfile::TempDir;

/// Names and contents of a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

#[test]
fn nothing_there() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("none");
    let error = Archive::open(&path, chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(&error, OpenError::NotFound { path: named } if *named == path), "{error}");
    assert!(!path.exists());
    assert!(matches!(Archive::describe(&path), Err(OpenError::NotFound { .. })));
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("letter.txt"), "dear").unwrap();
    let before = contents(folder.path());
    for result in [
        Archive::open(folder.path(), chain::chain_id(), &options()),
        Archive::create(folder.path(), chain::chain_id(), &options()),
        Archive::open_or_create(folder.path(), chain::chain_id(), &options()),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, OpenError::NotAnArchive { .. }), "{error}");
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_store_without_descriptor_is_not_taken_over() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("archive.redb"), "someone's").unwrap();
    let before = contents(folder.path());
    let error = Archive::open_or_create(folder.path(), chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::NotAnArchive { .. }), "{error}");
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_file_is_no_archive() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "text").unwrap();
    let error = Archive::open_or_create(&path, chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::NotAnArchive { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"text");
}

#[test]
fn another_chain_or_genesis_is_refused_untouched() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=3);
    drop((writer, reader));
    let path = folder.path().join("archive");
    let before = contents(&path);
    let own = chain::chain_id();
    for other in
        [ChainId { chain_id: own.chain_id + 1, ..own }, ChainId { genesis_hash: B256::ZERO, ..own }]
    {
        let error = Archive::open_or_create(&path, other, &options()).unwrap_err();
        assert!(matches!(error, OpenError::OtherChain { found, expected, .. }
                if found == own && expected == other),);
    }
    let error = Archive::create(&path, own, &options()).unwrap_err();
    assert!(matches!(error, OpenError::Exists { .. }), "{error}");
    assert_eq!(contents(&path), before);
    assert_eq!(Archive::describe(&path).unwrap().chain, own);
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let (folder, writer, reader) = fresh();
    drop((writer, reader));
    let path = folder.path().join("archive");
    let descriptor = path.join("prestate.archive");
    let mut bytes = fs::read(&descriptor).unwrap();
    bytes[8..10].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    fs::write(&descriptor, &bytes).unwrap();
    let before = contents(&path);
    let error = Archive::open(&path, chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::NewerVersion { found, supported, .. }
            if found == FORMAT_VERSION + 1 && supported == FORMAT_VERSION),);
    assert_eq!(contents(&path), before);
}

#[test]
fn damaged_files_are_named() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=3);
    drop((writer, reader));
    let path = folder.path().join("archive");
    let open = || Archive::open(&path, chain::chain_id(), &options()).unwrap_err();

    let store = path.join("archive.redb");
    let good = fs::read(&store).unwrap();
    let mut bad = good.clone();
    bad[..16].fill(0xaa);
    fs::write(&store, &bad).unwrap();
    assert!(matches!(open(), OpenError::Damaged { path, .. } if path == store));
    fs::write(&store, []).unwrap();
    assert!(matches!(open(), OpenError::Damaged { path, .. } if path == store));
    fs::remove_file(&store).unwrap();
    assert!(matches!(open(), OpenError::Damaged { path, .. } if path == store));
    fs::write(&store, &good).unwrap();

    let descriptor = path.join("prestate.archive");
    let mut bytes = fs::read(&descriptor).unwrap();
    bytes[30] ^= 1;
    fs::write(&descriptor, &bytes).unwrap();
    assert!(matches!(open(), OpenError::Damaged { path, .. } if path == descriptor));
    bytes[30] ^= 1;
    fs::write(&descriptor, &bytes).unwrap();
    Archive::open(&path, chain::chain_id(), &options()).unwrap();
}

#[test]
fn an_archive_in_use_is_locked_for_writers_and_open_for_readers() {
    let (folder, mut writer, _reader) = fresh();
    append_plain(&mut writer, 1..=3);
    let path = folder.path().join("archive");
    let error = Archive::open(&path, chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");

    let follower = Archive::open_read_only(&path, &options()).unwrap();
    assert_eq!(follower.chain(), chain::chain_id());
    assert_eq!(follower.facts(&hash(3, 0)).unwrap(), Some(plain(3).0));
    // It follows what is committed after it was opened.
    append_plain(&mut writer, 4..=4);
    assert_eq!(follower.facts(&hash(4, 0)).unwrap(), Some(plain(4).0));
    drop(writer);
    assert_eq!(follower.facts(&hash(4, 0)).unwrap(), Some(plain(4).0));
}

#[test]
fn making_an_archive_again_after_an_interruption() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("archive");
    let (writer, reader) = Archive::create(&path, chain::chain_id(), &options()).unwrap();
    drop((writer, reader));
    // As if the power went before the last step.
    fs::rename(path.join("prestate.archive"), path.join("prestate.archive.new")).unwrap();
    let error = Archive::open(&path, chain::chain_id(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::NotFound { .. }), "{error}");
    let (mut writer, reader) =
        Archive::open_or_create(&path, chain::chain_id(), &options()).unwrap();
    append_plain(&mut writer, 1..=2);
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn an_unreadable_file_is_named_with_the_cause() {
    let folder = TempDir::new().unwrap();
    let descriptor = folder.path().join("prestate.archive");
    fs::create_dir(&descriptor).unwrap();
    let error = Archive::open(folder.path(), chain::chain_id(), &options()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, OpenError::Io { operation: "read", .. }), "{message}");
    assert!(message.contains(descriptor.to_str().unwrap()), "{message}");
}

#[test]
fn an_archive_that_may_only_be_read_can_be_read() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=3);
    drop((writer, reader));
    let path = folder.path().join("archive");
    let before = contents(&path);
    let reader = Archive::open_read_only(&path, &options()).unwrap();
    assert_eq!(reader.facts(&hash(2, 0)).unwrap(), Some(plain(2).0));
    assert!(reader.verify(|_| {}).unwrap().is_clean());
    // Two of them do not stand in each other's way.
    let second = Archive::open_read_only(&path, &options()).unwrap();
    assert_eq!(second.facts(&hash(2, 0)).unwrap(), Some(plain(2).0));
    drop((reader, second));
    assert_eq!(contents(&path), before);
}

//! What earlier versions wrote opens for ever.

use crate::{
    basics::{append_plain, fresh, options},
    chain::{self, block, block_ref, hash, plain},
};
use prestate_store::{Archive, EncodedBlock, KeptBlock};
use prestate_types::BlockDiff;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const FILES: [&str; 2] = ["prestate.archive", "archive.redb"];

fn kept(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old").join(version)
}

/// A kept archive, unpacked where it may be written to.
fn unpack(version: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in FILES {
        let packed = fs::read(kept(version).join(format!("{file}.zst"))).unwrap();
        fs::write(folder.path().join(file), zstd::decode_all(&packed[..]).unwrap()).unwrap();
    }
    folder
}

/// Blocks 1 to 20; 21 and 22 of fork 1, of 21 only the change as a whole; 21 of fork 0 beside.
fn write(writer: &mut prestate_store::ArchiveWriter) {
    append_plain(writer, 1..=21);
    let mut batch = writer.batch().unwrap();
    batch.revert_to(&block_ref(20, 0)).unwrap();
    let (facts, codes) = block(21, 1, 0, 5);
    let whole = BlockDiff { summary: facts.summary, diff: facts.fold() };
    batch.append(&EncodedBlock::of_block_diff(&whole).unwrap(), &codes, true).unwrap();
    let (facts, codes) = block(22, 1, 1, 300);
    batch.append(&EncodedBlock::of_facts(&facts).unwrap(), &codes, true).unwrap();
    batch.commit().unwrap();
}

#[test]
fn an_archive_of_version_1_opens() {
    let folder = unpack("v1");
    assert_eq!(Archive::describe(folder.path()).unwrap().format_version, 1);
    let (mut writer, reader) = Archive::open(folder.path(), chain::chain_id(), &options()).unwrap();
    assert_eq!(reader.range().unwrap(), Some((block_ref(1, 0), block_ref(22, 1))));
    for number in 1..=21 {
        assert_eq!(reader.facts(&hash(number, 0)).unwrap(), Some(plain(number).0));
    }
    let (facts, _) = block(21, 1, 0, 5);
    let whole = BlockDiff { summary: facts.summary, diff: facts.fold() };
    assert_eq!(reader.block(&hash(21, 1)).unwrap(), Some(KeptBlock::DiffOnly(whole)));
    let (facts, codes) = block(22, 1, 1, 300);
    for tx in &facts.txs {
        let place = reader.transaction(&tx.hash).unwrap().unwrap();
        assert_eq!((place.block, place.index), (facts.summary.block, tx.index));
    }
    for (code_hash, code) in codes.iter() {
        assert_eq!(reader.code(code_hash).unwrap().as_ref(), Some(code));
    }
    assert_eq!(reader.facts(&hash(22, 1)).unwrap(), Some(facts));
    let report = reader.verify(|_| {}).unwrap();
    assert_eq!((report.problems, report.blocks), (vec![], 23));
    // And goes on.
    let (facts, codes) = block(23, 1, 1, 5);
    writer.append(&facts, &codes, true).unwrap();
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn a_segment_of_version_1_is_imported() {
    let packed = fs::read(kept("v1").join("segment.zst")).unwrap();
    let segment = zstd::decode_all(&packed[..]).unwrap();
    let (_folder, mut writer, reader) = fresh();
    assert_eq!(writer.import(&segment[..]).unwrap().stored, 22);
    assert_eq!(reader.facts(&hash(20, 0)).unwrap(), Some(plain(20).0));
    assert!(reader.verify(|_| {}).unwrap().is_clean());
    // Records travel as they are.
    let mut again = Vec::new();
    reader.export(1..=22, &mut again).unwrap();
    assert!(again == segment);
}

/// Writes what is kept for this version, once, when the version is new.
#[test]
#[ignore = "writes into the source tree"]
fn write_what_is_kept() {
    let (folder, mut writer, reader) = fresh();
    write(&mut writer);
    let mut segment = Vec::new();
    reader.export(1..=22, &mut segment).unwrap();
    writer.compact().unwrap();
    drop((writer, reader));
    let out = kept("v1");
    fs::create_dir_all(&out).unwrap();
    for file in FILES {
        let bytes = fs::read(folder.path().join("archive").join(file)).unwrap();
        fs::write(out.join(format!("{file}.zst")), zstd::encode_all(&bytes[..], 19).unwrap())
            .unwrap();
    }
    fs::write(out.join("segment.zst"), zstd::encode_all(&segment[..], 19).unwrap()).unwrap();
}

//! `prestate archive`.

mod bad_input;
mod commands;
mod confined;
mod replica;
mod s3;
mod segments;

use alloy_primitives::B256;
use prestate_store::{
    Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, ChainId, EncodedBlock,
};
use prestate_types::{BlockFacts, BlockRef, BlockSummary, Codes, StateDiff, TxDiff};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const CHAIN: ChainId = ChainId { chain_id: 1337, genesis_hash: B256::repeat_byte(0x67) };
/// Keeps nothing free: the disk of the tests may be small.
const NO_RESERVE: [&str; 2] = ["--reserve-bytes", "0"];

fn options() -> ArchiveOptions {
    ArchiveOptions { reserve_bytes: 0, ..ArchiveOptions::default() }
}

fn hash(number: u64, branch: u8) -> B256 {
    let mut hash = B256::repeat_byte(branch);
    hash[..8].copy_from_slice(&number.to_be_bytes());
    hash
}

/// A block of a branch, whose parent is of another one where that is given.
fn block(number: u64, branch: u8, parent: u8) -> BlockFacts {
    let tx = TxDiff { hash: hash(number, branch ^ 0x80), ..TxDiff::default() };
    BlockFacts {
        summary: BlockSummary {
            block: BlockRef::new(number, hash(number, branch)),
            parent_hash: hash(number.wrapping_sub(1), parent),
            timestamp: number * 12,
        },
        pre_system: StateDiff::default(),
        txs: vec![tx],
        post_system: StateDiff::default(),
    }
}

fn append(writer: &mut ArchiveWriter, numbers: impl IntoIterator<Item = u64>, branch: u8) {
    let mut batch = writer.batch().unwrap();
    for number in numbers {
        let block = EncodedBlock::of_facts(&block(number, branch, branch)).unwrap();
        batch.append(&block, &Codes::default(), true).unwrap();
    }
    batch.commit().unwrap();
}

/// An archive in a folder of its own.
struct Sample {
    folder: TempDir,
}

impl Sample {
    /// Canonical blocks of branch 1.
    fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        let sample = Self { folder: TempDir::new().unwrap() };
        let (mut writer, _) = Archive::create(sample.path(), CHAIN, &options()).unwrap();
        append(&mut writer, numbers, 1);
        sample
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn beside(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn writer(&self) -> (ArchiveWriter, ArchiveReader) {
        Archive::open(self.path(), CHAIN, &options()).unwrap()
    }
}

/// Blocks of a folder's archive, as read by a fresh reader.
fn canonical(path: impl AsRef<Path>) -> Vec<BlockRef> {
    let reader = Archive::open_read_only(path, &options()).unwrap();
    reader.canonical_blocks(0..=u64::MAX, usize::MAX).unwrap()
}

/// Every file below a folder with its bytes.
fn contents(folder: impl AsRef<Path>) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.as_ref().to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

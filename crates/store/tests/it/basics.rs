//! What is written can be read.

use crate::chain::{self, block, block_ref, hash, plain};
use alloy_primitives::{B256, keccak256};
use prestate_store::{
    Appended, Archive, ArchiveOptions, ArchiveReader, ArchiveWriter, EncodedBlock, KeptBlock,
    MIN_KEPT_BLOCKS, Retention, WriteError,
};
use prestate_types::{BlockDiff, Codes, KECCAK_EMPTY};
use tempfile::TempDir;

pub(crate) fn options() -> ArchiveOptions {
    ArchiveOptions { reserve_bytes: 0, ..ArchiveOptions::default() }
}

pub(crate) fn fresh() -> (TempDir, ArchiveWriter, ArchiveReader) {
    let folder = TempDir::new().unwrap();
    let (writer, reader) =
        Archive::create(folder.path().join("archive"), chain::chain_id(), &options()).unwrap();
    (folder, writer, reader)
}

pub(crate) fn append_plain(writer: &mut ArchiveWriter, numbers: std::ops::RangeInclusive<u64>) {
    let mut batch = writer.batch().unwrap();
    for number in numbers {
        let (facts, codes) = plain(number);
        batch.append(&EncodedBlock::of_facts(&facts).unwrap(), &codes, true).unwrap();
    }
    batch.commit().unwrap();
}

#[test]
fn an_empty_archive_holds_nothing() {
    let (_folder, _writer, reader) = fresh();
    assert_eq!(reader.range().unwrap(), None);
    assert_eq!(reader.facts(&B256::ZERO).unwrap(), None);
    assert_eq!(reader.canonical_hash(0).unwrap(), None);
    assert_eq!(reader.transaction(&B256::ZERO).unwrap(), None);
    assert_eq!(reader.code(&B256::ZERO).unwrap(), None);
    assert_eq!(reader.code(&KECCAK_EMPTY).unwrap().unwrap().len(), 0);
    assert_eq!(reader.gaps(3..=5).unwrap(), vec![3..=5]);
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn blocks_codes_and_transactions_come_back_after_reopening() {
    let (folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 10..=40);
    let check = |reader: &ArchiveReader| {
        for number in 10..=40 {
            let (facts, codes) = plain(number);
            assert_eq!(reader.canonical_hash(number).unwrap(), Some(hash(number, 0)));
            assert!(reader.is_canonical(&hash(number, 0)).unwrap());
            assert_eq!(reader.summary(&hash(number, 0)).unwrap(), Some(facts.summary));
            for tx in &facts.txs {
                let place = reader.transaction(&tx.hash).unwrap().unwrap();
                assert_eq!((place.block, place.index), (facts.summary.block, tx.index));
                assert!(place.canonical);
            }
            for (code_hash, code) in codes.iter() {
                assert_eq!(reader.code(code_hash).unwrap().as_ref(), Some(code));
            }
            assert_eq!(reader.facts(&hash(number, 0)).unwrap(), Some(facts));
        }
        assert_eq!(reader.range().unwrap(), Some((block_ref(10, 0), block_ref(40, 0))));
        let report = reader.verify(|_| {}).unwrap();
        assert_eq!(report.problems, vec![]);
        assert_eq!((report.blocks, report.canonical_blocks, report.transactions), (31, 31, 155));
        let stats = reader.stats().unwrap();
        assert_eq!((stats.blocks, stats.canonical_blocks, stats.transactions), (31, 31, 155));
        assert_eq!(stats.codes, report.codes);
    };
    check(&reader);
    let path = folder.path().join("archive");
    drop((writer, reader));
    let (_writer, reader) = Archive::open(&path, chain::chain_id(), &options()).unwrap();
    check(&reader);
}

#[test]
fn a_dropped_batch_leaves_nothing() {
    let (_folder, mut writer, reader) = fresh();
    let (facts, codes) = plain(1);
    let mut batch = writer.batch().unwrap();
    batch.append(&EncodedBlock::of_facts(&facts).unwrap(), &codes, true).unwrap();
    drop(batch);
    assert_eq!(reader.stats().unwrap().blocks, 0);
    assert_eq!(writer.append(&facts, &codes, true).unwrap(), Appended::Stored);
    assert_eq!(reader.stats().unwrap().blocks, 1);
}

#[test]
fn appending_again_changes_nothing() {
    let (_folder, mut writer, reader) = fresh();
    let (facts, codes) = plain(1);
    assert_eq!(writer.append(&facts, &codes, true).unwrap(), Appended::Stored);
    let before = reader.stats().unwrap();
    assert_eq!(writer.append(&facts, &Codes::default(), true).unwrap(), Appended::Known);
    // Not asked to be canonical, it stays so.
    assert_eq!(writer.append(&facts, &Codes::default(), false).unwrap(), Appended::Known);
    let after = reader.stats().unwrap();
    assert_eq!((after.blocks, after.facts_bytes), (before.blocks, before.facts_bytes));
    assert_eq!(after.transactions, before.transactions);
    assert!(reader.is_canonical(&facts.summary.block.hash).unwrap());
}

#[test]
fn facts_replace_a_block_diff_and_not_the_other_way() {
    let (_folder, mut writer, reader) = fresh();
    let (facts, codes) = plain(1);
    let whole = BlockDiff { summary: facts.summary, diff: facts.fold() };
    let mut batch = writer.batch().unwrap();
    let encoded = EncodedBlock::of_block_diff(&whole).unwrap();
    assert_eq!(batch.append(&encoded, &codes, true).unwrap(), Appended::Stored);
    batch.commit().unwrap();
    let hash = facts.summary.block.hash;
    assert_eq!(reader.facts(&hash).unwrap(), None);
    assert_eq!(reader.block(&hash).unwrap(), Some(KeptBlock::DiffOnly(whole)));
    assert_eq!(reader.transaction(&facts.txs[0].hash).unwrap(), None);

    assert_eq!(writer.append(&facts, &codes, true).unwrap(), Appended::Completed);
    assert_eq!(reader.facts(&hash).unwrap().as_ref(), Some(&facts));
    let mut batch = writer.batch().unwrap();
    assert_eq!(batch.append(&encoded, &codes, true).unwrap(), Appended::Known);
    batch.commit().unwrap();
    assert_eq!(reader.block(&hash).unwrap(), Some(KeptBlock::Facts(facts)));
    assert!(reader.verify(|_| {}).unwrap().is_clean());
    assert_eq!(reader.stats().unwrap().blocks, 1);
}

#[test]
fn an_unknown_code_is_refused_and_the_batch_goes_on() {
    let (_folder, mut writer, reader) = fresh();
    let (facts, codes) = plain(1);
    let encoded = EncodedBlock::of_facts(&facts).unwrap();
    let mut batch = writer.batch().unwrap();
    let error = batch.append(&encoded, &Codes::default(), true).unwrap_err();
    assert!(matches!(error, WriteError::MissingCode { block, .. } if block == facts.summary.block));
    batch.append(&encoded, &codes, true).unwrap();
    batch.commit().unwrap();
    assert_eq!(reader.stats().unwrap().blocks, 1);
}

#[test]
fn a_reorg_moves_the_numbers_and_keeps_the_blocks() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=10);
    // 8, 9 and 10 leave; 8', 9' come.
    let mut batch = writer.batch().unwrap();
    let dropped = batch.revert_to(&block_ref(7, 0)).unwrap();
    assert_eq!(dropped, vec![block_ref(8, 0), block_ref(9, 0), block_ref(10, 0)]);
    for (number, parent) in [(8, 0), (9, 1)] {
        let (facts, codes) = block(number, 1, parent, 5);
        batch.append(&EncodedBlock::of_facts(&facts).unwrap(), &codes, true).unwrap();
    }
    batch.commit().unwrap();
    assert_eq!(reader.range().unwrap().unwrap().1, block_ref(9, 1));
    assert_eq!(reader.canonical_hash(8).unwrap(), Some(hash(8, 1)));
    assert_eq!(reader.canonical_hash(10).unwrap(), None);
    assert_eq!(reader.facts(&hash(10, 0)).unwrap(), Some(plain(10).0));
    assert!(!reader.is_canonical(&hash(8, 0)).unwrap());
    // Both siblings hold the same transactions: the canonical place is told.
    let place = reader.transaction(&plain(8).0.txs[2].hash).unwrap().unwrap();
    assert_eq!((place.block, place.canonical), (block_ref(8, 1), true));
    let place = reader.transaction(&plain(10).0.txs[2].hash).unwrap().unwrap();
    assert_eq!((place.block, place.canonical), (block_ref(10, 0), false));
    // And back, without the facts.
    let mut batch = writer.batch().unwrap();
    batch.revert_from(8).unwrap();
    for number in 8..=10 {
        batch.set_canonical(&hash(number, 0)).unwrap();
    }
    batch.commit().unwrap();
    assert_eq!(reader.range().unwrap().unwrap().1, block_ref(10, 0));
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn what_does_not_fit_the_chain_is_refused() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 5..=7);
    let try_append = |writer: &mut ArchiveWriter, number, fork, parent| {
        let (facts, codes) = block(number, fork, parent, 1);
        writer.append(&facts, &codes, true).unwrap_err()
    };
    assert!(matches!(try_append(&mut writer, 7, 1, 0), WriteError::Occupied { .. }));
    assert!(matches!(try_append(&mut writer, 8, 1, 1), WriteError::ParentMismatch { .. }));
    assert!(matches!(try_append(&mut writer, 4, 1, 1), WriteError::ChildMismatch { .. }));
    let unknown = writer.set_canonical(&hash(99, 0)).unwrap_err();
    assert!(matches!(unknown, WriteError::UnknownBlock { .. }));
    let error = writer.revert_to(&block_ref(6, 1)).unwrap_err();
    assert!(matches!(error, WriteError::NotCanonical { .. }));
    assert_eq!(reader.stats().unwrap().blocks, 3);
    // A fitting one below and one beyond a gap are welcome.
    append_plain(&mut writer, 4..=4);
    append_plain(&mut writer, 12..=13);
    assert_eq!(reader.gaps(0..=15).unwrap(), vec![0..=3, 8..=11, 14..=15]);
    append_plain(&mut writer, 8..=11);
    assert_eq!(reader.gaps(4..=13).unwrap(), vec![]);
    let blocks = reader.canonical_blocks(6..=20, 3).unwrap();
    assert_eq!(blocks, vec![block_ref(6, 0), block_ref(7, 0), block_ref(8, 0)]);
}

#[test]
fn pruning_by_blocks_takes_the_lowest_with_their_siblings() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=200);
    let (sibling, codes) = block(3, 1, 0, 5);
    writer.append(&sibling, &codes, false).unwrap();
    assert_eq!(writer.prune(Retention::Forever).unwrap().blocks, 0);
    let report = writer.prune(Retention::Blocks(80)).unwrap();
    assert_eq!(report.blocks, 121);
    assert_eq!(reader.range().unwrap(), Some((block_ref(121, 0), block_ref(200, 0))));
    assert_eq!(reader.facts(&hash(120, 0)).unwrap(), None);
    assert_eq!(reader.facts(&hash(3, 1)).unwrap(), None);
    assert_eq!(reader.transaction(&plain(120).0.txs[0].hash).unwrap(), None);
    assert_eq!(reader.stats().unwrap().blocks, 80);
    assert_eq!(writer.prune(Retention::Blocks(80)).unwrap().blocks, 0);
    // Never less than what a reorg may need.
    writer.prune(Retention::Blocks(1)).unwrap();
    assert_eq!(reader.stats().unwrap().blocks, MIN_KEPT_BLOCKS);
    let report = reader.verify(|_| {}).unwrap();
    assert_eq!(report.problems, vec![]);
}

#[test]
fn pruning_by_bytes_stops_where_the_rest_fits() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=200);
    let full = reader.stats().unwrap().facts_bytes;
    let report = writer.prune(Retention::Bytes(full / 2)).unwrap();
    let kept = reader.stats().unwrap();
    assert_eq!(kept.facts_bytes + report.bytes, full);
    assert!(kept.facts_bytes <= full / 2);
    // One block more would not have fitted.
    let largest = full / 200 * 3;
    assert!(kept.facts_bytes + largest > full / 2);
    assert_eq!(kept.blocks + report.blocks, 200);
}

#[test]
fn an_era_of_the_index_goes_with_its_last_block() {
    let (_folder, mut writer, reader) = fresh();
    // 8,192 is where the third era starts.
    append_plain(&mut writer, 8150..=8260);
    for number in [8150, 8191, 8192, 8260] {
        let tx = plain(number).0.txs[4].hash;
        assert_eq!(reader.transaction(&tx).unwrap().unwrap().block, block_ref(number, 0));
    }
    writer.prune(Retention::Blocks(64)).unwrap();
    assert_eq!(reader.transaction(&plain(8191).0.txs[4].hash).unwrap(), None);
    let tx = plain(8260).0.txs[4].hash;
    assert_eq!(reader.transaction(&tx).unwrap().unwrap().block, block_ref(8260, 0));
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn swept_codes_are_those_nobody_speaks_of() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=100);
    let (mut facts, mut codes) = plain(101);
    let odd = keccak256([1, 2, 3]);
    codes.insert(odd, vec![1, 2, 3].into());
    let mut accounts = facts.post_system.into_accounts();
    accounts[0].1.post.as_mut().unwrap().code_hash = odd;
    facts.post_system = prestate_types::StateDiff::from_unsorted(accounts);
    writer.append(&facts, &codes, true).unwrap();
    assert_eq!(writer.sweep_codes().unwrap().codes, 0);
    append_plain(&mut writer, 102..=200);
    writer.prune(Retention::Blocks(99)).unwrap();
    assert!(reader.code(&odd).unwrap().is_some());
    assert_eq!(writer.sweep_codes().unwrap().codes, 1);
    assert_eq!(reader.code(&odd).unwrap(), None);
    assert!(reader.verify(|_| {}).unwrap().is_clean());
}

#[test]
fn compacting_gives_pruned_space_back() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=600);
    writer.prune(Retention::Blocks(100)).unwrap();
    let report = writer.compact().unwrap();
    assert!(report.bytes_after < report.bytes_before, "{report:?}");
    assert!(writer.check_engine().unwrap());
    assert!(reader.verify(|_| {}).unwrap().is_clean());
    assert_eq!(reader.facts(&hash(600, 0)).unwrap(), Some(plain(600).0));
}

#[test]
fn many_threads_read_while_one_writes() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 0..=0);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|seed| {
                let (reader, done) = (reader.clone(), &done);
                scope.spawn(move || {
                    let mut random = chain::Random::new(seed);
                    let mut read = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) || read == 0 {
                        let (_, tip) = reader.range().unwrap().unwrap();
                        let number = random.below(tip.number + 1);
                        let Some(hash) = reader.canonical_hash(number).unwrap() else { continue };
                        // Pruned meanwhile is fine; anything else is not.
                        if let Some(facts) = reader.facts(&hash).unwrap() {
                            assert_eq!(facts, plain(number).0);
                            read += 1;
                        }
                    }
                    read
                })
            })
            .collect();
        for number in 1..=150 {
            append_plain(&mut writer, number..=number);
            if number % 50 == 0 {
                writer.prune(Retention::Blocks(64)).unwrap();
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

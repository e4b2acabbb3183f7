//! Export and import.

use crate::{
    basics::{append_plain, fresh, options},
    chain::{self, block, block_ref, hash, plain},
};
use alloy_primitives::keccak256;
use prestate_store::{Archive, ChainId, ExportError, ImportError, WriteError};

#[test]
fn a_segment_makes_the_same_archive() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=50);
    let (sibling, codes) = block(20, 1, 0, 2);
    writer.append(&sibling, &codes, false).unwrap();
    let mut segment = Vec::new();
    let info = reader.export(5..=40, &mut segment).unwrap();
    assert_eq!((info.first, info.last, info.blocks), (block_ref(5, 0), block_ref(40, 0), 36));
    assert_eq!(info.bytes, segment.len() as u64);
    assert_eq!(info.digest, keccak256(&segment[..segment.len() - 32]));

    let (_other, mut writer, copy) = fresh();
    let report = writer.import(&segment[..]).unwrap();
    assert_eq!((report.blocks, report.stored, report.codes), (36, 36, info.codes));
    assert_eq!(report.digest, info.digest);
    for number in 5..=40 {
        assert_eq!(copy.facts(&hash(number, 0)).unwrap(), Some(plain(number).0));
    }
    assert!(copy.verify(|_| {}).unwrap().is_clean());
    // Equal stretches make equal bytes.
    let mut again = Vec::new();
    copy.export(5..=40, &mut again).unwrap();
    assert!(again == segment);
    let report = writer.import(&segment[..]).unwrap();
    assert_eq!((report.blocks, report.stored), (36, 0));
}

#[test]
fn every_cut_and_flipped_byte_is_noticed_and_nothing_broken_stays() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=3);
    let mut good = Vec::new();
    reader.export(1..=3, &mut good).unwrap();
    let step = good.len() / 97 + 1;
    for at in (0..good.len()).step_by(step) {
        let (_other, mut writer, copy) = fresh();
        writer.import(&good[..at]).unwrap_err();
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        writer.import(&bad[..]).unwrap_err();
        assert!(copy.verify(|_| {}).unwrap().is_clean());
    }
}

#[test]
fn gaps_and_strangers_are_refused() {
    let (_folder, mut writer, reader) = fresh();
    append_plain(&mut writer, 1..=3);
    append_plain(&mut writer, 6..=7);
    let error = reader.export(1..=7, std::io::sink()).unwrap_err();
    assert!(matches!(error, ExportError::Gap { number: 4 }), "{error}");
    #[expect(clippy::reversed_empty_ranges, reason = "an empty stretch is the case")]
    let error = reader.export(3..=1, std::io::sink()).unwrap_err();
    assert!(matches!(error, ExportError::Empty { .. }), "{error}");
    let mut segment = Vec::new();
    reader.export(1..=3, &mut segment).unwrap();

    let folder = tempfile::TempDir::new().unwrap();
    let other = ChainId { chain_id: 5, ..chain::chain_id() };
    let (mut stranger, _) = Archive::create(folder.path(), other, &options()).unwrap();
    let error = stranger.import(&segment[..]).unwrap_err();
    assert!(matches!(error, ImportError::OtherChain { .. }), "{error}");
    let error = stranger.import(&[b'x'; 100][..]).unwrap_err();
    assert!(matches!(error, ImportError::NotASegment), "{error}");

    // An archive on another fork does not take the block that contradicts it.
    let (_folder, mut forked, _) = fresh();
    let (facts, codes) = block(2, 1, 0, 2);
    forked.append(&facts, &codes, true).unwrap();
    let error = forked.import(&segment[..]).unwrap_err();
    assert!(
        matches!(
            error,
            ImportError::Write(WriteError::ChildMismatch { .. } | WriteError::Occupied { .. })
        ),
        "{error}"
    );
}

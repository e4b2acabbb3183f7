use super::{
    record::{KIND_BLOCK_DIFF, KIND_CODE, KIND_FACTS, Record, Sections, seal},
    strategy, *,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_facts_come_back(facts in strategy::facts()) {
        let encoded = EncodedBlock::of_facts(&facts).unwrap();
        let hashes: Vec<_> = facts.txs.iter().map(|tx| tx.hash).collect();
        prop_assert_eq!(tx_hashes(encoded.record()).unwrap(), hashes);
        prop_assert_eq!(code_hashes(encoded.record()).unwrap(), encoded.code_hashes());
        let taken = EncodedBlock::of_record(encoded.record().to_vec()).unwrap();
        prop_assert_eq!(taken.code_hashes(), encoded.code_hashes());
        prop_assert_eq!(decode_block(encoded.record()), Ok(KeptBlock::Facts(facts)));
    }

    #[test]
    fn any_block_diff_comes_back(block in strategy::block_diff()) {
        let encoded = EncodedBlock::of_block_diff(&block).unwrap();
        prop_assert_eq!(decode_block(encoded.record()), Ok(KeptBlock::DiffOnly(block)));
    }

    #[test]
    fn the_code_list_is_what_the_block_speaks_of(facts in strategy::facts()) {
        let encoded = EncodedBlock::of_facts(&facts).unwrap();
        let mut listed = encoded.code_hashes().to_vec();
        listed.sort_unstable();
        let diffs = std::iter::once(&facts.pre_system)
            .chain(facts.txs.iter().map(|tx| &tx.diff))
            .chain(std::iter::once(&facts.post_system));
        let spoken: std::collections::BTreeSet<_> = diffs
            .flatten()
            .flat_map(|(_, delta)| delta.pre.iter().chain(&delta.post))
            .filter(|info| info.has_code())
            .map(|info| info.code_hash)
            .collect();
        prop_assert_eq!(listed, spoken.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn any_code_comes_back(code in prop::collection::vec(0u8..8, 0..5000)) {
        prop_assert_eq!(decode_code(&encode_code(&code).unwrap()), Ok(code));
    }

    /// The checksum holds and the contents are anything: refused or read, never a panic.
    #[test]
    fn any_contents_under_a_good_checksum_are_survived(
        plain in prop::collection::vec(any::<u8>(), 0..200),
        shape in prop::collection::vec(0u8..40, 0..300),
        words in prop::collection::vec(any::<u8>(), 0..500),
        kind in prop::sample::select(vec![KIND_FACTS, KIND_BLOCK_DIFF, KIND_CODE, 9]),
        tx_count in 0usize..8,
    ) {
        let record = seal(kind, tx_count, &Sections { plain, shape, words }).unwrap();
        let _ = decode_block(&record);
        let _ = tx_hashes(&record);
        let _ = decode_code(&record);
    }

    /// A good block with one byte of one section changed and the checksum made to fit.
    #[test]
    fn a_mutated_block_is_survived(
        facts in strategy::facts(),
        section in 0..3,
        at: prop::sample::Index,
        byte: u8,
    ) {
        let good = EncodedBlock::of_facts(&facts).unwrap();
        let record = Record::open(good.record()).unwrap();
        let mut sections = Sections {
            plain: record.plain.to_vec(),
            shape: record.shape().unwrap(),
            words: record.words().unwrap(),
        };
        let target = match section {
            0 => &mut sections.plain,
            1 => &mut sections.shape,
            _ => &mut sections.words,
        };
        if !target.is_empty() {
            let at = at.index(target.len());
            target[at] = byte;
        }
        let _ = decode_block(&seal(KIND_FACTS, record.tx_count, &sections).unwrap());
    }
}

#[test]
fn a_code_is_no_block() {
    let code = encode_code(&[1, 2, 3]).unwrap();
    let wrong = RecordError::Kind { found: KIND_CODE, expected: KIND_FACTS };
    assert_eq!(decode_block(&code), Err(wrong));
}

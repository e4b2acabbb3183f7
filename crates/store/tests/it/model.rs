//! Random reorgs against a plain model.

use crate::{
    basics::options,
    chain::{self, block, block_ref, hash},
};
use prestate_store::{Archive, ArchiveReader, ArchiveWriter, WriteError};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tempfile::TempDir;

const HEIGHTS: u64 = 9;
const FORKS: u64 = 3;

#[derive(Debug, Clone)]
enum Step {
    Append { number: u64, fork: u64, canonical: bool },
    SetCanonical { number: u64, fork: u64 },
    RevertTo { number: u64, fork: u64 },
    RevertFrom { number: u64 },
    Reopen,
}

/// Forks branch off each other here and there.
fn parent_fork(number: u64, fork: u64) -> u64 {
    if (number + fork).is_multiple_of(3) { fork.saturating_sub(1) } else { fork }
}

#[derive(Debug, Default)]
struct Model {
    held: BTreeSet<(u64, u64)>,
    canonical: BTreeMap<u64, u64>,
}

/// What may be wrong with a step.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Occupied,
    Parent,
    Child,
    Unknown,
    NotCanonical,
}

impl Model {
    fn link(&mut self, number: u64, fork: u64) -> Result<(), Wrong> {
        match self.canonical.get(&number) {
            Some(canonical) if *canonical == fork => return Ok(()),
            Some(_) => return Err(Wrong::Occupied),
            None => {}
        }
        let below = number.checked_sub(1).and_then(|below| self.canonical.get(&below));
        if below.is_some_and(|below| *below != parent_fork(number, fork)) {
            return Err(Wrong::Parent);
        }
        let above = self.canonical.get(&(number + 1));
        if above.is_some_and(|above| parent_fork(number + 1, *above) != fork) {
            return Err(Wrong::Child);
        }
        self.canonical.insert(number, fork);
        Ok(())
    }

    fn apply(&mut self, step: &Step) -> Result<(), Wrong> {
        match *step {
            Step::Append { number, fork, canonical } => {
                if canonical {
                    self.link(number, fork)?;
                }
                self.held.insert((number, fork));
                Ok(())
            }
            Step::SetCanonical { number, fork } if self.held.contains(&(number, fork)) => {
                self.link(number, fork)
            }
            Step::SetCanonical { .. } => Err(Wrong::Unknown),
            Step::RevertTo { number, fork } => {
                if self.canonical.get(&number) != Some(&fork) {
                    return Err(Wrong::NotCanonical);
                }
                self.canonical.split_off(&(number + 1));
                Ok(())
            }
            Step::RevertFrom { number } => {
                self.canonical.split_off(&number);
                Ok(())
            }
            Step::Reopen => Ok(()),
        }
    }
}

fn apply(writer: &mut ArchiveWriter, step: &Step) -> Result<(), WriteError> {
    match *step {
        Step::Append { number, fork, canonical } => {
            let (facts, codes) = block(number, fork, parent_fork(number, fork), 1);
            writer.append(&facts, &codes, canonical).map(drop)
        }
        Step::SetCanonical { number, fork } => writer.set_canonical(&hash(number, fork)),
        Step::RevertTo { number, fork } => writer.revert_to(&block_ref(number, fork)).map(drop),
        Step::RevertFrom { number } => {
            let mut batch = writer.batch()?;
            batch.revert_from(number)?;
            batch.commit()
        }
        Step::Reopen => Ok(()),
    }
}

fn wrong(error: WriteError) -> Wrong {
    match error {
        WriteError::Occupied { .. } => Wrong::Occupied,
        WriteError::ParentMismatch { .. } => Wrong::Parent,
        WriteError::ChildMismatch { .. } => Wrong::Child,
        WriteError::UnknownBlock { .. } => Wrong::Unknown,
        WriteError::NotCanonical { .. } => Wrong::NotCanonical,
        other => panic!("{other}"),
    }
}

fn check(reader: &ArchiveReader, model: &Model) {
    let expected: Vec<_> =
        model.canonical.iter().map(|(number, fork)| block_ref(*number, *fork)).collect();
    assert_eq!(reader.canonical_blocks(0..=u64::MAX, usize::MAX).unwrap(), expected);
    assert_eq!(reader.stats().unwrap().blocks, model.held.len() as u64);
    for number in 0..HEIGHTS {
        for fork in 0..FORKS {
            let held = model.held.contains(&(number, fork));
            let summary = reader.summary(&hash(number, fork)).unwrap();
            assert_eq!(summary.is_some(), held);
            let canonical = model.canonical.get(&number) == Some(&fork);
            assert_eq!(reader.is_canonical(&hash(number, fork)).unwrap(), canonical);
        }
        // All forks hold the same transaction.
        let tx = block(number, 0, 0, 1).0.txs[0].hash;
        let place = reader.transaction(&tx).unwrap();
        assert_eq!(place.is_some(), model.held.range((number, 0)..(number + 1, 0)).count() > 0);
        if let Some(fork) = model.canonical.get(&number) {
            assert_eq!(place.unwrap().block, block_ref(number, *fork));
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0..HEIGHTS, 0..FORKS);
    prop_oneof![
        8 => (place.clone(), any::<bool>()).prop_map(|((number, fork), canonical)| Step::Append {
            number,
            fork,
            canonical
        }),
        4 => place.clone().prop_map(|(number, fork)| Step::SetCanonical { number, fork }),
        2 => place.prop_map(|(number, fork)| Step::RevertTo { number, fork }),
        1 => (0..HEIGHTS).prop_map(|number| Step::RevertFrom { number }),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_archive_equals_the_model(steps in prop::collection::vec(step(), 1..50)) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("archive");
        let open = || Archive::open_or_create(&path, chain::chain_id(), &options()).unwrap();
        let (mut writer, mut reader) = open();
        let mut model = Model::default();
        for step in &steps {
            if let Step::Reopen = step {
                drop((writer, reader));
                (writer, reader) = open();
            }
            let expected = model.apply(step);
            prop_assert_eq!(apply(&mut writer, step).map_err(wrong), expected);
        }
        check(&reader, &model);
        let report = reader.verify(|_| {}).unwrap();
        prop_assert_eq!(report.problems, vec![]);
    }
}

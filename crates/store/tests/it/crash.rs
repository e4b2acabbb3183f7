//! A writer killed at random moments.
//!
//! `PRESTATE_CRASH_KILLS` sets the number of kills; 20 by default.

use crate::{
    basics::options,
    chain::{self, Random, block, block_ref, hash},
};
use prestate_store::{Archive, ArchiveReader, EncodedBlock, OpenError, Retention};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const CHILD: &str = "PRESTATE_CRASH_CHILD";
const MODEL: &str = "PRESTATE_CRASH_MODEL";
const SEED: &str = "PRESTATE_CRASH_SEED";

/// Canonical chain as it must be: height -> fork. Heights below the lowest were pruned.
type Model = BTreeMap<u64, u64>;

/// One batch of the child, as a line of its output.
#[derive(Debug, Clone)]
enum Step {
    /// Drop heights from `from` on, then append `count` blocks of `fork`.
    Chain {
        from: u64,
        count: u64,
        fork: u64,
    },
    Prune {
        keep: u64,
    },
}

impl Step {
    fn random(model: &Model, random: &mut Random) -> Self {
        let tip = model.last_key_value().map_or(0, |(number, _)| *number);
        let fork = random.next();
        match random.below(10) {
            0 if model.len() > 100 => Self::Prune { keep: 64 + random.below(40) },
            1 | 2 if model.len() > 8 => {
                let from = tip - random.below(6);
                Self::Chain { from, count: 1 + random.below(7), fork }
            }
            _ => Self::Chain { from: tip + 1, count: 1 + random.below(4), fork },
        }
    }

    fn apply(&self, model: &mut Model) {
        match *self {
            Self::Chain { from, count, fork } => {
                model.split_off(&from);
                model.extend((from..from + count).map(|number| (number, fork)));
            }
            Self::Prune { keep } => {
                let tip = *model.last_key_value().unwrap().0;
                *model = model.split_off(&(tip + 1).saturating_sub(keep));
            }
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Chain { from, count, fork } => format!("chain {from} {count} {fork}"),
            Self::Prune { keep } => format!("prune {keep} 0 0"),
        }
    }

    fn parse(words: &[&str]) -> Option<Self> {
        let number = |at: usize| words.get(at)?.parse().ok();
        Some(match *words.first()? {
            "chain" => Self::Chain { from: number(1)?, count: number(2)?, fork: number(3)? },
            "prune" => Self::Prune { keep: number(1)? },
            _ => return None,
        })
    }
}

/// Appends, reorganises and prunes until killed. Says what it is about to commit, and what it has.
fn child(folder: &Path, seed: u64) -> ! {
    let (mut writer, _reader) =
        Archive::open_or_create(folder, chain::chain_id(), &options()).unwrap();
    let mut random = Random::new(seed);
    let mut out = std::io::stdout();
    let mut model = parse_model(&std::env::var(MODEL).unwrap());
    loop {
        let step = Step::random(&model, &mut random);
        writeln!(out, "try {}", step.line()).unwrap();
        out.flush().unwrap();
        match step {
            Step::Chain { from, count, fork } => {
                let mut batch = writer.batch().unwrap();
                batch.revert_from(from).unwrap();
                for number in from..from + count {
                    let parent = if number == from {
                        number.checked_sub(1).and_then(|below| model.get(&below)).copied()
                    } else {
                        Some(fork)
                    };
                    let (facts, codes) = block(number, fork, parent.unwrap_or(0), 4);
                    let encoded = EncodedBlock::of_facts(&facts).unwrap();
                    batch.append(&encoded, &codes, true).unwrap();
                }
                batch.commit().unwrap();
            }
            Step::Prune { keep } => {
                let mut report = Default::default();
                while writer.prune_step(Retention::Blocks(keep), &mut report).unwrap() {}
            }
        }
        step.apply(&mut model);
        writeln!(out, "ack {}", step.line()).unwrap();
        out.flush().unwrap();
    }
}

fn parse_model(line: &str) -> Model {
    line.split_whitespace()
        .map(|pair| pair.split_once(':').unwrap())
        .map(|(number, fork)| (number.parse().unwrap(), fork.parse().unwrap()))
        .collect()
}

/// Whether the archive is what the model says.
fn matches(reader: &ArchiveReader, model: &Model) -> bool {
    let held = reader.canonical_blocks(0..=u64::MAX, usize::MAX).unwrap();
    let expected: Vec<_> = model.iter().map(|(number, fork)| block_ref(*number, *fork)).collect();
    held == expected
}

#[test]
fn killed_writers_lose_nothing() {
    if let Some(folder) = std::env::var_os(CHILD) {
        child(Path::new(&folder), std::env::var(SEED).unwrap().parse().unwrap());
    }
    let kills: u64 =
        std::env::var("PRESTATE_CRASH_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("archive");
    let mut model = Model::new();
    let mut random = Random::new(kills);
    let (mut acknowledged, mut half_way) = (0, 0);
    for kill in 0..kills {
        let line: Vec<_> = model.iter().map(|(number, fork)| format!("{number}:{fork}")).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::killed_writers_lose_nothing", "--exact", "--nocapture"])
            .env(CHILD, &path)
            .env(SEED, (kill + 1).to_string())
            .env(MODEL, line.join(" "))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The clock starts at the first commit, so that every kill hits a working writer.
        let mut tried = None;
        let mut take = |line: String, model: &mut Model| {
            let words: Vec<_> = line.split_whitespace().collect();
            match words.split_first() {
                Some((&"try", rest)) => tried = Step::parse(rest),
                Some((&"ack", rest)) => {
                    Step::parse(rest).unwrap().apply(model);
                    acknowledged += 1;
                    tried = None;
                }
                _ => {}
            }
        };
        while let Some(Ok(line)) = lines.next() {
            let first = line.starts_with("ack");
            take(line, &mut model);
            if first {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts.
        for line in lines.map_while(Result::ok) {
            take(line, &mut model);
        }
        // A reader may not put right what the dead writer left open, and says so.
        let error = Archive::open_read_only(&path, &options()).unwrap_err();
        assert!(matches!(error, OpenError::NeedsWriter { .. }), "{error}");
        let (writer, reader) = Archive::open(&path, chain::chain_id(), &options()).unwrap();
        if !matches(&reader, &model) {
            // The step it was in may have been committed, whole.
            let step = tried.unwrap();
            half_way += 1;
            let mut after = model.clone();
            step.apply(&mut after);
            if let Step::Prune { .. } = step {
                // Pruning goes in several batches: it may have got to any point.
                let (first, _) = reader.range().unwrap().unwrap();
                assert!(first.number <= *after.first_key_value().unwrap().0);
                after = model.split_off(&first.number);
            }
            model = after;
            assert!(matches(&reader, &model), "kill {kill}: neither before nor after {step:?}");
        }
        let report = reader.verify(|_| {}).unwrap();
        assert_eq!(report.problems, vec![], "kill {kill}");
        for (number, fork) in model.iter().rev().take(10) {
            let parent = number.checked_sub(1).and_then(|below| model.get(&below));
            let facts = reader.facts(&hash(*number, *fork)).unwrap().unwrap();
            let (expected, codes) = block(*number, *fork, parent.copied().unwrap_or(0), 4);
            assert_eq!(facts.txs, expected.txs);
            assert!(codes.iter().all(|(hash, _)| reader.code(hash).unwrap().is_some()));
        }
        drop(writer);
    }
    assert!(acknowledged >= kills);
    println!(
        "{kills} kills, {acknowledged} acknowledged batches, {half_way} committed unsaid, 0 lost"
    );
}

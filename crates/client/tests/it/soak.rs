//! Many blocks with everything that goes wrong, for every source and objective.
//!
//! `PRESTATE_SOAK_BLOCKS` sets the length (default 100 blocks a run, 1,000 for the long form).

use crate::{
    behaviour::{config, mismatches, tested, watch},
    stub::{Gate, Habits, Stub},
};
use prestate_client::{Objective, Source};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;

const DEFAULT_BLOCKS: u64 = 100;

fn blocks() -> u64 {
    let given = std::env::var("PRESTATE_SOAK_BLOCKS").ok();
    given.map_or(DEFAULT_BLOCKS, |text| text.parse().expect("PRESTATE_SOAK_BLOCKS is a number"))
}

/// Something of everything.
fn troubled() -> Habits {
    Habits {
        prestate: true,
        items: Some(60),
        max_batch: Some(90),
        dropped: 20,
        behind: 3,
        moves: 30,
        ..Habits::default()
    }
}

struct Run {
    blocks: u64,
    compared: usize,
    wrong: usize,
    failures: u64,
    units: u64,
    sources: BTreeMap<Source, u64>,
}

async fn run(seed: u64, objective: Objective, sources: &[Source], habits: Habits) -> Run {
    let stub = Stub::start(seed, habits).await;
    stub.mine(20);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut resyncer = tested(&stub, config(objective, sources));
    watch(&mut resyncer, 10, 12);
    let (mut mirror, mut wrong) = (BTreeMap::new(), 0);
    let (mut compared, mut failures, mut used) = (0, 0, BTreeMap::new());
    let started = stub.head().at.number;
    let mut mined = 0;
    while mined < blocks() {
        let depth = match rng.random_range(0..10) {
            0 => rng.random_range(1..=8),
            _ => 0,
        };
        let ahead = if rng.random_bool(0.1) { rng.random_range(1..20) } else { 1 };
        stub.reorg(depth, depth + ahead);
        mined += (depth + ahead) as u64;
        if rng.random_bool(0.05) {
            // The namespace comes and goes.
            let gate = Gate::Error(-32601, "the method does not exist/is not available");
            let mut world = stub.world.lock();
            world.habits.gate_debug = match world.habits.gate_debug {
                Some(_) => None,
                None => Some(gate),
            };
        }
        let update = loop {
            match resyncer.sync().await {
                Ok(update) => break update,
                Err(error) => {
                    failures += 1;
                    assert!(failures < 10 * blocks(), "no end of failures: {error}");
                }
            }
        };
        for source in update.sources {
            *used.entry(source).or_default() += 1;
        }
        for change in update.changes {
            assert_eq!(mirror.insert(change.key, change.new), change.old);
        }
        wrong += mismatches(&stub, &resyncer).len();
        compared += resyncer.watched();
        wrong +=
            resyncer.values().filter(|(key, value)| mirror.get(key).copied() != *value).count();
    }
    assert!(stub.head().at.number > started);
    let units = resyncer.explain().spent.units();
    Run { blocks: mined, compared, wrong, failures, units, sources: used }
}

#[tokio::test]
async fn every_source_and_objective_stays_exact() {
    let objectives = [Objective::Latency, Objective::ComputeUnits, Objective::Completeness];
    let all: [(&str, &[Source], Habits); 5] = [
        ("all", &Source::ALL, troubled()),
        ("no prestate_*", &Source::ALL, Habits { prestate: false, ..troubled() }),
        ("reads", &[Source::Reads], troubled()),
        ("reads by number", &[Source::Reads], Habits { no_eip_1898: true, ..troubled() }),
        ("trace, reads", &[Source::Trace, Source::Reads], troubled()),
    ];
    println!(
        "{:16} {:14} {:>7} {:>9} {:>6} {:>8} {:>9}  sources",
        "offered", "objective", "blocks", "compared", "wrong", "retried", "CU"
    );
    let mut seed = 100;
    for (name, sources, habits) in all {
        for objective in objectives {
            seed += 1;
            let run = run(seed, objective, sources, habits.clone()).await;
            let Run { blocks, compared, wrong, failures, units, sources } = run;
            println!(
                "{name:16} {objective:14} {blocks:>7} {compared:>9} {wrong:>6} {failures:>8} {units:>9}  {sources:?}"
            );
            assert_eq!(wrong, 0, "{name} by {objective}");
        }
    }
}

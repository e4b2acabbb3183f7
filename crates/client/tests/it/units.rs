//! Compute units: the adaptive choice against always the same one, on the same chain.

use crate::{
    behaviour::{Tested, config, mismatches, tested},
    model::{account, slot},
    stub::{Habits, Stub},
};
use prestate_client::{Objective, Source};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Units spent to follow a chain with gaps and reorgs.
async fn spent(
    seed: u64,
    watched: u8,
    sources: &[Source],
    objective: Objective,
    habits: Habits,
) -> u64 {
    let answers_all = habits.dropped == 0;
    let stub = Stub::start(seed, habits).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(objective, sources));
    for n in 0..watched {
        resyncer.watch(account(n % 12), [slot(n / 12)]).unwrap();
    }
    synced(&mut resyncer).await;
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..60 {
        match rng.random_range(0..10) {
            0 => stub.mine(rng.random_range(2..12)),
            1 => {
                let depth = rng.random_range(1..=8);
                stub.reorg(depth, depth + rng.random_range(0..2));
            }
            _ => stub.mine(1),
        }
        synced(&mut resyncer).await;
        assert_eq!(mismatches(&stub, &resyncer), []);
    }
    let spent = resyncer.explain().spent.units();
    // What was dropped may have been paid for or not: the client says that it was.
    if answers_all {
        assert_eq!(spent, stub.world.lock().units, "as the provider counted");
    }
    spent
}

async fn synced(resyncer: &mut Tested) {
    for _ in 0..200 {
        match resyncer.sync().await {
            Ok(_) => return,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
    panic!("no end of failures");
}

const SLOTS: [u8; 8] = [1, 2, 3, 4, 6, 10, 40, 120];

/// Units by number of slots: always traces, always reads, both by units, both by latency.
async fn table(habits: &Habits) -> Vec<[u64; 4]> {
    println!("{:>6} {:>8} {:>8} {:>8} {:>8}", "slots", "trace", "reads", "by CU", "latency");
    let mut rows = Vec::new();
    for watched in SLOTS {
        let seed = u64::from(watched);
        let both: &[Source] = &[Source::Trace, Source::Reads];
        let mut row = [0; 4];
        for (units, (sources, objective)) in row.iter_mut().zip([
            (&[Source::Trace][..], Objective::ComputeUnits),
            (&[Source::Reads], Objective::ComputeUnits),
            (both, Objective::ComputeUnits),
            (both, Objective::Latency),
        ]) {
            *units = spent(seed, watched, sources, objective, habits.clone()).await;
        }
        let [trace, reads, adaptive, latency] = row;
        println!("{watched:>6} {trace:>8} {reads:>8} {adaptive:>8} {latency:>8}");
        rows.push(row);
    }
    rows
}

#[tokio::test]
async fn never_more_than_the_better_of_both() {
    for (row, watched) in table(&Habits::default()).await.iter().zip(SLOTS) {
        let [trace, reads, adaptive, _] = row;
        let best = trace.min(reads);
        assert!(adaptive * 100 <= best * 105, "{watched} slots: {adaptive} against {best}");
    }
}

/// With lost connections, refused items and a chain that moves under a request each run meets other
/// mishaps: what holds is the sum.
#[tokio::test]
async fn nor_with_a_provider_that_makes_trouble() {
    let habits = Habits {
        items: Some(60),
        max_batch: Some(90),
        dropped: 20,
        moves: 30,
        ..Habits::default()
    };
    let rows = table(&habits).await;
    let best: u64 = rows.iter().map(|[trace, reads, ..]| trace.min(reads)).sum();
    let adaptive: u64 = rows.iter().map(|[_, _, adaptive, _]| adaptive).sum();
    println!("in all {best} at best, {adaptive} by CU");
    assert!(adaptive * 100 <= best * 105, "{adaptive} against {best}");
}

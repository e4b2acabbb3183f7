//! Compute units: the adaptive choice against always the same one, on the same chain.

use crate::{
    behaviour::{config, mismatches, tested},
    model::{account, slot},
    stub::{Habits, Stub},
};
use prestate_client::{Objective, Source};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Units spent to follow a chain with gaps and reorgs.
async fn spent(seed: u64, watched: u8, sources: &[Source], objective: Objective) -> u64 {
    let stub = Stub::start(seed, Habits::default()).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(objective, sources));
    for n in 0..watched {
        resyncer.watch(account(n % 12), [slot(n / 12)]).unwrap();
    }
    resyncer.sync().await.unwrap();
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
        resyncer.sync().await.unwrap();
        assert_eq!(mismatches(&stub, &resyncer), []);
    }
    let spent = resyncer.explain().spent.units();
    assert_eq!(spent, stub.world.lock().units, "as the provider counted");
    spent
}

#[tokio::test]
async fn never_more_than_the_better_of_both() {
    println!("{:>6} {:>8} {:>8} {:>8} {:>8}", "slots", "trace", "reads", "by CU", "latency");
    for watched in [1, 2, 3, 4, 6, 10, 40, 120] {
        let seed = u64::from(watched);
        let trace = spent(seed, watched, &[Source::Trace], Objective::ComputeUnits).await;
        let reads = spent(seed, watched, &[Source::Reads], Objective::ComputeUnits).await;
        let both = [Source::Trace, Source::Reads];
        let adaptive = spent(seed, watched, &both, Objective::ComputeUnits).await;
        let latency = spent(seed, watched, &both, Objective::Latency).await;
        println!("{watched:>6} {trace:>8} {reads:>8} {adaptive:>8} {latency:>8}");
        let best = trace.min(reads);
        assert!(adaptive * 100 <= best * 105, "{watched} slots: {adaptive} against {best}");
    }
}

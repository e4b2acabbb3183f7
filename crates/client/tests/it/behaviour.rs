//! One situation at a time.

use crate::{
    model::{account, slot},
    stub::{Gate, Habits, Stub},
};
use alloy_primitives::{Address, B256};
use alloy_provider::RootProvider;
use prestate_client::{
    Availability, CostTable, Fault, Objective, Outcome, Refusal, ResyncError, Resyncer,
    ResyncerConfig, SYSTEM_CONTRACTS, Source, Update, WatchError, connect_http,
};
use std::time::Duration;

pub(crate) type Tested = Resyncer<RootProvider>;

/// Pauses as short as the machine allows: nothing here waits for a real provider.
pub(crate) fn config(objective: Objective, sources: &[Source]) -> ResyncerConfig {
    ResyncerConfig {
        objective,
        sources: sources.to_vec(),
        pause: Duration::from_micros(100),
        max_pause: Duration::from_millis(1),
        ..ResyncerConfig::default()
    }
}

/// Watches slots that traffic touches, of system contracts, and of an account that never exists.
pub(crate) fn watch(resyncer: &mut Tested, accounts: u8, slots: u8) {
    for n in 0..accounts {
        resyncer.watch(account(n), (0..slots).map(slot)).unwrap();
    }
    resyncer.watch(SYSTEM_CONTRACTS[0], [slot(3)]).unwrap();
    resyncer.watch(Address::repeat_byte(0xfe), [slot(1)]).unwrap();
}

pub(crate) fn tested(stub: &Stub, config: ResyncerConfig) -> Tested {
    Resyncer::new(connect_http(stub.url.clone()).unwrap(), config)
}

/// Slots whose value is not the chain's after the resyncer's head.
pub(crate) fn mismatches(stub: &Stub, resyncer: &Tested) -> Vec<(Address, B256)> {
    let world = stub.world.lock();
    let head = world.model.block(&resyncer.head().unwrap().hash).unwrap();
    let wrong =
        resyncer.values().filter(|(key, value)| *value != Some(head.value(key.address, key.slot)));
    wrong.map(|(key, _)| (key.address, key.slot)).collect()
}

async fn at_head(stub: &Stub, resyncer: &mut Tested) -> Update {
    let update = resyncer.sync().await.unwrap();
    assert_eq!(update.head, stub.head().at);
    assert_eq!(mismatches(stub, resyncer), []);
    update
}

#[tokio::test]
async fn first_values_then_changes_then_nothing() {
    let stub = Stub::start(1, Habits::default()).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(Objective::Latency, &Source::ALL));
    watch(&mut resyncer, 4, 8);
    let first = at_head(&stub, &mut resyncer).await;
    assert_eq!((first.from, first.changes.len()), (None, 34));
    assert!(first.changes.iter().all(|change| change.old.is_none()));
    stub.mine(1);
    let second = at_head(&stub, &mut resyncer).await;
    assert_eq!(second.from, Some(first.head));
    let third = at_head(&stub, &mut resyncer).await;
    assert_eq!((third.changes.len(), third.sources.len()), (0, 0));
    let world = stub.world.lock();
    assert_eq!(world.asked_for_identity, 0, "gzip and zstd are asked for on every request");
    assert_eq!(world.units, resyncer.explain().spent.units(), "as the provider counted");
}

#[tokio::test]
async fn a_slot_watched_later_is_read_and_one_let_go_is_forgotten() {
    let stub = Stub::start(2, Habits::default()).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(Objective::ComputeUnits, &Source::ALL));
    watch(&mut resyncer, 4, 8);
    at_head(&stub, &mut resyncer).await;
    resyncer.watch(account(5), [slot(1), slot(1), slot(2)]).unwrap();
    assert_eq!(resyncer.value(account(5), slot(1)), None);
    at_head(&stub, &mut resyncer).await;
    assert!(resyncer.value(account(5), slot(1)).is_some());
    assert!(resyncer.unwatch(account(5), slot(1)) && !resyncer.unwatch(account(5), slot(1)));
    stub.mine(3);
    let update = at_head(&stub, &mut resyncer).await;
    let of_it = |change: &prestate_client::SlotChange| {
        change.key.slot == slot(1) && change.key.address == account(5)
    };
    assert!(!update.changes.iter().any(of_it));
    assert_eq!(resyncer.watched(), 35);
}

#[tokio::test]
async fn reorgs_are_reported_by_every_source() {
    for source in Source::ALL {
        let stub = Stub::start(3, Habits { prestate: true, ..Habits::default() }).await;
        stub.mine(20);
        let mut resyncer = tested(&stub, config(Objective::Latency, &[source]));
        watch(&mut resyncer, 12, 16);
        at_head(&stub, &mut resyncer).await;
        for _ in 0..5 {
            stub.mine(1);
            at_head(&stub, &mut resyncer).await;
        }
        let dropped: Vec<_> = {
            let world = stub.world.lock();
            let head = world.model.head().at.number;
            (0..3).map(|n| world.model.at(head - n).unwrap().at).collect()
        };
        let ancestor = stub.world.lock().model.at(dropped[2].number - 1).unwrap().at;
        stub.reorg(3, 4);
        let reorg = at_head(&stub, &mut resyncer).await.reorg.unwrap();
        assert_eq!((reorg.common_ancestor, reorg.dropped), (Some(ancestor), dropped), "{source}");
        // The chain is cut and does not grow again yet.
        stub.reorg(2, 0);
        let cut = at_head(&stub, &mut resyncer).await;
        // Reads jumped over the block that is the head now.
        let expected = if source == Source::Reads { ancestor } else { cut.head };
        assert_eq!(cut.reorg.unwrap().common_ancestor, Some(expected), "{source}");
        // Deeper than anything known.
        stub.reorg(15, 17);
        let deep = at_head(&stub, &mut resyncer).await;
        if source == Source::Reads {
            assert_eq!(deep.reorg.unwrap().common_ancestor, None);
        }
        stub.mine(1);
        assert_eq!(at_head(&stub, &mut resyncer).await.reorg, None);
    }
}

#[tokio::test]
async fn completeness_reports_block_by_block() {
    let stub = Stub::start(4, Habits::default()).await;
    stub.mine(30);
    let mut resyncer = tested(&stub, config(Objective::Completeness, &Source::ALL));
    for n in 0..12 {
        resyncer.watch(account(n), (0..16).map(slot)).unwrap();
    }
    at_head(&stub, &mut resyncer).await;
    stub.mine(40);
    let update = at_head(&stub, &mut resyncer).await;
    assert_eq!(update.blocks.len(), 40);
    let world = stub.world.lock();
    for block in &update.blocks {
        let there = world.model.block(&block.block.hash).unwrap();
        for (key, value) in &block.slots {
            assert_eq!(*value, there.value(key.address, key.slot));
        }
    }
    let told: usize = update.blocks.iter().map(|block| block.slots.len()).sum();
    assert!(told > update.changes.len(), "values in between as well");
}

#[tokio::test]
async fn a_gated_namespace_is_left_alone_and_the_reason_kept() {
    let gates = [
        Gate::Error(-32601, "the method debug_traceBlockByHash does not exist/is not available"),
        Gate::Error(-32600, "debug_traceBlockByHash is not available on the Free tier"),
        Gate::Status(403),
    ];
    for gate in gates {
        let stub = Stub::start(5, Habits { gate_debug: Some(gate), ..Habits::default() }).await;
        stub.mine(20);
        let mut resyncer =
            tested(&stub, config(Objective::ComputeUnits, &[Source::Trace, Source::Reads]));
        watch(&mut resyncer, 12, 16);
        at_head(&stub, &mut resyncer).await;
        for _ in 0..20 {
            stub.mine(1);
            let update = at_head(&stub, &mut resyncer).await;
            assert!(update.sources.iter().all(|source| *source == Source::Reads));
        }
        let asked = |stub: &Stub| -> u64 {
            let calls = &stub.world.lock().calls;
            calls.iter().filter(|(method, _)| method.starts_with("debug_")).map(|(_, n)| n).sum()
        };
        assert_eq!(asked(&stub), 2, "by hash and by number, once each");
        let last = resyncer.explain().decisions.last().unwrap().clone();
        assert_eq!(last.chosen, Some(Source::Reads));
        let trace = last.candidates.iter().find(|candidate| candidate.source == Source::Trace);
        assert!(matches!(trace.unwrap().availability, Availability::Gated { .. }));
        let text = resyncer.explain().to_string();
        assert!(text.contains("gated until resync") && text.contains("only one usable"), "{text}");
    }
}

#[tokio::test]
async fn traces_by_number_where_only_those_are_offered() {
    let habits = Habits { gate_trace_by_hash: true, ..Habits::default() };
    let stub = Stub::start(6, habits).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(Objective::ComputeUnits, &[Source::Trace]));
    watch(&mut resyncer, 12, 16);
    at_head(&stub, &mut resyncer).await;
    for _ in 0..10 {
        stub.mine(2);
        at_head(&stub, &mut resyncer).await;
    }
    assert_eq!(stub.world.lock().calls["debug_traceBlockByHash"], 1);
}

#[tokio::test]
async fn refused_items_are_asked_again_in_smaller_batches() {
    for habits in [
        Habits { items: Some(7), ..Habits::default() },
        Habits { max_batch: Some(30), ..Habits::default() },
        Habits { no_eip_1898: true, items: Some(9), ..Habits::default() },
    ] {
        let stub = Stub::start(7, habits).await;
        stub.mine(20);
        let mut resyncer = tested(&stub, config(Objective::ComputeUnits, &[Source::Reads]));
        watch(&mut resyncer, 12, 16);
        at_head(&stub, &mut resyncer).await;
        stub.mine(3);
        at_head(&stub, &mut resyncer).await;
        assert!(resyncer.explain().batch_size < 100);
    }
}

#[tokio::test]
async fn where_reads_are_limited_for_good_traces_take_over() {
    let stub = Stub::start(8, Habits::default()).await;
    stub.mine(20);
    let mut resyncer = tested(&stub, config(Objective::Latency, &[Source::Trace, Source::Reads]));
    for n in 0..4 {
        resyncer.watch(account(n), (0..16).map(slot)).unwrap();
    }
    at_head(&stub, &mut resyncer).await;
    stub.world.lock().habits.always_limited = true;
    for _ in 0..20 {
        stub.mine(1);
        // Slots that a trace could not tell have to be read, and cannot: they stay cold.
        if let Err(error) = resyncer.sync().await {
            assert!(
                matches!(&error, ResyncError::Exhausted(faults) if
                matches!(faults[..], [(Source::Reads, Fault::RateLimited { .. })])),
                "{error}"
            );
            assert!(error.is_transient());
        }
        assert_eq!(resyncer.head(), Some(stub.head().at));
        let wrong = mismatches(&stub, &resyncer);
        assert!(wrong.iter().all(|(address, slot)| resyncer.value(*address, *slot).is_none()));
    }
    let decisions = resyncer.explain().decisions;
    let traced = decisions.iter().filter(|decision| {
        let done = matches!(decision.outcome, Some(Outcome::Done { .. }));
        done && decision.chosen == Some(Source::Trace)
    });
    assert!(traced.count() >= 15);
    stub.world.lock().habits.always_limited = false;
    at_head(&stub, &mut resyncer).await;
}

#[tokio::test]
async fn a_trace_that_cannot_be_is_not_believed() {
    for habits in [
        Habits { short_traces: true, ..Habits::default() },
        Habits { wrong_pre: true, ..Habits::default() },
    ] {
        let wrong_pre = habits.wrong_pre;
        let stub = Stub::start(9, habits).await;
        stub.mine(30);
        let mut resyncer =
            tested(&stub, config(Objective::Completeness, &[Source::Trace, Source::Reads]));
        watch(&mut resyncer, 12, 16);
        at_head(&stub, &mut resyncer).await;
        for _ in 0..20 {
            stub.mine(1);
            at_head(&stub, &mut resyncer).await;
        }
        let explained = resyncer.explain();
        assert_eq!(explained.doubted_mismatch > 0, wrong_pre);
        let failed = explained.decisions.iter().any(|decision| {
            matches!(&decision.outcome, Some(Outcome::Failed { reason }) if reason.contains("entries for"))
        });
        assert_eq!(failed, !wrong_pre);
    }
}

#[tokio::test]
async fn latency_learns_who_is_faster() {
    let ms = Duration::from_millis;
    for (slow, expected) in
        [("debug_traceBlockByHash", Source::Reads), ("eth_getStorageAt", Source::Trace)]
    {
        let stub = Stub::start(10, Habits::default()).await;
        stub.mine(20);
        let mut resyncer =
            tested(&stub, config(Objective::Latency, &[Source::Trace, Source::Reads]));
        resyncer.watch(account(1), (0..16).map(slot)).unwrap();
        at_head(&stub, &mut resyncer).await;
        stub.world.lock().habits.slow.insert(slow, ms(60));
        for _ in 0..40 {
            stub.mine(1);
            at_head(&stub, &mut resyncer).await;
        }
        let explained = resyncer.explain();
        let late = explained.decisions.iter().rev().take(10);
        let chosen = late.filter(|decision| decision.chosen == Some(expected)).count();
        assert!(chosen >= 8, "{expected}: {explained}");
    }
}

#[tokio::test]
async fn bad_input_is_told_apart() {
    let stub = Stub::start(11, Habits { prestate: true, ..Habits::default() }).await;
    stub.mine(3);
    let limits = ResyncerConfig { max_slots: 3, ..config(Objective::Latency, &Source::ALL) };
    let mut resyncer = tested(&stub, limits);
    resyncer.watch(account(1), [slot(1), slot(2)]).unwrap();
    let error = resyncer.watch(account(1), [slot(2), slot(3), slot(4)]).unwrap_err();
    assert_eq!(error, WatchError::TooManySlots { given: 4, limit: 3 });
    assert_eq!(resyncer.watched(), 2);

    let other = ResyncerConfig { chain_id: Some(1), ..config(Objective::Latency, &Source::ALL) };
    let error = tested(&stub, other).sync().await.unwrap_err();
    assert_eq!(error, ResyncError::OtherChain { expected: 1, given: 1337 });
    assert!(!error.is_transient());

    // A block that the server never saw: the resync call is refused, and another source repairs.
    let resync = ResyncerConfig {
        costs: CostTable::free(),
        ..config(Objective::ComputeUnits, &Source::ALL)
    };
    let mut resyncer = tested(&stub, resync);
    watch(&mut resyncer, 4, 4);
    at_head(&stub, &mut resyncer).await;
    let elsewhere = Stub::start(12, Habits { prestate: true, ..Habits::default() }).await;
    std::mem::swap(&mut stub.world.lock().model, &mut elsewhere.world.lock().model);
    stub.mine(9);
    let update = at_head(&stub, &mut resyncer).await;
    assert_eq!(update.reorg.unwrap().common_ancestor, None);

    use prestate_client::PrestateApi;
    let provider = connect_http(stub.url.clone()).unwrap();
    let request = prestate_client::ResyncRequest {
        from: prestate_client::BlockRef::new(1, B256::repeat_byte(9)).into(),
        watch: Default::default(),
        cold: Default::default(),
        to: None,
    };
    let refused = provider.prestate_resync(request).await.unwrap_err();
    assert!(matches!(Refusal::of(&refused), Some(Refusal::Other { code: -32000, .. })));
    let refused = provider.prestate_status().await.unwrap_err();
    assert!(matches!(Refusal::of(&refused), Some(Refusal::NoSuchMethod(_))));
}

#[tokio::test]
async fn nothing_there_is_an_error_and_no_hang() {
    let url = {
        let stub = Stub::start(13, Habits::default()).await;
        stub.url.clone()
    };
    let provider = connect_http(url).unwrap();
    let mut resyncer: Tested = Resyncer::new(provider, config(Objective::Latency, &Source::ALL));
    resyncer.watch(account(1), [slot(1)]).unwrap();
    let error = resyncer.sync().await.unwrap_err();
    assert!(matches!(error, ResyncError::Head(Fault::Unavailable { .. })), "{error}");
    assert!(error.is_transient());
    assert!(error.to_string().contains("refused"), "the cause is told: {error}");
}

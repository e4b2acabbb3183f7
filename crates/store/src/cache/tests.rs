use super::*;
use bytes::Bytes;
use prestate_wire::{CodeTable, Encoding, RopeBuilder};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};
use tokio::sync::oneshot;

type Cache = ReplyCache<&'static str>;

fn key(number: u8) -> ReplyKey {
    ReplyKey { block_hash: B256::with_last_byte(number), view: "test", options: "".into() }
}

fn text(length: usize) -> Rope {
    Bytes::from(vec![b'x'; length]).into()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

const MS: Duration = Duration::from_millis(1);

/// A reply of some text of its own and some codes.
fn reply(table: &CodeTable, length: usize, codes: &BTreeSet<u8>) -> Rope {
    let mut builder = RopeBuilder::new();
    builder.push_rope(&text(length));
    for code in codes {
        builder.push_code(table.intern(&B256::with_last_byte(*code), &[*code; 500]));
    }
    builder.finish()
}

#[test]
fn what_goes_in_comes_out() {
    let cache = Cache::new(1 << 20);
    assert!(cache.get(&key(1)).is_none());
    cache.insert(key(1), text(1000), MS);
    assert_eq!(cache.get(&key(1)).unwrap().len(), 1000);
    let other = ReplyKey { options: "other".into(), ..key(1) };
    assert!(cache.get(&other).is_none());
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.hits, stats.misses), (1, 1, 2));
    cache.clear();
    assert_eq!((cache.stats().entries, cache.stats().bytes()), (0, 0));
}

#[test]
fn what_is_asked_for_most_is_kept_in_one_piece_within_the_budget() {
    let (cache, table) = (Cache::new(1 << 24), CodeTable::new());
    let codes: BTreeSet<u8> = (0..40).collect();
    let body = |key: &ReplyKey| {
        let reply = cache.get(key).unwrap();
        let body = prestate_wire::splice(b"[", &[reply], b"", b"]", Encoding::Gzip);
        (body.chunks().count(), body.to_vec())
    };
    for number in [1, 2, 3] {
        let made = reply(&table, 100_000, &codes);
        made.prepare(Encoding::Gzip);
        cache.insert(key(number), made, MS);
    }
    let (pieces, bytes) = body(&key(1));
    assert!(pieces > 40, "{pieces}");
    let apart = cache.stats().owned_bytes;
    for _ in 0..20 {
        cache.get(&key(1));
        cache.get(&key(2));
    }
    cache.get(&key(1));
    // Room for one: the one asked for most.
    let one = cache.get(&key(1)).unwrap().deflated_len();
    cache.join_hottest(16, one);
    assert_eq!(body(&key(1)), (3, bytes.clone()));
    assert_eq!(body(&key(2)), (pieces, bytes.clone()));
    assert_eq!(cache.stats().owned_bytes, apart + one);
    for _ in 0..20 {
        cache.get(&key(2));
    }
    cache.join_hottest(16, 10 * one);
    assert_eq!((body(&key(1)), body(&key(2))), ((pieces, bytes.clone()), (3, bytes.clone())));
    cache.join_hottest(16, 10 * one);
    assert_eq!(body(&key(2)), (pieces, bytes));
    assert_eq!(cache.stats().owned_bytes, apart);
}

#[test]
fn a_reply_larger_than_the_cache_drops_nothing() {
    let cache = Cache::new(10_000);
    cache.insert(key(1), text(1000), MS);
    cache.insert(key(2), text(20_000), MS);
    assert!(cache.get(&key(1)).is_some() && cache.get(&key(2)).is_none());
    assert_eq!((cache.stats().oversized, cache.stats().evictions), (1, 0));
}

#[test]
fn a_compressed_form_made_later_is_counted() {
    let table = CodeTable::new();
    let cache = Cache::new(1 << 20);
    let shown = reply(&table, 5000, &[1, 2].into());
    cache.insert(key(1), shown.clone(), MS);
    let before = cache.stats();
    shown.prepare(Encoding::Gzip);
    cache.get(&key(1)).unwrap();
    let owned = cache.kept.lock().bytes();
    let codes: u64 = shown.codes().map(|code| code.memory_bytes()).sum();
    assert_eq!(owned, shown.owned_bytes() + codes);
    assert!(cache.stats().bytes() > before.bytes());
}

proptest! {
    /// Whatever happens, the books are those of the replies kept: own bytes, and each code once.
    #[test]
    fn the_books_are_right(steps in prop::collection::vec(
        (0u8..6, 0usize..4000, prop::collection::btree_set(0u8..6, 0..5), any::<bool>()), 1..60,
    )) {
        const CAPACITY: u64 = 12_000;
        let table = CodeTable::new();
        let cache = Cache::new(CAPACITY);
        for (number, length, codes, compress) in steps {
            match cache.get(&key(number)) {
                Some(kept) if compress => kept.prepare(Encoding::Gzip),
                _ => cache.insert(key(number), reply(&table, length, &codes), MS),
            }
            let stats = cache.stats();
            let kept = cache.kept.lock();
            let owned: u64 = kept.entries.values().map(|entry| entry.reply.owned_bytes()).sum();
            let codes: std::collections::BTreeMap<_, _> = kept
                .entries
                .values()
                .flat_map(|entry| entry.reply.codes())
                .map(|code| (*code.hash(), code.memory_bytes()))
                .collect();
            prop_assert_eq!(stats.owned_bytes, owned);
            prop_assert_eq!(stats.codes, codes.len() as u64);
            prop_assert_eq!(stats.code_bytes, codes.values().sum::<u64>());
            prop_assert!(stats.bytes() <= CAPACITY);
        }
    }
}

#[test]
fn a_pass_over_many_blocks_leaves_what_is_asked_for() {
    let cache = Cache::new(100_000);
    cache.insert(key(255), text(1000), MS);
    for round in 0..20 {
        assert!(cache.get(&key(255)).is_some(), "round {round}");
        (0..100).for_each(|number| cache.insert(key(number), text(2000), MS));
    }
    assert!(cache.stats().evictions > 1000);
}

#[tokio::test]
async fn one_computes_and_the_others_wait() {
    let cache = Arc::new(Cache::new(1 << 20));
    let (release, gate) = oneshot::channel::<()>();
    let leader = {
        let cache = cache.clone();
        tokio::spawn(async move {
            let compute = || async move {
                gate.await.unwrap();
                Ok(text(10))
            };
            cache.get_or_compute(&key(1), compute).await
        })
    };
    while cache.stats().misses == 0 {
        tokio::task::yield_now().await;
    }
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move {
                cache.get_or_compute(&key(1), || async { panic!("one is under way") }).await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    release.send(()).unwrap();
    assert_eq!(leader.await.unwrap().unwrap().1, Outcome::Computed);
    for waiter in waiters {
        let (reply, outcome) = waiter.await.unwrap().unwrap();
        assert_eq!(reply.len(), 10);
        // One that was started late finds it kept.
        assert!(matches!(outcome, Outcome::Shared | Outcome::Hit));
    }
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.coalesced + stats.hits), (1, 10));
}

#[test]
fn a_failure_wakes_all_and_is_not_kept() {
    let cache = Cache::new(1 << 20);
    let target = key(1);
    let (release, gate) = oneshot::channel();
    let mut leader = pin!(cache.get_or_compute(&target, || async { gate.await.unwrap() }));
    assert!(poll(leader.as_mut()).is_pending());
    let mut waiter = pin!(cache.get_or_compute(&target, || async { Ok(text(1)) }));
    assert!(poll(waiter.as_mut()).is_pending());
    release.send(Err("timed out")).unwrap();
    assert!(matches!(poll(leader.as_mut()), Poll::Ready(Err("timed out"))));
    assert!(matches!(poll(waiter.as_mut()), Poll::Ready(Err("timed out"))));
    assert!(cache.get(&target).is_none());
    let mut next = pin!(cache.get_or_compute(&target, || async { Ok(text(2)) }));
    assert!(matches!(poll(next.as_mut()), Poll::Ready(Ok((_, Outcome::Computed)))));
    assert_eq!(cache.stats().failures, 1);
}

#[test]
fn a_cancelled_computation_is_taken_over() {
    let cache = Cache::new(1 << 20);
    let target = key(1);
    let mut leader = Box::pin(cache.get_or_compute(&target, std::future::pending));
    assert!(poll(leader.as_mut()).is_pending());
    let mut first = pin!(cache.get_or_compute(&target, || async { Ok(text(7)) }));
    let mut second = pin!(cache.get_or_compute(&target, || async { Ok(text(8)) }));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    drop(leader);
    let Poll::Ready(Ok((reply, Outcome::Computed))) = poll(first.as_mut()) else {
        panic!("the first waiter takes over")
    };
    assert_eq!(reply.len(), 7);
    let Poll::Ready(Ok((reply, Outcome::Shared))) = poll(second.as_mut()) else {
        panic!("the second gets what the first made")
    };
    assert_eq!(reply.len(), 7);
}

#[test]
fn a_cache_without_room_still_coalesces() {
    let cache = Cache::new(0);
    let target = key(1);
    let (release, gate) = oneshot::channel();
    let mut leader = pin!(cache.get_or_compute(&target, || async { gate.await.unwrap() }));
    assert!(poll(leader.as_mut()).is_pending());
    let mut waiter = pin!(cache.get_or_compute(&target, || async { panic!("under way") }));
    assert!(poll(waiter.as_mut()).is_pending());
    release.send(Ok(text(3))).unwrap();
    assert!(poll(leader.as_mut()).is_ready());
    assert!(matches!(poll(waiter.as_mut()), Poll::Ready(Ok((_, Outcome::Shared)))));
    assert_eq!(cache.stats().entries, 0);
}

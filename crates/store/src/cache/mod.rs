//! Finished replies in memory.
//!
//! Written by hand rather than taken from `moka` or `quick_cache`, which weigh an entry once, when
//! it comes in. A reply's weight is neither its own nor constant: most of its bytes are codes it
//! shares with other replies, freed when the last of them goes, and its compressed form appears
//! with the first client that asks for it. Their coalescing also lets every waiter try again after
//! a failure, one by one, where all should be told.
//!
//! Nothing here looks into a reply.

mod flight;
mod ledger;
mod policy;

pub use flight::Outcome;

use crate::metrics::{self, Count};
use alloy_primitives::B256;
use flight::Flights;
use ledger::Ledger;
use parking_lot::Mutex;
use policy::Policy;
use prestate_wire::{Encoding, Rope};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// What a reply answers. The block is named by its hash, so that a reorg cannot bring up a reply
/// of another block under the same number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReplyKey {
    /// The block.
    pub block_hash: B256,
    /// Which view of it: a method, or a method and a tracer.
    pub view: &'static str,
    /// What else decides the bytes, written in one way only: defaults filled in, lists sorted.
    pub options: Arc<str>,
}

/// Finished replies, bounded by the bytes they really take: each reply's own, and every shared
/// code once.
///
/// `E` is the error of a computation. Clones of it go to all who waited.
#[derive(Debug)]
pub struct ReplyCache<E> {
    kept: Mutex<Kept>,
    flights: Flights<E>,
    capacity_bytes: u64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<ReplyKey, Entry>,
    policy: Policy,
    ledger: Ledger,
}

#[derive(Debug)]
struct Entry {
    reply: Rope,
    /// Bytes of its own the ledger was told of.
    owned_bytes: u64,
    cost: Duration,
    /// Look-ups since the last round of [`ReplyCache::join_hottest`].
    lookups: u32,
    /// Whether that round put its compressed form into one piece.
    joined: bool,
}

#[derive(Debug)]
struct Counters {
    hits: Count,
    misses: Count,
    coalesced: Count,
    failures: Count,
    evictions: Count,
    oversized: Count,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            hits: Count::new(metrics::CACHE_HITS),
            misses: Count::new(metrics::CACHE_MISSES),
            coalesced: Count::new(metrics::CACHE_COALESCED),
            failures: Count::new(metrics::CACHE_FAILURES),
            evictions: Count::new(metrics::CACHE_EVICTIONS),
            oversized: Count::new(metrics::CACHE_OVERSIZED),
        }
    }
}

/// Counts and sizes of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStats {
    /// Replies kept.
    pub entries: u64,
    /// Bytes of their own: text, lists, compressed forms.
    pub owned_bytes: u64,
    /// Distinct codes they show.
    pub codes: u64,
    /// Bytes of those, each counted once.
    pub code_bytes: u64,
    /// The bound on both sums together.
    pub capacity_bytes: u64,
    /// Look-ups that found a reply.
    pub hits: u64,
    /// Look-ups that found none, and computed it where they could.
    pub misses: u64,
    /// Look-ups that waited for another's computation.
    pub coalesced: u64,
    /// Computations that failed.
    pub failures: u64,
    /// Replies dropped to make room.
    pub evictions: u64,
    /// Replies that were larger than the whole cache, and not kept.
    pub oversized: u64,
}

impl CacheStats {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.owned_bytes + self.code_bytes
    }
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.ledger.owned_bytes() + self.ledger.code_bytes()
    }

    fn get(&mut self, key: &ReplyKey) -> Option<Rope> {
        let entry = self.entries.get_mut(key)?;
        // A compressed form was made since: of the codes as well, as they are made together.
        let owned_bytes = entry.reply.owned_bytes();
        if owned_bytes != entry.owned_bytes {
            self.ledger.recount(&entry.reply, entry.owned_bytes, owned_bytes);
            entry.owned_bytes = owned_bytes;
        }
        entry.lookups = entry.lookups.saturating_add(1);
        self.policy.touch(key, entry.cost, owned_bytes);
        Some(entry.reply.clone())
    }

    fn remove(&mut self, key: &ReplyKey) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.ledger.remove(&entry.reply, entry.owned_bytes);
        self.policy.remove(key);
        true
    }

    fn insert(&mut self, key: ReplyKey, reply: Rope, cost: Duration) {
        self.remove(&key);
        let owned_bytes = reply.owned_bytes();
        self.ledger.add(&reply, owned_bytes);
        self.policy.insert(key.clone(), cost, owned_bytes);
        let entry = Entry { reply, owned_bytes, cost, lookups: 0, joined: false };
        self.entries.insert(key, entry);
    }

    /// Drops the least valuable until the bound holds. Returns how many.
    fn shrink(&mut self, capacity_bytes: u64) -> u64 {
        let mut evicted = 0;
        while self.bytes() > capacity_bytes {
            let Some(key) = self.policy.least_valuable() else { break };
            evicted += u64::from(self.remove(&key));
        }
        evicted
    }

    /// Shows its size to whoever watches.
    fn record(&self) {
        metrics::set(metrics::CACHE_BYTES, self.bytes());
        metrics::set(metrics::CACHE_REPLIES, self.entries.len() as u64);
    }

    fn recount(&mut self) {
        for entry in self.entries.values_mut() {
            let owned_bytes = entry.reply.owned_bytes();
            self.ledger.recount(&entry.reply, entry.owned_bytes, owned_bytes);
            entry.owned_bytes = owned_bytes;
        }
    }
}

impl<E> ReplyCache<E> {
    /// A cache of at most `capacity_bytes`. Zero keeps nothing and coalesces all the same.
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            kept: Mutex::default(),
            flights: Flights::default(),
            capacity_bytes,
            counters: Counters::default(),
        }
    }

    /// A reply, if it is kept. A compressed form that was made since the last look-up is counted
    /// in now, and less valuable replies make room for it.
    pub fn get(&self, key: &ReplyKey) -> Option<Rope> {
        let found = self.find(key);
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.add(1);
        found
    }

    /// As [`Self::get`], before a [`Self::get_or_compute`] of the same key, which counts the miss.
    pub fn look(&self, key: &ReplyKey) -> Option<Rope> {
        let found = self.find(key);
        if found.is_some() {
            self.counters.hits.add(1);
        }
        found
    }

    fn find(&self, key: &ReplyKey) -> Option<Rope> {
        let mut kept = self.kept.lock();
        let found = kept.get(key)?;
        let evicted = kept.shrink(self.capacity_bytes);
        if evicted > 0 {
            self.counters.evictions.add(evicted);
            kept.record();
        }
        Some(found)
    }

    /// Keeps a reply that took `cost` to make, dropping less valuable ones for it. A reply that is
    /// larger than the whole cache is not kept, and nothing is dropped for it.
    pub fn insert(&self, key: ReplyKey, reply: Rope, cost: Duration) {
        let codes: u64 = reply.codes().map(|code| code.memory_bytes()).sum();
        if reply.owned_bytes() + codes > self.capacity_bytes {
            self.counters.oversized.add(1);
            return;
        }
        let mut kept = self.kept.lock();
        kept.insert(key, reply, cost);
        let evicted = kept.shrink(self.capacity_bytes);
        self.counters.evictions.add(evicted);
        kept.record();
    }

    /// Puts the compressed forms of the replies that were looked up most since the last call into
    /// one piece each, see [`Rope::join`], and lets go those of the last call that are not among
    /// them. `least` look-ups make one worth it; at most `budget_bytes` are spent. It copies
    /// megabytes: call it every second or so, where nobody waits.
    pub fn join_hottest(&self, least: u32, budget_bytes: u64) {
        let mut hot = Vec::new();
        let mut cold = Vec::new();
        for (key, entry) in &mut self.kept.lock().entries {
            let lookups = std::mem::take(&mut entry.lookups);
            if lookups >= least {
                hot.push((lookups, key.clone(), entry.reply.clone()));
            } else if std::mem::take(&mut entry.joined) {
                cold.push(entry.reply.clone());
            }
        }
        cold.iter().for_each(Rope::split);
        hot.sort_unstable_by_key(|(lookups, ..)| std::cmp::Reverse(*lookups));
        let mut left = budget_bytes;
        let mut joined = Vec::new();
        for (_, key, reply) in hot {
            // Compressed, the text is a fraction of its length; without this nothing is known yet.
            if !reply.is_prepared(Encoding::Gzip) || reply.deflated_len() > left {
                reply.split();
                continue;
            }
            left -= reply.join();
            joined.push(key);
        }
        let mut kept = self.kept.lock();
        for key in joined {
            if let Some(entry) = kept.entries.get_mut(&key) {
                entry.joined = true;
            }
        }
    }

    /// Drops everything.
    pub fn clear(&self) {
        let mut kept = self.kept.lock();
        *kept = Kept::default();
        kept.record();
    }

    /// Counts and sizes, compressed forms made since the last look-up included.
    pub fn stats(&self) -> CacheStats {
        let mut kept = self.kept.lock();
        kept.recount();
        let evicted = kept.shrink(self.capacity_bytes);
        let Counters { hits, misses, coalesced, failures, evictions, oversized } = &self.counters;
        evictions.add(evicted);
        kept.record();
        CacheStats {
            entries: kept.entries.len() as u64,
            owned_bytes: kept.ledger.owned_bytes(),
            codes: kept.ledger.codes(),
            code_bytes: kept.ledger.code_bytes(),
            capacity_bytes: self.capacity_bytes,
            hits: hits.get(),
            misses: misses.get(),
            coalesced: coalesced.get(),
            failures: failures.get(),
            evictions: evictions.get(),
            oversized: oversized.get(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Filters that are polled.

use super::{Answer, DevRpc, blocks::json, fault, logs};
use crate::dev::events::ChainEvent;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{Filter, Log};
use jsonrpsee::types::Params;
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A filter that nobody polls for so long is gone (Geth's default).
const IDLE: Duration = Duration::from_secs(300);
/// Filters at a time.
const MAX_FILTERS: usize = 10_000;

#[derive(Debug, Clone)]
enum Kind {
    Blocks,
    Pending,
    Logs(Box<Filter>),
}

#[derive(Debug)]
struct Polled {
    kind: Kind,
    /// Events seen.
    from: u64,
    asked: Instant,
}

/// Filters by id.
#[derive(Debug, Default)]
pub(super) struct Filters {
    next_id: Mutex<u64>,
    all: Mutex<BTreeMap<u64, Polled>>,
}

impl DevRpc {
    fn install(&self, kind: Kind) -> Answer<U256> {
        let from = self.chain.with_events(|events| match kind {
            Kind::Pending => events.pending.now(),
            Kind::Blocks | Kind::Logs(_) => events.chain.now(),
        });
        let now = Instant::now();
        let mut all = self.filters.all.lock();
        all.retain(|_, filter| now.duration_since(filter.asked) < IDLE);
        if all.len() >= MAX_FILTERS {
            return Err(fault::limit("filters", MAX_FILTERS as u64, all.len() as u64 + 1));
        }
        let mut next_id = self.filters.next_id.lock();
        *next_id += 1;
        all.insert(*next_id, Polled { kind, from, asked: now });
        Ok(U256::from(*next_id))
    }

    pub(super) fn new_filter(&self, params: &Params<'_>) -> Answer<U256> {
        let filter: Filter = params.one()?;
        logs::check(&filter)?;
        self.install(Kind::Logs(Box::new(filter)))
    }

    pub(super) fn new_block_filter(&self, _params: &Params<'_>) -> Answer<U256> {
        self.install(Kind::Blocks)
    }

    pub(super) fn new_pending_filter(&self, _params: &Params<'_>) -> Answer<U256> {
        self.install(Kind::Pending)
    }

    pub(super) fn uninstall_filter(&self, params: &Params<'_>) -> Answer<bool> {
        let id: U256 = params.one()?;
        Ok(self.filters.all.lock().remove(&id.saturating_to()).is_some())
    }

    pub(super) fn filter_logs(&self, params: &Params<'_>) -> Answer<Vec<Log>> {
        let id: U256 = params.one()?;
        let kind =
            self.filters.all.lock().get(&id.saturating_to()).map(|filter| filter.kind.clone());
        match kind {
            Some(Kind::Logs(filter)) => self.logs_of(&filter),
            _ => Err(fault::server("filter not found")),
        }
    }

    pub(super) fn filter_changes(&self, params: &Params<'_>) -> Answer<Value> {
        let id: U256 = params.one()?;
        let mut all = self.filters.all.lock();
        let filter =
            all.get_mut(&id.saturating_to()).ok_or_else(|| fault::server("filter not found"))?;
        filter.asked = Instant::now();
        let from = filter.from;
        match filter.kind.clone() {
            Kind::Pending => {
                let (hashes, now) = self.chain.with_events(|events| events.pending.since(from));
                filter.from = now;
                json(&hashes)
            }
            kind => {
                let (events, now) = self.chain.with_events(|events| events.chain.since(from));
                filter.from = now;
                drop(all);
                match kind {
                    Kind::Logs(filter) => json(&self.changed_logs(&filter, events)),
                    _ => json(&blocks(events)),
                }
            }
        }
    }

    /// What a filter matches in changes of the chain, reverted logs marked.
    pub(super) fn changed_logs(&self, filter: &Filter, events: Vec<ChainEvent>) -> Vec<Log> {
        let mut found = Vec::new();
        for ChainEvent { old, new } in events {
            old.iter().for_each(|old| self.add_removed(filter, old.hash, &mut found));
            new.iter().for_each(|new| self.add_logs(filter, new, &mut found));
        }
        found
    }
}

fn blocks(events: Vec<ChainEvent>) -> Vec<B256> {
    events.into_iter().flat_map(|event| event.new).map(|block| block.hash()).collect()
}

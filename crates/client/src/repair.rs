//! One resync: from choosing a source to the ledger at the new head.

use crate::{
    BlockUpdate, Fault, Reorg, ResyncError, Resyncer, Situation, SlotKey, Source,
    block_trace::{Doubt, merge},
    endpoint::Endpoint,
    header::Header,
    latency::Timed,
    walk::{Path, walk},
};
use alloy_network::Network;
use alloy_primitives::B256;
use alloy_provider::Provider;
use futures_util::{StreamExt, stream};
use prestate_types::BlockRef;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Why an attempt ended.
pub(crate) enum Stop {
    /// This source does not work now: on with another.
    Source(Source, Fault),
    /// The block whose state was wanted is gone: on from the new head.
    Moved(Fault),
    /// No source is left.
    Exhausted,
    /// No use going on.
    Fatal(ResyncError),
}

impl Stop {
    /// A fault of a source that reads the state of one block.
    pub(crate) fn of(source: Source, fault: Fault) -> Self {
        match fault {
            Fault::UnknownBlock { .. } | Fault::Pruned { .. } => Self::Moved(fault),
            fault => Self::Source(source, fault),
        }
    }
}

/// Whether a block is still the one of its height, as far as can be told.
async fn is_canonical<P: Provider<N>, N: Network>(
    endpoint: &Endpoint<P, N>,
    block: BlockRef,
) -> bool {
    matches!(endpoint.header_at(block.number).await, Ok(Some(there)) if there.hash == block.hash)
}

impl<P: Provider<N>, N: Network> Resyncer<P, N> {
    /// Attempts until the ledger is at the head and nothing is cold.
    pub(crate) async fn repair(&mut self) -> Result<(), ResyncError> {
        let patience = self.endpoint.patience();
        let mut faults: Vec<(Source, Fault)> = Vec::new();
        let mut moves = 0;
        loop {
            match self.attempt(&faults).await {
                Ok(()) => return Ok(()),
                Err(Stop::Source(source, fault)) => {
                    self.failed(source, &fault);
                    faults.push((source, fault));
                }
                Err(Stop::Moved(fault)) => {
                    moves += 1;
                    if moves >= patience.attempts() {
                        return Err(ResyncError::Moving { attempts: moves, last: fault });
                    }
                    tokio::time::sleep(patience.pause(moves, None)).await;
                }
                Err(Stop::Exhausted) => return Err(ResyncError::Exhausted(faults)),
                Err(Stop::Fatal(error)) => return Err(error),
            }
        }
    }

    async fn attempt(&mut self, faults: &[(Source, Fault)]) -> Result<(), Stop> {
        let untraceable = self.config.untraceable.iter();
        let untraceable = untraceable.map(|address| self.ledger.slots_of(*address).count()).sum();
        let rest = Situation {
            watched: self.ledger.len(),
            cold: self.ledger.cold().len(),
            untraceable,
            ..Situation::default()
        };
        if let Some(from) = self.ledger.head() {
            // Needs no header first.
            let decision = self.decide(Situation { blocks: 1, ..rest }, None);
            if decision.chosen == Some(Source::Resync) {
                self.record(decision);
                return self.by_resync(from).await;
            }
        }
        let started = Instant::now();
        let head = self.endpoint.latest().await;
        let head = head.map_err(|fault| Stop::Fatal(ResyncError::Head(fault)))?;
        self.latencies.observe(Timed::Header, 1, started.elapsed());
        let Some(from) = self.ledger.head() else {
            self.ledger.advance(head.block(), []);
            return self.read_cold(head.block(), faults).await;
        };
        if from.hash == head.hash {
            return self.read_cold(from, faults).await;
        }
        if self.ledger.knows(&head.hash) {
            // The chain was cut and did not grow again yet.
            self.go_back(head.block());
            return self.read_cold(head.block(), faults).await;
        }
        self.go_on(from, head, rest, faults).await
    }

    /// From a known block to a new head.
    async fn go_on(
        &mut self,
        from: BlockRef,
        head: Header,
        rest: Situation,
        faults: &[(Source, Fault)],
    ) -> Result<(), Stop> {
        let mut path = if head.parent_hash == from.hash {
            Some(Path { ancestor: Some(from), headers: vec![head.clone()] })
        } else if head.number() <= from.number + 1 {
            Some(self.path_to(head.clone()).await?)
        } else {
            None
        };
        loop {
            let situation = match &path {
                Some(path) => path.situation(rest),
                None => {
                    let blocks = head.number() - from.number;
                    Situation { blocks, headers: blocks - 1, read_headers: 1, ..rest }
                }
            };
            let barrier = match &path {
                Some(Path { ancestor: None, .. }) => Some("no block known is on this chain"),
                None if situation.blocks > self.config.max_walk_blocks => {
                    Some("the way back is longer than configured")
                }
                _ => None,
            };
            let decision = self.decide(situation, barrier);
            path = match (decision.chosen, path) {
                (None, path)
                    if barrier.is_some() && !self.config.sources.contains(&Source::Reads) =>
                {
                    // A trace would do if it led anywhere: start anew from the head.
                    self.record(decision);
                    let there = match path {
                        Some(_) => false,
                        None => is_canonical(&self.endpoint, from).await,
                    };
                    if !there {
                        self.note_reorg(None, self.ledger.above(&B256::ZERO));
                    }
                    let unknown = self.ledger.keys().map(|key| (key, None)).collect();
                    self.ledger.replace(None, head.block(), unknown);
                    return self.read_cold(head.block(), faults).await;
                }
                (None, _) => return Err(Stop::Exhausted),
                // Only now is it known how many blocks there are.
                (Some(Source::Trace), None) => Some(self.path_to(head.clone()).await?),
                (Some(Source::Trace), Some(path)) => {
                    self.record(decision);
                    return self.by_trace(from, path, faults).await;
                }
                (Some(Source::Resync), _) => {
                    self.record(decision);
                    return self.by_resync(from).await;
                }
                (Some(Source::Reads), path) => {
                    self.record(decision);
                    return self.by_reads(from, head, path).await;
                }
            };
        }
    }

    async fn path_to(&mut self, head: Header) -> Result<Path, Stop> {
        let walked = walk(&self.endpoint, &self.ledger, head, self.config.max_walk_blocks).await;
        walked.map_err(|fault| match fault {
            Fault::UnknownBlock { .. } => Stop::Moved(fault),
            fault => Stop::Fatal(ResyncError::Head(fault)),
        })
    }

    /// Back to a known block, because the chain went there.
    fn go_back(&mut self, to: BlockRef) {
        self.note_reorg(Some(to), self.ledger.above(&to.hash));
        self.ledger.roll_back_to(&to.hash);
    }

    /// Keeps what left the chain, newest first, for the next update.
    pub(crate) fn note_reorg(&mut self, ancestor: Option<BlockRef>, dropped: Vec<BlockRef>) {
        self.blocks.retain(|update| !dropped.contains(&update.block));
        let Some(earlier) = self.reorg.take() else {
            self.reorg = Some(Reorg { common_ancestor: ancestor, dropped });
            return;
        };
        // One found by an attempt that failed later is part of the same news.
        let lower = ancestor.zip(earlier.common_ancestor);
        let lower = lower.map(|(one, other)| if one.number <= other.number { one } else { other });
        let mut all = dropped;
        all.extend(earlier.dropped);
        self.reorg = Some(Reorg { common_ancestor: lower, dropped: all });
    }

    /// Every slot at the head, whatever happened in between.
    async fn by_reads(
        &mut self,
        from: BlockRef,
        head: Header,
        path: Option<Path>,
    ) -> Result<(), Stop> {
        let (started, spent) = (Instant::now(), self.endpoint.spent().units());
        let keys: Vec<SlotKey> = self.ledger.keys().collect();
        let read = self.reads.read(&self.endpoint, keys, head.block());
        let (read, path) = match path {
            Some(path) => (read.await, Some(path)),
            None => {
                // Over a gap: is the known block still there?
                let (read, there) = tokio::join!(read, is_canonical(&self.endpoint, from));
                (read, there.then(|| Path { ancestor: Some(from), headers: Vec::new() }))
            }
        };
        let read = read.map_err(|partial| Stop::of(Source::Reads, partial.fault))?;
        let took = started.elapsed();
        self.measure(Source::Reads, read.len(), took);
        let units = self.endpoint.spent().units() - spent;
        let path = match path {
            Some(path) => path,
            None => self.path_to(head.clone()).await?,
        };
        let values: BTreeMap<_, _> =
            read.into_iter().map(|(key, value)| (key, Some(value))).collect();
        if path.is_reorg(from) {
            let ancestor = path.ancestor.map(|block| block.hash);
            let dropped = self.ledger.above(&ancestor.unwrap_or_default());
            self.note_reorg(path.ancestor, dropped);
            self.ledger.replace(ancestor.as_ref(), head.block(), values);
        } else {
            self.ledger.advance(head.block(), values);
        }
        self.succeeded(Source::Reads, took, units);
        Ok(())
    }

    /// Block by block, with what the transactions changed.
    async fn by_trace(
        &mut self,
        from: BlockRef,
        path: Path,
        faults: &[(Source, Fault)],
    ) -> Result<(), Stop> {
        let (started, spent) = (Instant::now(), self.endpoint.spent().units());
        if path.is_reorg(from)
            && let Some(ancestor) = path.ancestor
        {
            self.go_back(ancestor);
        }
        let (times, end) = self.apply_traces(&path).await;
        for took in times {
            self.measure(Source::Trace, 1, took);
        }
        end?;
        let head = path.headers.last().map_or(from, Header::block);
        let (took, units) = (started.elapsed(), self.endpoint.spent().units() - spent);
        self.succeeded(Source::Trace, took, units);
        self.read_cold(head, faults).await
    }

    /// Takes the ledger over the blocks of a path, as far as there are traces; how long each took.
    async fn apply_traces(&mut self, path: &Path) -> (Vec<Duration>, Result<(), Stop>) {
        let (endpoint, traces) = (&self.endpoint, &self.traces);
        let traced = stream::iter(&path.headers).map(|header| async move {
            let started = Instant::now();
            (header, traces.trace(endpoint, header).await, started.elapsed())
        });
        let mut traced = std::pin::pin!(traced.buffered(self.config.width.max(1)));
        let mut times = Vec::new();
        while let Some((header, txs, took)) = traced.next().await {
            let txs = match txs {
                Ok(txs) => txs,
                Err(fault) => return (times, Err(Stop::of(Source::Trace, fault))),
            };
            if header.is_traceable() {
                times.push(took);
            }
            let ledger = &self.ledger;
            let changes = merge(&txs, |address| ledger.slots_of(address), |key| ledger.value(key));
            self.doubted_gone += changes.count(Doubt::Gone);
            self.doubted_mismatch += changes.count(Doubt::Mismatch);
            let mut values: BTreeMap<_, _> = changes.values().collect();
            let slots = values.iter().filter_map(|(key, value)| Some((*key, (*value)?)));
            let slots = slots.filter(|(key, _)| !self.config.untraceable.contains(&key.address));
            self.blocks.push(BlockUpdate { block: header.block(), slots: slots.collect() });
            // Where one slot of an account is not what it should be, the others may not be either.
            let suspects =
                changes.slots.iter().filter(|(_, value)| **value == Err(Doubt::Mismatch));
            let suspects = suspects.map(|(key, _)| key.address);
            for address in suspects.chain(self.config.untraceable.iter().copied()) {
                values.extend(ledger.slots_of(address).map(|key| (key, None)));
            }
            self.ledger.advance(header.block(), values);
        }
        (times, Ok(()))
    }
}

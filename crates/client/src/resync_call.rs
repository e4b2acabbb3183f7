//! The `prestate_*` side of a resync, and the reading of cold slots.

use crate::{Fault, Resyncer, SlotKey, Source, repair::Stop};
use alloy_network::Network;
use alloy_primitives::B256;
use alloy_provider::Provider;
use prestate_rpc_api::{MAX_READ_SLOTS, Resync, ResyncRequest, SlotsByAccount, StorageAt, Watch};
use prestate_types::BlockRef;
use std::{collections::BTreeMap, time::Instant};

/// Slots named in one call: a request of 1.5 MB, well below what servers take.
const WATCHED_IN_A_CALL: usize = 20_000;

fn by_account(keys: &[SlotKey]) -> SlotsByAccount {
    let mut slots = SlotsByAccount::new();
    for key in keys {
        slots.entry(key.address).or_default().push(key.slot);
    }
    slots
}

/// The calls that cover all slots: warm ones are watched, cold ones read.
fn requests(from: BlockRef, warm: &[SlotKey], cold: &[SlotKey]) -> Vec<ResyncRequest> {
    let mut warm = warm.chunks(WATCHED_IN_A_CALL);
    let mut cold = cold.chunks(MAX_READ_SLOTS);
    let mut requests = Vec::new();
    loop {
        let (watched, read) = (warm.next(), cold.next());
        // One without any slot still tells the head.
        if watched.is_none() && read.is_none() && !requests.is_empty() {
            return requests;
        }
        let watch = by_account(watched.unwrap_or_default()).into_iter();
        requests.push(ResyncRequest {
            from: from.into(),
            watch: watch
                .map(|(address, slots)| (address, Watch { slots, account: false }))
                .collect(),
            cold: by_account(read.unwrap_or_default()),
            to: None,
        });
    }
}

impl<P: Provider<N>, N: Network> Resyncer<P, N> {
    /// One call (more for very many slots) that answers with what changed.
    pub(crate) async fn by_resync(&mut self, from: BlockRef) -> Result<(), Stop> {
        let (started, spent) = (Instant::now(), self.endpoint.spent().units());
        let cold: Vec<SlotKey> = self.ledger.cold().collect();
        let warm = self.ledger.keys().filter(|key| self.ledger.value(key).is_some());
        let warm: Vec<SlotKey> = warm.collect();
        let mut values: BTreeMap<SlotKey, Option<B256>> = BTreeMap::new();
        let mut first: Option<Resync> = None;
        for mut request in requests(from, &warm, &cold) {
            request.to = first.as_ref().map(|first| first.head.hash.into());
            let reply = self.endpoint.persist("prestate_resync", (request,)).await;
            let reply: Resync = reply.map_err(|fault| Stop::Source(Source::Resync, fault))?;
            let head = first.as_ref().map_or(reply.head, |first| first.head);
            if reply.from.hash != from.hash || reply.head != head {
                let reason = "the answer is of other blocks than those asked for".to_owned();
                return Err(Stop::Source(Source::Resync, Fault::Unavailable { reason }));
            }
            for (address, slots) in &reply.storage {
                let keys = slots.iter().map(|(slot, value)| (SlotKey::new(*address, *slot), value));
                values.extend(keys.map(|(key, value)| (key, Some(*value))));
            }
            first.get_or_insert(reply);
        }
        let Some(Resync { head, reorg, .. }) = first else { return Ok(()) };
        let head = BlockRef::from(head);
        let took = started.elapsed();
        self.measure(Source::Resync, self.ledger.len(), took);
        match reorg {
            Some(reorg) => {
                let ancestor = self.ledger.newest_up_to(reorg.common_ancestor.number);
                let mut all: BTreeMap<_, _> =
                    self.ledger.keys().map(|key| (key, self.ledger.value(&key))).collect();
                all.extend(values);
                // The server knows the blocks that were jumped over, too.
                let dropped = reorg.dropped.into_iter().map(BlockRef::from).collect();
                self.note_reorg(Some(reorg.common_ancestor.into()), dropped);
                let ancestor = ancestor.map(|block| block.hash);
                self.ledger.replace(ancestor.as_ref(), head, all);
            }
            None if head.hash == from.hash => {
                self.ledger.fill(values.into_iter().filter_map(|(key, value)| Some((key, value?))));
            }
            None => self.ledger.advance(head, values),
        }
        let units = self.endpoint.spent().units() - spent;
        self.succeeded(Source::Resync, took, units);
        self.read_cold(head, &[]).await
    }

    /// Reads what is cold as it is after `block`, the ledger's head: by `prestate_getStorage` where
    /// that is offered, else by point reads.
    pub(crate) async fn read_cold(
        &mut self,
        block: BlockRef,
        faults: &[(Source, Fault)],
    ) -> Result<(), Stop> {
        let cold: Vec<SlotKey> = self.ledger.cold().collect();
        if cold.is_empty() {
            return Ok(());
        }
        if self.capabilities.of(Source::Resync, self.resyncs).usable() {
            match self.get_storage(&cold, block).await {
                Ok(values) => self.ledger.fill(values),
                Err(fault) => self.failed(Source::Resync, &fault),
            }
        }
        let cold: Vec<SlotKey> = self.ledger.cold().collect();
        if cold.is_empty() {
            return Ok(());
        }
        if faults.iter().any(|(source, _)| *source == Source::Reads) {
            return Err(Stop::Exhausted);
        }
        let (started, size) = (Instant::now(), cold.len());
        match self.reads.read(&self.endpoint, cold, block).await {
            Ok(values) => {
                self.measure(Source::Reads, size, started.elapsed());
                self.capabilities.succeeded(Source::Reads);
                if !self.used.contains(&Source::Reads) {
                    self.used.push(Source::Reads);
                }
                self.ledger.fill(values);
                Ok(())
            }
            Err(partial) => {
                self.ledger.fill(partial.read);
                Err(Stop::of(Source::Reads, partial.fault))
            }
        }
    }

    async fn get_storage(
        &self,
        keys: &[SlotKey],
        block: BlockRef,
    ) -> Result<Vec<(SlotKey, B256)>, Fault> {
        let mut values = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(MAX_READ_SLOTS) {
            let params = (block.hash, by_account(chunk));
            let reply: StorageAt = self.endpoint.persist("prestate_getStorage", params).await?;
            if reply.block.hash != block.hash {
                return Err(Fault::unavailable("the answer is of another block than asked for"));
            }
            for (address, slots) in reply.storage {
                values.extend(
                    slots.into_iter().map(|(slot, value)| (SlotKey::new(address, slot), value)),
                );
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256};

    #[test]
    fn very_many_slots_are_asked_for_in_several_calls() {
        let keys = |count: u64, address: u8| -> Vec<SlotKey> {
            let slots = (0..count).map(|n| B256::from(U256::from(n)));
            slots.map(|slot| SlotKey::new(Address::with_last_byte(address), slot)).collect()
        };
        let of = |warm: u64, cold: u64| {
            let requests = requests(BlockRef::default(), &keys(warm, 1), &keys(cold, 2));
            let count = |slots: Vec<usize>| slots.into_iter().sum::<usize>();
            requests
                .iter()
                .map(|request| {
                    let watched = request.watch.values().map(|watch| watch.slots.len()).collect();
                    let read = request.cold.values().map(Vec::len).collect();
                    (count(watched), count(read))
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0, 0), [(0, 0)]);
        assert_eq!(of(3, 2), [(3, 2)]);
        assert_eq!(of(20_001, 25_000), [(20_000, 10_000), (1, 10_000), (0, 5_000)]);
    }
}

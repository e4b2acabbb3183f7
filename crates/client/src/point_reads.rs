//! Batched `eth_getStorageAt`, all of one state.

use crate::{Fault, SlotKey, block_trace::Word, endpoint::Endpoint, header::Header};
use alloy_network::Network;
use alloy_primitives::{B256, U64};
use alloy_provider::Provider;
use futures_util::future::join_all;
use prestate_types::BlockRef;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How reads are sent to this endpoint, as far as it was learned.
#[derive(Debug, Clone)]
pub(crate) struct PointReads {
    max_batch: usize,
    width: usize,
    /// Most reads in a batch at present: halved when items are refused, grown slowly after.
    batch: usize,
    /// Whether the block can be named by hash (EIP-1898). If not, it is named by number, between
    /// two looks at which block has that number.
    by_hash: bool,
}

/// Reads that did not all work.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) read: BTreeMap<SlotKey, B256>,
    pub(crate) fault: Fault,
}

/// What became of one batch.
struct Answered {
    read: Vec<(SlotKey, B256)>,
    /// To be asked again.
    left: Vec<SlotKey>,
    fault: Option<Fault>,
}

impl PointReads {
    pub(crate) fn new(max_batch: usize, width: usize) -> Self {
        let max_batch = max_batch.max(1);
        Self { max_batch, width: width.max(1), batch: max_batch, by_hash: true }
    }

    pub(crate) fn batch_size(&self) -> usize {
        self.batch
    }

    pub(crate) fn by_hash(&self) -> bool {
        self.by_hash
    }

    /// Reads all slots as they are after `block`. Items that were refused are asked again, in
    /// smaller batches and after pauses, until several attempts in a row got nothing.
    pub(crate) async fn read<P: Provider<N>, N: Network>(
        &mut self,
        endpoint: &Endpoint<P, N>,
        keys: Vec<SlotKey>,
        block: BlockRef,
    ) -> Result<BTreeMap<SlotKey, B256>, Partial> {
        let mut read = BTreeMap::new();
        let mut left = keys;
        let mut failures = 0;
        while !left.is_empty() {
            let later = left.split_off(left.len().min(self.batch * self.width));
            let chunks: Vec<Vec<SlotKey>> = left.chunks(self.batch).map(<[_]>::to_vec).collect();
            let by_hash = self.by_hash;
            let answers =
                chunks.into_iter().map(|chunk| one_batch(endpoint, chunk, block, by_hash));
            let answers = join_all(answers).await;
            left = later;
            let (mut got, mut fault) = (0, None);
            for answer in answers {
                got += answer.read.len();
                read.extend(answer.read);
                left.extend(answer.left);
                fault = fault.or(answer.fault);
            }
            let Some(fault) = fault else {
                failures = 0;
                self.batch = (self.batch + self.batch / 8 + 1).min(self.max_batch);
                continue;
            };
            failures = if got > 0 { 1 } else { failures + 1 };
            let retry_after = match &fault {
                // Geth: `cannot unmarshal object into Go value of type string` and the like.
                Fault::Refused { .. } if self.by_hash => {
                    self.by_hash = false;
                    failures = 0;
                    continue;
                }
                Fault::TooLarge { .. } if self.batch > 1 => {
                    self.batch = (self.batch / 2).max(1);
                    failures = 0;
                    continue;
                }
                Fault::RateLimited { retry_after, .. } => {
                    self.batch = (self.batch / 2).max(1);
                    *retry_after
                }
                // A node behind a balancer that has not seen the block yet, or a broken connection.
                Fault::UnknownBlock { .. } | Fault::Unavailable { .. } => None,
                _ => return Err(Partial { read, fault }),
            };
            let patience = endpoint.patience();
            if failures >= patience.attempts() {
                return Err(Partial { read, fault });
            }
            tokio::time::sleep(patience.pause(failures, retry_after)).await;
        }
        Ok(read)
    }
}

async fn one_batch<P: Provider<N>, N: Network>(
    endpoint: &Endpoint<P, N>,
    keys: Vec<SlotKey>,
    block: BlockRef,
    by_hash: bool,
) -> Answered {
    let number = U64::from(block.number);
    let at = if by_hash { json!({ "blockHash": block.hash }) } else { json!(number) };
    let look = ("eth_getBlockByNumber", json!([number, false]));
    let reads = keys.iter().map(|key| ("eth_getStorageAt", json!([key.address, key.slot, at])));
    let mut calls: Vec<(&'static str, Value)> = reads.collect();
    if !by_hash {
        calls.insert(0, look.clone());
        calls.push(look);
    }
    let mut answers = match endpoint.batch::<Value, Value>(calls).await {
        Ok(answers) => answers,
        Err(fault) => return Answered { read: Vec::new(), left: keys, fault: Some(fault) },
    };
    if !by_hash {
        let looks = [answers.pop(), (!answers.is_empty()).then(|| answers.remove(0))];
        if let Some(fault) = looks.into_iter().find_map(|look| not_at(look, block)) {
            return Answered { read: Vec::new(), left: keys, fault: Some(fault) };
        }
    }
    let mut answered = Answered { read: Vec::new(), left: Vec::new(), fault: None };
    for (key, answer) in keys.into_iter().zip(answers) {
        let value = answer.and_then(|value| {
            let word: Result<Word, _> = serde_json::from_value(value);
            word.map_err(|error| Fault::unavailable(format!("no storage value: {error}")))
        });
        match value {
            Ok(Word(value)) => answered.read.push((key, value)),
            Err(fault) => {
                answered.left.push(key);
                // One that says how long to wait tells more.
                let says_when = matches!(fault, Fault::RateLimited { .. });
                if answered.fault.is_none() || says_when {
                    answered.fault = Some(fault);
                }
            }
        }
    }
    answered
}

/// Why the block of that height is not the one meant.
fn not_at(look: Option<Result<Value, Fault>>, block: BlockRef) -> Option<Fault> {
    let header = match look? {
        Ok(header) => serde_json::from_value::<Option<Header>>(header),
        Err(fault) => return Some(fault),
    };
    match header {
        Ok(Some(header)) if header.hash == block.hash => None,
        Ok(_) => Some(Fault::UnknownBlock { reason: format!("{block} is not canonical") }),
        Err(error) => Some(Fault::unavailable(format!("no header: {error}"))),
    }
}

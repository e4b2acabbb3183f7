use super::build::{Skip, Source, Tx};
use alloy_consensus::{Transaction, transaction::Recovered};
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map},
};
use prestate_types::AccountInfo;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

/// A replacement has to offer so much more, in percent (Geth `--txpool.pricebump`).
const PRICE_BUMP_PERCENT: u128 = 10;
/// The same for blob transactions (Geth `--blobpool.pricebump`).
const BLOB_PRICE_BUMP_PERCENT: u128 = 100;
/// Transactions that wait at most: a heavy block's several times over.
pub(crate) const MAX_POOLED: usize = 200_000;

/// Why the pool does not take a transaction; in Geth's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PoolError {
    #[error("already known")]
    AlreadyKnown,
    #[error("nonce too low: next nonce {next}, tx nonce {given}")]
    NonceTooLow { next: u64, given: u64 },
    #[error("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}", cost - balance)]
    InsufficientFunds { balance: U256, cost: U256 },
    #[error("insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, tx cost {cost}, overshot {}", queued + cost - balance)]
    Overdraft { balance: U256, queued: U256, cost: U256 },
    #[error("insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, tx bumped {bump}, overshot {}", queued + bump - balance)]
    BumpOverdraft { balance: U256, queued: U256, bump: U256 },
    #[error("replacement transaction underpriced")]
    Underpriced,
    #[error("txpool is full")]
    Full,
}

#[derive(Debug, Clone)]
struct Pooled {
    tx: Arc<Recovered<Tx>>,
    cost: U256,
    arrival: u64,
}

#[derive(Debug, Default)]
struct Queue {
    by_nonce: BTreeMap<u64, Pooled>,
    /// Of all in it.
    cost: U256,
}

/// Transactions that wait for a block, by sender and nonce.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    senders: AddressMap<Queue>,
    by_hash: B256Map<(Address, u64)>,
    arrivals: u64,
}

/// What a transaction costs at most, in wei.
pub(crate) fn max_cost(tx: &Tx) -> U256 {
    let gas = U256::from(tx.max_fee_per_gas()).saturating_mul(U256::from(tx.gas_limit()));
    let blobs = U256::from(tx.max_fee_per_blob_gas().unwrap_or_default())
        .saturating_mul(U256::from(tx.blob_gas_used().unwrap_or_default()));
    gas.saturating_add(blobs).saturating_add(tx.value())
}

impl Pool {
    /// Takes a transaction, checked against its sender's account (`core/txpool/validation.go`,
    /// `ValidateTransactionWithState`). It may leave a gap before it.
    pub(crate) fn add(
        &mut self,
        tx: Arc<Recovered<Tx>>,
        sender: AccountInfo,
    ) -> Result<(), PoolError> {
        let (from, nonce, cost) = (tx.signer(), tx.nonce(), max_cost(&tx));
        if self.by_hash.contains_key(tx.tx_hash()) {
            return Err(PoolError::AlreadyKnown);
        }
        if nonce < sender.nonce {
            return Err(PoolError::NonceTooLow { next: sender.nonce, given: nonce });
        }
        let balance = sender.balance;
        if balance < cost {
            return Err(PoolError::InsufficientFunds { balance, cost });
        }
        let queue = self.senders.get(&from);
        let queued = queue.map_or(U256::ZERO, |queue| queue.cost);
        let replaced = queue.and_then(|queue| queue.by_nonce.get(&nonce));
        match replaced {
            Some(old) => {
                let bump = cost.saturating_sub(old.cost);
                if balance < queued.saturating_add(bump) {
                    return Err(PoolError::BumpOverdraft { balance, queued, bump });
                }
                if !outbids(&tx, &old.tx) {
                    return Err(PoolError::Underpriced);
                }
            }
            None if balance < queued.saturating_add(cost) => {
                return Err(PoolError::Overdraft { balance, queued, cost });
            }
            None if self.by_hash.len() >= MAX_POOLED => return Err(PoolError::Full),
            None => {}
        }
        self.arrivals += 1;
        let queue = self.senders.entry(from).or_default();
        self.by_hash.insert(*tx.tx_hash(), (from, nonce));
        let pooled = Pooled { tx, cost, arrival: self.arrivals };
        queue.cost += cost;
        if let Some(old) = queue.by_nonce.insert(nonce, pooled) {
            queue.cost -= old.cost;
            self.by_hash.remove(old.tx.tx_hash());
        }
        Ok(())
    }

    /// A transaction that waits.
    pub(crate) fn get(&self, hash: &B256) -> Option<Arc<Recovered<Tx>>> {
        let (from, nonce) = self.by_hash.get(hash)?;
        Some(self.senders.get(from)?.by_nonce.get(nonce)?.tx.clone())
    }

    /// The nonce after the last transaction that can follow the account's state without a gap.
    pub(crate) fn next_nonce(&self, address: Address, nonce: u64) -> u64 {
        let Some(queue) = self.senders.get(&address) else { return nonce };
        let mut next = nonce;
        for waiting in queue.by_nonce.range(nonce..).map(|(nonce, _)| *nonce) {
            if waiting != next {
                break;
            }
            next += 1;
        }
        next
    }

    /// All of them, by sender and nonce.
    pub(crate) fn all(&self) -> Vec<Arc<Recovered<Tx>>> {
        let mut all: Vec<_> = self
            .senders
            .values()
            .flat_map(|queue| queue.by_nonce.values().map(|pooled| pooled.tx.clone()))
            .collect();
        all.sort_unstable_by_key(|tx| (tx.signer(), tx.nonce()));
        all
    }

    /// Throws out what can never be executed again: nonces used up, and what its sender could not
    /// pay alone (Geth `legacypool`, `demoteUnexecutables`). `account` tells the state.
    pub(crate) fn prune(&mut self, account: impl Fn(Address) -> AccountInfo) {
        let by_hash = &mut self.by_hash;
        self.senders.retain(|address, queue| {
            let AccountInfo { nonce, balance, .. } = account(*address);
            let cost = &mut queue.cost;
            queue.by_nonce.retain(|at, pooled| {
                let stays = *at >= nonce && pooled.cost <= balance;
                if !stays {
                    *cost -= pooled.cost;
                    by_hash.remove(pooled.tx.tx_hash());
                }
                stays
            });
            !queue.by_nonce.is_empty()
        });
    }

    /// What can be executed at a base fee, best tip first and then oldest first, each sender's in
    /// order.
    pub(crate) fn best(&self, base_fee: u64, nonce: impl Fn(Address) -> u64) -> Best {
        let mut best = Best { base_fee, heap: BinaryHeap::new(), rest: Vec::new(), last: None };
        for (address, queue) in &self.senders {
            let mut next = nonce(*address);
            let ready: Vec<_> = queue
                .by_nonce
                .range(next..)
                .take_while(|(at, _)| {
                    let follows = **at == next;
                    next += 1;
                    follows
                })
                .map(|(_, pooled)| pooled.clone())
                .collect();
            best.rest.push(ready.into_iter());
            best.offer(best.rest.len() - 1);
        }
        best
    }
}

/// Whether a replacement offers enough more than what it replaces.
fn outbids(new: &Tx, old: &Tx) -> bool {
    let blob = |tx: &Tx| tx.max_fee_per_blob_gas();
    let percent = if blob(old).is_some() { BLOB_PRICE_BUMP_PERCENT } else { PRICE_BUMP_PERCENT };
    let more =
        |new: u128, old: u128| new > old && new >= old.saturating_mul(100 + percent).div_ceil(100);
    let tip = |tx: &Tx| tx.max_priority_fee_per_gas().unwrap_or_else(|| tx.max_fee_per_gas());
    more(new.max_fee_per_gas(), old.max_fee_per_gas())
        && more(tip(new), tip(old))
        && blob(old).is_none_or(|old| blob(new).is_some_and(|new| more(new, old)))
}

/// Candidates for a block. A copy: the pool may change while a block is built from it.
#[derive(Debug)]
pub(crate) struct Best {
    base_fee: u64,
    heap: BinaryHeap<Candidate>,
    rest: Vec<std::vec::IntoIter<Pooled>>,
    last: Option<usize>,
}

#[derive(Debug)]
struct Candidate {
    order: (u128, Reverse<u64>),
    sender: usize,
    tx: Arc<Recovered<Tx>>,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl Best {
    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.last.is_none_or(|sender| self.rest[sender].len() == 0)
    }

    fn offer(&mut self, sender: usize) {
        let Some(Pooled { tx, arrival, .. }) = self.rest[sender].next() else { return };
        // Below the base fee it has to wait, and so have those after it.
        if let Some(tip) = tx.effective_tip_per_gas(self.base_fee) {
            self.heap.push(Candidate { order: (tip, Reverse(arrival)), sender, tx });
        }
    }
}

impl Source for Best {
    fn next(&mut self) -> Option<Arc<Recovered<Tx>>> {
        if let Some(sender) = self.last.take() {
            self.offer(sender);
        }
        let Candidate { sender, tx, .. } = self.heap.pop()?;
        self.last = Some(sender);
        Some(tx)
    }

    /// Its sender's later ones cannot come either.
    fn skip(&mut self, _why: Skip) {
        self.last = None;
    }
}

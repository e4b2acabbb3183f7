use crate::{AccountDelta, BlockSummary, SlotDelta};
use alloy_primitives::{Address, B256};

/// What changed between two states, ascending by address.
///
/// It holds changes only: an account or slot that is the same at both ends is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StateDiff {
    accounts: Vec<(Address, AccountDelta)>,
}

impl StateDiff {
    /// From accounts in any order, each at most once. What did not change is dropped, slots are
    /// sorted.
    pub fn from_unsorted(mut accounts: Vec<(Address, AccountDelta)>) -> Self {
        for (_, delta) in &mut accounts {
            let wiped = delta.wiped;
            delta.storage.retain(|slot| slot.counts(wiped));
            delta.storage.sort_unstable_by_key(|slot| slot.slot);
        }
        accounts.retain(|(_, delta)| !delta.is_noop());
        accounts.sort_unstable_by_key(|(address, _)| *address);
        debug_assert!(accounts.windows(2).all(|pair| pair[0].0 < pair[1].0), "account twice");
        Self { accounts }
    }

    /// From accounts that are sorted, without duplicates and without no-ops already.
    pub(crate) fn from_sorted(accounts: Vec<(Address, AccountDelta)>) -> Self {
        Self { accounts }
    }

    /// One account's change.
    pub fn get(&self, address: &Address) -> Option<&AccountDelta> {
        let at = self.accounts.binary_search_by_key(address, |(address, _)| *address).ok()?;
        Some(&self.accounts[at].1)
    }

    /// One slot's change.
    pub fn slot(&self, address: &Address, slot: &B256) -> Option<&SlotDelta> {
        let storage = &self.get(address)?.storage;
        storage.binary_search_by_key(slot, |delta| delta.slot).ok().map(|at| &storage[at])
    }

    /// All accounts, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, (Address, AccountDelta)> {
        self.accounts.iter()
    }

    /// Number of accounts.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Number of slots over all accounts.
    pub fn slot_count(&self) -> usize {
        self.accounts.iter().map(|(_, delta)| delta.storage.len()).sum()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// The accounts by value, ascending.
    pub fn into_accounts(self) -> Vec<(Address, AccountDelta)> {
        self.accounts
    }

    /// The same change seen from its end: going from `post` back to `pre`.
    pub fn invert(self) -> Self {
        Self {
            accounts: self
                .accounts
                .into_iter()
                .map(|(address, delta)| (address, delta.inverted()))
                .collect(),
        }
    }
}

impl<'a> IntoIterator for &'a StateDiff {
    type Item = &'a (Address, AccountDelta);
    type IntoIter = std::slice::Iter<'a, (Address, AccountDelta)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Slots that read zero in accounts the transaction destroyed, ascending by address and slot.
///
/// They are no change, but Geth prints them in `pre` (rule D1: a deleted account keeps every slot
/// it looked up).
pub type ZeroReads = Vec<(Address, Vec<B256>)>;

/// What one transaction changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TxDiff {
    /// Hash of the transaction.
    pub hash: B256,
    /// Its place in the block, from zero.
    pub index: u64,
    /// The change, from the state after the transaction before it.
    pub diff: StateDiff,
    /// See [`ZeroReads`].
    pub zero_reads: ZeroReads,
}

/// What a block as a whole changed: system calls, transactions, withdrawals, rewards, requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct BlockDiff {
    /// The block.
    pub summary: BlockSummary,
    /// The change, from the parent's state.
    pub diff: StateDiff,
}

/// Everything kept of a block: the parts its change is made of, in order of application.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct BlockFacts {
    /// The block.
    pub summary: BlockSummary,
    /// System calls before the first transaction (EIP-2935, EIP-4788).
    pub pre_system: StateDiff,
    /// The transactions in order.
    pub txs: Vec<TxDiff>,
    /// After the last transaction: requests (EIP-7002, EIP-7251), withdrawals, rewards, the DAO.
    pub post_system: StateDiff,
}

impl BlockFacts {
    /// The parts put together: the change of the whole block.
    pub fn fold(&self) -> StateDiff {
        StateDiff::fold(self.parts())
    }

    /// The parts in order of application.
    pub fn parts(&self) -> impl Iterator<Item = &StateDiff> {
        std::iter::once(&self.pre_system)
            .chain(self.txs.iter().map(|tx| &tx.diff))
            .chain(std::iter::once(&self.post_system))
    }
}

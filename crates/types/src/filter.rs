use crate::StateDiff;
use alloy_primitives::{Address, B256};
use std::collections::{BTreeMap, BTreeSet};

/// Most addresses a filter may name; beyond it a caller should take the whole diff.
pub const MAX_FILTER_ADDRESSES: usize = 10_000;
/// Most slots a filter may name over all addresses.
pub const MAX_FILTER_SLOTS: usize = 100_000;

/// Why a filter was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// More addresses than allowed.
    #[error("filter names {given} addresses, the limit is {limit}")]
    TooManyAddresses {
        /// Named.
        given: usize,
        /// Allowed.
        limit: usize,
    },
    /// More slots than allowed.
    #[error("filter names {given} slots, the limit is {limit}")]
    TooManySlots {
        /// Named.
        given: usize,
        /// Allowed.
        limit: usize,
    },
}

/// Which accounts and slots a caller wants to see. The default lets everything through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffFilter {
    /// Only these accounts, whole; `None`: all.
    pub addresses: Option<BTreeSet<Address>>,
    /// Of these accounts only these slots (and the account's own fields).
    pub slots: BTreeMap<Address, BTreeSet<B256>>,
    /// Leave storage out.
    pub no_storage: bool,
}

impl DiffFilter {
    /// Whether it lets everything through.
    pub fn is_all(&self) -> bool {
        self.addresses.is_none() && self.slots.is_empty() && !self.no_storage
    }

    /// Refuses filters that cost more than they save.
    pub fn check(&self) -> Result<(), FilterError> {
        let given = self.addresses.as_ref().map_or(0, BTreeSet::len).max(self.slots.len());
        if given > MAX_FILTER_ADDRESSES {
            return Err(FilterError::TooManyAddresses { given, limit: MAX_FILTER_ADDRESSES });
        }
        let given = self.slots.values().map(BTreeSet::len).sum();
        if given > MAX_FILTER_SLOTS {
            return Err(FilterError::TooManySlots { given, limit: MAX_FILTER_SLOTS });
        }
        Ok(())
    }

    /// Whether changes of this account pass. An account named in `slots` passes when `addresses`
    /// is not given or names it as well.
    pub fn wants(&self, address: &Address) -> bool {
        match &self.addresses {
            Some(addresses) => addresses.contains(address) || self.slots.contains_key(address),
            None => self.slots.is_empty() || self.slots.contains_key(address),
        }
    }

    /// Whether changes of this slot pass.
    pub fn wants_slot(&self, address: &Address, slot: &B256) -> bool {
        !self.no_storage && self.slots.get(address).is_none_or(|slots| slots.contains(slot))
    }

    /// What passes. Accounts left without a change drop out.
    pub fn apply(&self, diff: &StateDiff) -> StateDiff {
        if self.is_all() {
            return diff.clone();
        }
        let accounts = diff
            .iter()
            .filter(|(address, _)| self.wants(address))
            .map(|(address, delta)| {
                let mut delta = delta.clone();
                delta.storage.retain(|slot| self.wants_slot(address, &slot.slot));
                delta.wiped &= !self.no_storage;
                (*address, delta)
            })
            .filter(|(_, delta)| !delta.is_noop())
            .collect();
        StateDiff::from_sorted(accounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccountDelta, AccountInfo, SlotDelta};
    use alloy_primitives::U256;

    fn diff() -> StateDiff {
        let slot = |n: u8| {
            SlotDelta::new(B256::with_last_byte(n), B256::ZERO, B256::with_last_byte(n + 1))
        };
        let info = AccountInfo { nonce: 1, ..AccountInfo::EMPTY };
        let richer = AccountInfo { balance: U256::from(1), ..info };
        StateDiff::from_unsorted(vec![
            (
                Address::with_last_byte(1),
                AccountDelta {
                    pre: Some(info),
                    post: Some(info),
                    storage: vec![slot(1), slot(2)],
                    wiped: false,
                },
            ),
            (
                Address::with_last_byte(2),
                AccountDelta { pre: Some(info), post: Some(richer), ..Default::default() },
            ),
        ])
    }

    #[test]
    fn by_address_by_slot_and_without_storage() {
        let diff = diff();
        let (one, two) = (Address::with_last_byte(1), Address::with_last_byte(2));
        assert_eq!(DiffFilter::default().apply(&diff), diff);

        let by_address = DiffFilter { addresses: Some([two].into()), ..Default::default() };
        assert_eq!(by_address.apply(&diff).len(), 1);
        assert!(by_address.apply(&diff).get(&one).is_none());

        let by_slot = DiffFilter {
            slots: [(one, [B256::with_last_byte(2)].into())].into(),
            ..Default::default()
        };
        let seen = by_slot.apply(&diff);
        assert_eq!((seen.len(), seen.slot_count()), (1, 1));

        let both = DiffFilter { addresses: Some([two].into()), ..by_slot };
        assert_eq!(both.apply(&diff).len(), 2);

        let plain = DiffFilter { no_storage: true, ..Default::default() };
        assert_eq!(plain.apply(&diff).len(), 1, "an account that changed storage only drops out");
    }

    #[test]
    fn too_large_filters_are_refused() {
        let many: BTreeSet<_> = (0..=MAX_FILTER_ADDRESSES as u64)
            .map(|n| Address::from_word(U256::from(n).into()))
            .collect();
        let filter = DiffFilter { addresses: Some(many), ..Default::default() };
        assert_eq!(
            filter.check().unwrap_err().to_string(),
            "filter names 10001 addresses, the limit is 10000"
        );
    }
}

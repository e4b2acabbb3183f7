use crate::{AccountDelta, AccountInfo, StateDiff};
use alloy_primitives::{Address, B256};
use std::{collections::BTreeSet, fmt};

/// Where two diffs of the same block part.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The account differs, storage apart. `None` inside a pair: it does not exist; `None` as a
    /// whole: this side does not list the account.
    Account {
        /// Whose.
        address: Address,
        /// Before and after on the first side.
        left: Option<(Option<AccountInfo>, Option<AccountInfo>)>,
        /// Before and after on the second side.
        right: Option<(Option<AccountInfo>, Option<AccountInfo>)>,
    },
    /// A slot differs. `None`: this side does not list it.
    Slot {
        /// Whose.
        address: Address,
        /// Which.
        slot: B256,
        /// Before and after on the first side.
        left: Option<(B256, B256)>,
        /// Before and after on the second side.
        right: Option<(B256, B256)>,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account { address, left, right } => {
                write!(f, "account {address}: {left:?} is not {right:?}")
            }
            Self::Slot { address, slot, left, right } => {
                write!(f, "account {address} slot {slot}: {left:?} is not {right:?}")
            }
        }
    }
}

impl StateDiff {
    /// The first place where this diff and `other` differ, by address and slot.
    ///
    /// In an account that either side marks as wiped, slots listed by one side only do not count
    /// unless they end non-zero, and values from before the wipe count only where both know them:
    /// see [`AccountDelta::wiped`].
    pub fn first_mismatch(&self, other: &Self) -> Option<Mismatch> {
        let addresses: BTreeSet<_> =
            self.iter().chain(other.iter()).map(|(address, _)| *address).collect();
        addresses
            .into_iter()
            .find_map(|address| mismatch_of(address, self.get(&address), other.get(&address)))
    }
}

fn mismatch_of(
    address: Address,
    left: Option<&AccountDelta>,
    right: Option<&AccountDelta>,
) -> Option<Mismatch> {
    let none = AccountDelta::default();
    let ends = |delta: Option<&AccountDelta>| delta.map(|delta| (delta.pre, delta.post));
    let (l, r) = (left.unwrap_or(&none), right.unwrap_or(&none));
    let wiped = l.wiped || r.wiped;
    if ends(left) != ends(right) || l.wiped != r.wiped {
        return Some(Mismatch::Account { address, left: ends(left), right: ends(right) });
    }
    let slots: BTreeSet<_> = l.storage.iter().chain(&r.storage).map(|slot| slot.slot).collect();
    slots.into_iter().find_map(|slot| {
        let find = |delta: &AccountDelta| {
            let at = delta.storage.binary_search_by_key(&slot, |delta| delta.slot).ok()?;
            Some((delta.storage[at].pre, delta.storage[at].post))
        };
        let (left, right) = (find(l), find(r));
        let same = match (left, right) {
            (None, Some((_, post))) | (Some((_, post)), None) if wiped => post.is_zero(),
            (Some((pre_l, post_l)), Some((pre_r, post_r))) if wiped => {
                post_l == post_r && (pre_l == pre_r || pre_l.is_zero() || pre_r.is_zero())
            }
            _ => left == right,
        };
        (!same).then_some(Mismatch::Slot { address, slot, left, right })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SlotDelta;

    #[test]
    fn one_changed_value_is_found() {
        let address = Address::with_last_byte(1);
        let slot = B256::with_last_byte(2);
        let with = |post: u8| {
            let storage =
                vec![SlotDelta::new(slot, B256::with_last_byte(3), B256::with_last_byte(post))];
            let delta = AccountDelta {
                pre: Some(AccountInfo::EMPTY),
                post: Some(AccountInfo::EMPTY),
                storage,
                wiped: false,
            };
            StateDiff::from_unsorted(vec![(address, delta)])
        };
        assert_eq!(with(4).first_mismatch(&with(4)), None);
        assert!(matches!(
            with(4).first_mismatch(&with(5)),
            Some(Mismatch::Slot { slot: found, .. }) if found == slot
        ));
        assert!(matches!(
            with(4).first_mismatch(&StateDiff::default()),
            Some(Mismatch::Account { right: None, .. })
        ));
    }
}

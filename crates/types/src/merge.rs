use crate::{AccountDelta, Mismatch, SlotDelta, StateDiff};
use alloy_primitives::{
    Address, B256,
    map::{AddressMap, Entry, HashMap},
};
use std::cmp::Ordering;

impl StateDiff {
    /// This change followed by `later`, as one change. What returns to its old value drops out.
    ///
    /// The two must be adjacent: `later` starts from the state this one ends in.
    pub fn merge(self, later: Self) -> Self {
        let mut merged = Vec::with_capacity(self.len().max(later.len()));
        let mut first = self.into_accounts().into_iter().peekable();
        let mut second = later.into_accounts().into_iter().peekable();
        loop {
            let order = match (first.peek(), second.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let entry = match order {
                Ordering::Less => first.next(),
                Ordering::Greater => second.next(),
                Ordering::Equal => {
                    first.next().zip(second.next()).map(|((address, first), (_, second))| {
                        (address, merge_accounts(first, second))
                    })
                }
            };
            merged.extend(entry.filter(|(_, delta)| !delta.is_noop()));
        }
        Self::from_sorted(merged)
    }

    /// Many adjacent changes as one; the same as merging them one by one, in linear time.
    pub fn fold<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::folded(parts, |_, _, _| Ok::<_, std::convert::Infallible>(()))
            .unwrap_or_else(|never| match never {})
    }

    /// As [`Self::fold`], of changes that may not be adjacent after all: where a part does not
    /// start from what an earlier one left, that place is the error, what was left on the left
    /// and what the part starts from on the right.
    pub fn fold_adjacent<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, Mismatch> {
        Self::folded(parts, Folded::leads_to)
    }

    fn folded<'a, E>(
        parts: impl IntoIterator<Item = &'a Self>,
        check: impl Fn(&Folded, &Address, &AccountDelta) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut accounts: AddressMap<Folded> = AddressMap::default();
        for (address, delta) in parts.into_iter().flatten() {
            match accounts.entry(*address) {
                Entry::Occupied(mut known) => {
                    check(known.get(), address, delta)?;
                    known.get_mut().apply(delta);
                }
                Entry::Vacant(new) => drop(new.insert(Folded::new(delta))),
            }
        }
        let folded = accounts.into_iter().map(|(address, folded)| (address, folded.finish()));
        Ok(Self::from_unsorted(folded.collect()))
    }
}

fn merge_accounts(first: AccountDelta, second: AccountDelta) -> AccountDelta {
    let mut folded = Folded::new(&first);
    folded.apply(&second);
    let mut delta = folded.finish();
    let wiped = delta.wiped;
    delta.storage.retain(|slot| slot.counts(wiped));
    delta.storage.sort_unstable_by_key(|slot| slot.slot);
    delta
}

/// An account on its way through several changes.
struct Folded {
    pre: Option<crate::AccountInfo>,
    post: Option<crate::AccountInfo>,
    wiped: bool,
    slots: HashMap<B256, (B256, B256)>,
}

impl Folded {
    fn new(delta: &AccountDelta) -> Self {
        Self {
            pre: delta.pre,
            post: delta.post,
            wiped: delta.wiped,
            slots: delta.storage.iter().map(|s| (s.slot, (s.pre, s.post))).collect(),
        }
    }

    /// Whether `later` starts from where this one ends, as far as both know.
    fn leads_to(&self, address: &Address, later: &AccountDelta) -> Result<(), Mismatch> {
        let address = *address;
        if self.post != later.pre {
            let (left, right) = (Some((self.pre, self.post)), Some((later.pre, later.post)));
            return Err(Mismatch::Account { address, left, right });
        }
        for SlotDelta { slot, pre, post } in &later.storage {
            if let Some(known) = self.slots.get(slot)
                && known.1 != *pre
            {
                let (slot, left, right) = (*slot, Some(*known), Some((*pre, *post)));
                return Err(Mismatch::Slot { address, slot, left, right });
            }
        }
        Ok(())
    }

    fn apply(&mut self, later: &AccountDelta) {
        if later.wiped {
            // Slots seen before were cleared, listed again or not.
            for (_, post) in self.slots.values_mut() {
                *post = B256::ZERO;
            }
            // Only an account that was there at the start can have lost unlisted slots.
            self.wiped |= self.pre.is_some();
        }
        for SlotDelta { slot, pre, post } in &later.storage {
            self.slots.entry(*slot).and_modify(|known| known.1 = *post).or_insert((*pre, *post));
        }
        self.post = later.post;
    }

    fn finish(self) -> AccountDelta {
        let storage = self
            .slots
            .into_iter()
            .map(|(slot, (pre, post))| SlotDelta { slot, pre, post })
            .collect();
        AccountDelta { pre: self.pre, post: self.post, storage, wiped: self.wiped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccountInfo;
    use alloy_primitives::U256;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A plain reference: a state is a map, a diff is two states compared.
    type Model = BTreeMap<u8, (AccountInfo, BTreeMap<u8, u8>)>;

    fn word(value: u8) -> B256 {
        B256::with_last_byte(value)
    }

    fn difference(before: &Model, after: &Model) -> StateDiff {
        let keys: std::collections::BTreeSet<u8> =
            before.keys().chain(after.keys()).copied().collect();
        StateDiff::from_unsorted(
            keys.into_iter()
                .map(|key| {
                    let (a, b) = (before.get(&key), after.get(&key));
                    let slots = |side: Option<&(AccountInfo, BTreeMap<u8, u8>)>| {
                        side.map(|(_, slots)| slots.clone()).unwrap_or_default()
                    };
                    let (sa, sb) = (slots(a), slots(b));
                    let all: std::collections::BTreeSet<u8> =
                        sa.keys().chain(sb.keys()).copied().collect();
                    let storage = all
                        .into_iter()
                        .map(|slot| {
                            let get =
                                |m: &BTreeMap<u8, u8>| word(m.get(&slot).copied().unwrap_or(0));
                            SlotDelta::new(word(slot), get(&sa), get(&sb))
                        })
                        .collect();
                    let delta = AccountDelta {
                        pre: a.map(|(info, _)| *info),
                        post: b.map(|(info, _)| *info),
                        storage,
                        wiped: false,
                    };
                    (Address::with_last_byte(key), delta)
                })
                .collect(),
        )
    }

    fn apply(state: &Model, diff: &StateDiff) -> Model {
        let mut state = state.clone();
        for (address, delta) in diff {
            let key = address.0[19];
            let mut slots = state.get(&key).map(|(_, slots)| slots.clone()).unwrap_or_default();
            for slot in &delta.storage {
                assert_eq!(slots.get(&slot.slot.0[31]).copied().unwrap_or(0), slot.pre.0[31]);
                slots.insert(slot.slot.0[31], slot.post.0[31]);
            }
            slots.retain(|_, value| *value != 0);
            assert_eq!(state.get(&key).map(|(info, _)| *info), delta.pre);
            match delta.post {
                Some(info) => state.insert(key, (info, slots)),
                None => state.remove(&key),
            };
        }
        state
    }

    fn account() -> impl Strategy<Value = (AccountInfo, BTreeMap<u8, u8>)> {
        (0u64..3, 0u64..3, prop::collection::btree_map(0u8..4, 1u8..4, 0..4)).prop_map(
            |(nonce, balance, slots)| {
                (AccountInfo { nonce, balance: U256::from(balance), ..AccountInfo::EMPTY }, slots)
            },
        )
    }

    fn state() -> impl Strategy<Value = Model> {
        prop::collection::btree_map(0u8..5, account(), 0..5)
    }

    proptest! {
        #[test]
        fn a_merge_is_the_difference_of_its_ends(states in prop::collection::vec(state(), 3)) {
            let ab = difference(&states[0], &states[1]);
            let bc = difference(&states[1], &states[2]);
            let merged = ab.merge(bc);
            prop_assert_eq!(&merged, &difference(&states[0], &states[2]));
            prop_assert_eq!(apply(&states[0], &merged), states[2].clone());
        }

        #[test]
        fn merging_is_associative(states in prop::collection::vec(state(), 4)) {
            let d: Vec<_> = states.windows(2).map(|w| difference(&w[0], &w[1])).collect();
            let left = d[0].clone().merge(d[1].clone()).merge(d[2].clone());
            let right = d[0].clone().merge(d[1].clone().merge(d[2].clone()));
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(&left, &StateDiff::fold(&d));
            prop_assert_eq!(Ok(left), StateDiff::fold_adjacent(&d));
        }

        #[test]
        fn a_diff_and_its_inverse_cancel(states in prop::collection::vec(state(), 2)) {
            let diff = difference(&states[0], &states[1]);
            prop_assert!(diff.clone().merge(diff.clone().invert()).is_empty());
            prop_assert_eq!(apply(&states[1], &diff.clone().invert()), states[0].clone());
            prop_assert_eq!(diff.clone().invert().invert(), diff);
        }

        #[test]
        fn dropping_no_ops_is_idempotent(states in prop::collection::vec(state(), 2)) {
            let diff = difference(&states[0], &states[1]);
            prop_assert_eq!(&StateDiff::from_unsorted(diff.clone().into_accounts()), &diff);
            prop_assert_eq!(&diff.clone().merge(StateDiff::default()), &diff);
            prop_assert_eq!(StateDiff::default().merge(diff.clone()), diff);
        }
    }

    #[test]
    fn parts_that_do_not_meet_are_found() {
        let address = Address::with_last_byte(1);
        let info = |nonce| Some(AccountInfo { nonce, ..AccountInfo::EMPTY });
        let part = |pre, post, slot: (u8, u8)| {
            let storage = vec![SlotDelta::new(word(9), word(slot.0), word(slot.1))];
            let delta = AccountDelta { pre: info(pre), post: info(post), storage, wiped: false };
            StateDiff::from_unsorted(vec![(address, delta)])
        };
        let first = part(1, 2, (5, 6));
        let meets = [first.clone(), part(2, 3, (6, 7))];
        assert!(StateDiff::fold_adjacent(&meets).is_ok());
        assert!(matches!(
            StateDiff::fold_adjacent(&[first.clone(), part(1, 3, (6, 7))]),
            Err(Mismatch::Account { .. })
        ));
        assert!(matches!(
            StateDiff::fold_adjacent(&[first, part(2, 3, (5, 7))]),
            Err(Mismatch::Slot { slot, .. }) if slot == word(9)
        ));
    }

    /// tx 1 destroys a contract, tx 2 makes it anew and writes a slot tx 1 never saw.
    #[test]
    fn a_wiped_account_stays_marked() {
        let info = AccountInfo { nonce: 1, ..AccountInfo::EMPTY };
        let address = Address::with_last_byte(1);
        let slot = |s, pre, post| SlotDelta::new(word(s), word(pre), word(post));
        let one = |delta| StateDiff::from_unsorted(vec![(address, delta)]);
        let destroyed = one(AccountDelta {
            pre: Some(info),
            post: None,
            storage: vec![slot(1, 5, 0)],
            wiped: true,
        });
        let reborn = one(AccountDelta {
            pre: None,
            post: Some(info),
            storage: vec![slot(1, 0, 7)],
            wiped: false,
        });
        let both = destroyed.clone().merge(reborn.clone());
        let delta = both.get(&address).unwrap();
        assert!(delta.wiped);
        assert_eq!(delta.storage, vec![slot(1, 5, 7)]);
        // Made and destroyed within the range: nothing was there to lose.
        let gone = reborn.merge(one(AccountDelta {
            pre: Some(info),
            post: None,
            storage: vec![slot(1, 7, 0)],
            wiped: true,
        }));
        assert!(gone.is_empty());
        assert_eq!(destroyed.clone().merge(StateDiff::default()), destroyed);
    }
}

//! Which reply to drop.
//!
//! Greedy-Dual-Size-Frequency (Cherkasova, HPL-98-69): a reply is worth the time it took to make
//! times the number of its uses, for each byte it takes. What was dropped last sets the floor that
//! newly used replies start from, so that old fame fades. One pass over many blocks, each asked
//! for once, drops what was asked for once and leaves the rest.

use super::ReplyKey;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Lowest worth first.
    order: BTreeMap<Rank, ReplyKey>,
    ranks: HashMap<ReplyKey, (Rank, u32)>,
    floor: f64,
    /// Makes ranks of equal worth distinct; the older goes first.
    next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Rank {
    worth: f64,
    age: u64,
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(self.age.cmp(&other.age))
    }
}

impl Policy {
    fn rank(&mut self, cost: Duration, bytes: u64, uses: u32) -> Rank {
        // A microsecond at least: what cost nothing measurable is still worth keeping.
        let cost = cost.as_secs_f64().max(1e-6) * 1e6;
        let worth = self.floor + f64::from(uses) * cost / bytes.max(1) as f64;
        self.next += 1;
        Rank { worth, age: self.next }
    }

    fn place(&mut self, key: ReplyKey, rank: Rank, uses: u32) {
        self.order.insert(rank, key.clone());
        self.ranks.insert(key, (rank, uses));
    }

    pub(super) fn insert(&mut self, key: ReplyKey, cost: Duration, bytes: u64) {
        self.remove(&key);
        let rank = self.rank(cost, bytes, 1);
        self.place(key, rank, 1);
    }

    /// The reply was used.
    pub(super) fn touch(&mut self, key: &ReplyKey, cost: Duration, bytes: u64) {
        if let Some((rank, uses)) = self.ranks.get(key).copied() {
            self.order.remove(&rank);
            let uses = uses.saturating_add(1);
            let rank = self.rank(cost, bytes, uses);
            self.place(key.clone(), rank, uses);
        }
    }

    pub(super) fn remove(&mut self, key: &ReplyKey) {
        if let Some((rank, _)) = self.ranks.remove(key) {
            self.order.remove(&rank);
        }
    }

    /// The next to go. Its worth becomes the floor; the caller removes it.
    pub(super) fn least_valuable(&mut self) -> Option<ReplyKey> {
        let (rank, key) = self.order.first_key_value()?;
        self.floor = rank.worth;
        Some(key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;

    fn key(number: u8) -> ReplyKey {
        ReplyKey { block_hash: B256::with_last_byte(number), view: "test", options: "".into() }
    }

    fn next(policy: &mut Policy) -> Option<ReplyKey> {
        let key = policy.least_valuable()?;
        policy.remove(&key);
        Some(key)
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn of_equals_the_oldest_goes_first() {
        let mut policy = Policy::default();
        (0..3).for_each(|number| policy.insert(key(number), MS, 100));
        policy.touch(&key(0), MS, 100);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut policy)).collect();
        assert_eq!(order, [key(1), key(2), key(0)]);
    }

    #[test]
    fn large_and_cheap_goes_before_small_and_dear() {
        let mut policy = Policy::default();
        policy.insert(key(0), MS, 100);
        policy.insert(key(1), MS, 10_000);
        policy.insert(key(2), 50 * MS, 100);
        let order: Vec<_> = std::iter::from_fn(|| next(&mut policy)).collect();
        assert_eq!(order, [key(1), key(0), key(2)]);
    }

    #[test]
    fn old_fame_fades() {
        let mut policy = Policy::default();
        policy.insert(key(0), MS, 100);
        (0..5).for_each(|_| policy.touch(&key(0), MS, 100));
        // Newcomers come and go, each raising the floor.
        let survived = (1..=100).take_while(|number| {
            policy.insert(key(*number), MS, 100);
            next(&mut policy) != Some(key(0))
        });
        let survived = survived.count();
        assert!((2..20).contains(&survived), "{survived}");
    }
}

//! Diff-mode traces of a block, merged into what the block did to the watched slots. No I/O.
//!
//! Geth's rules are those of `eth/tracers/native/prestate.go`, `processDiffState`: `pre` and `post`
//! of a changed account hold its changed slots, each without zeros; an account missing from `post`
//! is said to be gone. A slot that neither side lists did not change.

use crate::SlotKey;
use alloy_primitives::{Address, B256};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, Unexpected, Visitor},
};
use std::{collections::BTreeMap, fmt};

/// One entry of `debug_traceBlockByHash`. Only what slots need is kept: the rest, most of it
/// contract code, is skipped while reading.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TxTrace {
    pub(crate) tx_hash: Option<B256>,
    pub(crate) result: Option<TxDiff>,
    pub(crate) error: Option<IgnoredAny>,
}

/// Both sides of a transaction.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct TxDiff {
    pub(crate) pre: BTreeMap<Address, Account>,
    pub(crate) post: BTreeMap<Address, Account>,
}

/// An account on one side.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Account {
    #[serde(default)]
    pub(crate) storage: BTreeMap<Word, Word>,
}

/// 32 bytes in hex; some nodes leave leading zeros out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word(pub(crate) B256);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordVisitor)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("up to 32 bytes in hex")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        word(text).map(Word).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads up to 64 hex digits behind `0x`, as a number.
pub(crate) fn word(text: &str) -> Option<B256> {
    let digits = text.strip_prefix("0x")?;
    if digits.is_empty() || digits.len() > 64 {
        return None;
    }
    let mut padded = [b'0'; 64];
    padded[64 - digits.len()..].copy_from_slice(digits.as_bytes());
    std::str::from_utf8(&padded).ok()?.parse().ok()
}

/// Why a value that a trace gives is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// The trace says that the account is gone. Geth says so, too, of a SELFDESTRUCT in a frame
    /// that was undone, and of one that EIP-6780 makes void after a CREATE2 that collided.
    Gone,
    /// The value before is not the one known: something changed the slot outside transactions, or
    /// one of the two is wrong.
    Mismatch,
}

/// What a block did to the watched slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlockChanges {
    /// Slots touched: the value after the block, or why it has to be read.
    pub(crate) slots: BTreeMap<SlotKey, Result<B256, Doubt>>,
}

impl BlockChanges {
    pub(crate) fn count(&self, doubt: Doubt) -> u64 {
        self.slots.values().filter(|value| **value == Err(doubt)).count() as u64
    }

    /// As the ledger takes them.
    pub(crate) fn values(&self) -> impl Iterator<Item = (SlotKey, Option<B256>)> + '_ {
        self.slots.iter().map(|(key, value)| (*key, value.ok()))
    }
}

/// Merges a block's transactions in order. `slots_of` gives the watched slots of an account,
/// `before` a slot's value after the parent block where it is known.
pub(crate) fn merge<Slots: IntoIterator<Item = SlotKey>>(
    txs: &[TxDiff],
    slots_of: impl Fn(Address) -> Slots,
    before: impl Fn(&SlotKey) -> Option<B256>,
) -> BlockChanges {
    let mut changes = BlockChanges::default();
    for tx in txs {
        for (address, pre) in &tx.pre {
            match tx.post.get(address) {
                Some(post) => {
                    merge_account(&mut changes, slots_of(*address), Some(pre), post, &before);
                }
                // Slots that were sure to change back later in the block do so below.
                None => changes
                    .slots
                    .extend(slots_of(*address).into_iter().map(|key| (key, Err(Doubt::Gone)))),
            }
        }
        // Made or first funded in this transaction.
        for (address, post) in &tx.post {
            if !tx.pre.contains_key(address) {
                merge_account(&mut changes, slots_of(*address), None, post, &before);
            }
        }
    }
    changes
}

fn merge_account(
    changes: &mut BlockChanges,
    watched: impl IntoIterator<Item = SlotKey>,
    pre: Option<&Account>,
    post: &Account,
    before: &impl Fn(&SlotKey) -> Option<B256>,
) {
    for key in watched {
        let slot = Word(key.slot);
        let old = pre.and_then(|pre| pre.storage.get(&slot));
        let new = post.storage.get(&slot);
        if old.is_none() && new.is_none() {
            continue;
        }
        // Zeros are left out on both sides.
        let value = |word: Option<&Word>| word.map_or(B256::ZERO, |word| word.0);
        let known = match changes.slots.get(&key) {
            Some(Err(Doubt::Mismatch)) => continue,
            Some(Err(Doubt::Gone)) => None,
            Some(Ok(value)) => Some(*value),
            None => before(&key),
        };
        // Geth drops an account from `pre` that had neither balance, nonce nor code, whatever
        // slots it has: nothing to compare then.
        let fits = pre.is_none() || known.is_none_or(|known| known == value(old));
        changes.slots.insert(key, if fits { Ok(value(new)) } else { Err(Doubt::Mismatch) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const A: Address = Address::repeat_byte(0xaa);
    const B: Address = Address::repeat_byte(0xbb);

    fn name(address: Address) -> String {
        address.to_string().to_lowercase()
    }

    fn key(address: Address, slot: u8) -> SlotKey {
        SlotKey::new(address, B256::with_last_byte(slot))
    }

    fn of(n: u8) -> Result<B256, Doubt> {
        Ok(B256::with_last_byte(n))
    }

    /// Slots 1 to 4 of A and 1 of B are watched; each held its own number before.
    fn merged(block: serde_json::Value) -> Vec<(SlotKey, Result<B256, Doubt>)> {
        let traces: Vec<TxTrace> = serde_json::from_value(block).unwrap();
        let txs: Vec<_> = traces.into_iter().map(|trace| trace.result.unwrap()).collect();
        let watched = |address| match address {
            A => (1..=4).map(|slot| key(A, slot)).collect(),
            B => vec![key(B, 1)],
            _ => Vec::new(),
        };
        merge(&txs, watched, |key| Some(key.slot)).slots.into_iter().collect()
    }

    #[test]
    fn a_cleared_slot_is_missing_from_post() {
        let block = json!([{ "txHash": B256::ZERO, "result": {
            "pre": {
                (name(A)): { "balance": "0x0", "nonce": 1, "code": "0x00", "storage": { key(A, 1).slot.to_string(): key(A, 1).slot } },
                (name(B)): { "balance": "0x1", "storage": {} },
            },
            "post": { (name(A)): {}, (name(B)): { "balance": "0x2" } },
        } }]);
        assert_eq!(merged(block), [(key(A, 1), of(0))]);
    }

    #[test]
    fn transactions_on_the_same_slot_chain_up() {
        let tx = |slot: &str, old: &str, new: &str| {
            json!({ "result": {
                "pre": { (name(A)): { "storage": { (slot): old } } },
                "post": { (name(A)): { "storage": { (slot): new } } },
            } })
        };
        let block =
            json!([tx("0x1", "0x1", "0x7"), tx("0x01", "0x7", "0x8"), tx("0x2", "0x2", "0x9")]);
        assert_eq!(merged(block), [(key(A, 1), of(8)), (key(A, 2), of(9))]);
        let broken =
            json!([tx("0x1", "0x1", "0x7"), tx("0x1", "0x6", "0x8"), tx("0x1", "0x8", "0x9")]);
        assert_eq!(merged(broken), [(key(A, 1), Err(Doubt::Mismatch))], "7 is not 6; it stays so");
        let system = json!([tx("0x3", "0x5", "0x7")]);
        assert_eq!(merged(system), [(key(A, 3), Err(Doubt::Mismatch))], "changed unseen before");
    }

    #[test]
    fn what_is_said_to_be_gone_is_read() {
        let gone = json!({ "result": { "pre": { (name(A)): { "nonce": 1 } }, "post": {} } });
        let all_gone: Vec<_> = (1..=4).map(|slot| (key(A, slot), Err(Doubt::Gone))).collect();
        assert_eq!(merged(json!([gone])), all_gone);
        // Made anew in the next transaction: its slots are sure again, the others are not.
        let again = json!({ "result": { "pre": {}, "post": { (name(A)): { "nonce": 1, "storage": { "0x2": "0x5" } } } } });
        let mut expected = all_gone;
        expected[1].1 = of(5);
        assert_eq!(merged(json!([gone, again])), expected);
    }

    #[test]
    fn a_new_account_is_in_post_only() {
        let block = json!([{ "result": {
            "pre": {}, "post": { (name(B)): { "nonce": 1, "code": "0x00", "storage": { "0x1": "0x5" } } },
        } }]);
        assert_eq!(merged(block), [(key(B, 1), of(5))]);
        assert!(
            merged(
                json!([{ "result": { "pre": {}, "post": { (name(B)): { "balance": "0x5" } } } }])
            )
            .is_empty()
        );
    }

    #[test]
    fn words_may_be_short() {
        assert_eq!(word("0x1"), Some(B256::with_last_byte(1)));
        assert_eq!(word(&B256::repeat_byte(7).to_string()), Some(B256::repeat_byte(7)));
        for bad in ["", "0x", "1", "0xg", &format!("0x{}", "0".repeat(65)), "0xé"] {
            assert_eq!(word(bad), None, "{bad}");
        }
    }
}

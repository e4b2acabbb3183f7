//! `stateDiff`: what a transaction changed, in OpenEthereum's form (`ethcore/types/state_diff`,
//! `ethcore/pod/account`).

use alloy_primitives::{B256, Bytes, U64};
use alloy_rpc_types_trace::parity::{AccountDiff, Delta, StateDiff as ParityStateDiff};
use prestate_types::{AccountDelta, AccountInfo, Codes, StateDiff};

/// The changes of one transaction. `codes` has to hold the codes of both sides.
///
/// An account that did not exist before is added with all its fields, one that does not exist
/// afterwards is removed with all of them, storage as far as the transaction touched it. Whatever
/// brought a change about counts, EIP-7702's delegations and changes that outlive a revert too.
pub fn parity_state_diff(diff: &StateDiff, codes: &Codes) -> ParityStateDiff {
    ParityStateDiff(
        diff.iter().map(|(address, delta)| (*address, account_diff(delta, codes))).collect(),
    )
}

fn account_diff(delta: &AccountDelta, codes: &Codes) -> AccountDiff {
    let code = |info: &AccountInfo| -> Bytes {
        if info.has_code() { codes.get(&info.code_hash).unwrap_or_default() } else { Bytes::new() }
    };
    let nonce = |info: &AccountInfo| U64::from(info.nonce);
    let storage = delta.storage.iter().filter_map(|slot| {
        let change = match (delta.pre.is_some(), delta.post.is_some()) {
            (false, _) => (!slot.post.is_zero()).then_some(Delta::Added(slot.post)),
            (true, false) => (!slot.pre.is_zero()).then_some(Delta::Removed(slot.pre)),
            (true, true) => Some(changed(slot.pre, slot.post)),
        };
        Some((slot.slot, change?))
    });
    let storage = storage.collect::<std::collections::BTreeMap<B256, Delta<B256>>>();
    match (&delta.pre, &delta.post) {
        (Some(pre), Some(post)) => AccountDiff {
            balance: changed(pre.balance, post.balance),
            code: if pre.code_hash == post.code_hash {
                Delta::Unchanged
            } else {
                Delta::changed(code(pre), code(post))
            },
            nonce: changed(nonce(pre), nonce(post)),
            storage,
        },
        (None, Some(post)) => AccountDiff {
            balance: Delta::Added(post.balance),
            code: Delta::Added(code(post)),
            nonce: Delta::Added(nonce(post)),
            storage,
        },
        (Some(pre), None) => AccountDiff {
            balance: Delta::Removed(pre.balance),
            code: Delta::Removed(code(pre)),
            nonce: Delta::Removed(nonce(pre)),
            storage,
        },
        (None, None) => AccountDiff {
            balance: Delta::Unchanged,
            code: Delta::Unchanged,
            nonce: Delta::Unchanged,
            storage,
        },
    }
}

fn changed<T: PartialEq>(from: T, to: T) -> Delta<T> {
    if from == to { Delta::Unchanged } else { Delta::changed(from, to) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, U256, keccak256};
    use prestate_types::{KECCAK_EMPTY, SlotDelta};

    fn info(balance: u64, nonce: u64, code: &[u8]) -> AccountInfo {
        let code_hash = if code.is_empty() { KECCAK_EMPTY } else { keccak256(code) };
        AccountInfo { balance: U256::from(balance), nonce, code_hash }
    }

    fn slot(slot: u8, pre: u8, post: u8) -> SlotDelta {
        let word = B256::with_last_byte;
        SlotDelta { slot: word(slot), pre: word(pre), post: word(post) }
    }

    fn diff(delta: AccountDelta) -> AccountDiff {
        let mut codes = Codes::default();
        for code in [&b"old"[..], b"new"] {
            codes.insert(keccak256(code), Bytes::copy_from_slice(code));
        }
        account_diff(&delta, &codes)
    }

    #[test]
    fn changed_fields_only() {
        // A delegation set, which revm-inspectors#509 left out.
        let changed = diff(AccountDelta {
            pre: Some(info(1, 1, b"")),
            post: Some(info(1, 2, b"new")),
            storage: vec![slot(1, 5, 0), slot(2, 0, 9)],
            wiped: false,
        });
        assert_eq!(changed.balance, Delta::Unchanged);
        assert_eq!(changed.nonce, Delta::changed(U64::from(1), U64::from(2)));
        assert_eq!(changed.code, Delta::changed(Bytes::new(), Bytes::from_static(b"new")));
        assert_eq!(
            changed.storage[&B256::with_last_byte(1)],
            Delta::changed(B256::with_last_byte(5), B256::ZERO)
        );
    }

    #[test]
    fn accounts_that_come_and_go() {
        let born = diff(AccountDelta {
            pre: None,
            post: Some(info(7, 1, b"new")),
            storage: vec![slot(1, 0, 3)],
            wiped: false,
        });
        assert_eq!(born.balance, Delta::Added(U256::from(7)));
        assert_eq!(born.code, Delta::Added(Bytes::from_static(b"new")));
        assert_eq!(born.storage[&B256::with_last_byte(1)], Delta::Added(B256::with_last_byte(3)));
        // A deletion, which revm-inspectors#510 left out.
        let gone = diff(AccountDelta {
            pre: Some(info(7, 1, b"old")),
            post: None,
            storage: vec![slot(1, 3, 0), slot(2, 0, 0)],
            wiped: true,
        });
        assert_eq!(gone.balance, Delta::Removed(U256::from(7)));
        assert_eq!(gone.nonce, Delta::Removed(U64::from(1)));
        assert_eq!(gone.code, Delta::Removed(Bytes::from_static(b"old")));
        assert_eq!(gone.storage.len(), 1);
    }

    #[test]
    fn keyed_by_address() {
        let delta =
            AccountDelta { pre: None, post: Some(info(1, 0, b"")), ..AccountDelta::default() };
        let diff = StateDiff::from_unsorted(vec![(Address::repeat_byte(1), delta)]);
        let parity = parity_state_diff(&diff, &Codes::default());
        assert_eq!(parity.0[&Address::repeat_byte(1)].code, Delta::Added(Bytes::new()));
    }
}

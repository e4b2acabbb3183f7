use alloy_primitives::{Address, B256};
use prestate_types::{
    AccountDelta, AccountInfo, Codes, KECCAK_EMPTY, SlotDelta, StateDiff, ZeroReads,
};
use revm::{
    bytecode::Bytecode,
    state::{self, Account, EvmState},
};

/// What one commit of the EVM changed, from its journal: the state before and after are both in
/// it, so nothing has to be read again.
///
/// Returned beside the diff: the slots that read zero in destroyed accounts ([`ZeroReads`]). The
/// journal loads a slot also where Geth's tracer does not look it up (an SSTORE that runs out of
/// gas after its load), so the list is an upper bound.
///
/// Codes of the accounts in the diff that the journal holds are added to `codes`; `missing` gets
/// the hashes of the others.
pub fn state_diff(
    changes: &EvmState,
    codes: &mut Codes,
    missing: &mut Vec<B256>,
) -> (StateDiff, ZeroReads) {
    let mut accounts = Vec::with_capacity(changes.len());
    let mut zero_reads = ZeroReads::new();
    for (address, account) in changes {
        // What is not touched is not committed.
        if !account.is_touched() {
            continue;
        }
        let delta = account_delta(account);
        if delta.is_noop() {
            continue;
        }
        keep_codes(account, &delta, codes, missing);
        if delta.post.is_none() {
            let mut slots: Vec<B256> = account
                .storage
                .iter()
                .filter(|(_, slot)| slot.original_value().is_zero())
                .map(|(key, _)| B256::from(*key))
                .collect();
            if !slots.is_empty() {
                slots.sort_unstable();
                zero_reads.push((*address, slots));
            }
        }
        accounts.push((*address, delta));
    }
    zero_reads.sort_unstable_by_key(|(address, _)| *address);
    (StateDiff::from_unsorted(accounts), zero_reads)
}

/// An account's change as the state commits it (revm-database `CacheState::apply_account_state`).
fn account_delta(account: &Account) -> AccountDelta {
    let pre = (!account.is_loaded_as_not_existing()).then(|| info(&account.original_info()));
    // EIP-161: touched and empty means deleted. Before that fork the journal has taken the touch
    // off, or marked the account created.
    let exists = !account.is_selfdestructed() && (account.is_created() || !account.is_empty());
    let post = exists.then(|| info(&account.info));
    let storage = account
        .storage
        .iter()
        .map(|(key, slot)| {
            let after = if exists { slot.present_value() } else { Default::default() };
            SlotDelta::new((*key).into(), slot.original_value().into(), after.into())
        })
        .filter(|slot| !slot.is_noop())
        .collect();
    // With the account goes its storage.
    let wiped = pre.is_some() && post.is_none();
    AccountDelta { pre, post, storage, wiped }
}

fn keep_codes(account: &Account, delta: &AccountDelta, codes: &mut Codes, missing: &mut Vec<B256>) {
    let sides = [(delta.pre, &account.original_info().code), (delta.post, &account.info.code)];
    for (side, code) in sides {
        let Some(side) = side.filter(|side| !codes.covers(side)) else { continue };
        match code.as_ref().filter(|code| !code.is_empty()) {
            Some(code) => codes.insert(side.code_hash, original_bytes(code)),
            None => missing.push(side.code_hash),
        }
    }
}

/// The code as the state holds it, without the EVM's padding.
pub(crate) fn original_bytes(code: &Bytecode) -> alloy_primitives::Bytes {
    code.original_bytes()
}

/// revm's account as ours.
pub(crate) fn info(info: &state::AccountInfo) -> AccountInfo {
    let code_hash = if info.code_hash.is_zero() { KECCAK_EMPTY } else { info.code_hash };
    AccountInfo { nonce: info.nonce, balance: info.balance, code_hash }
}

/// An account as it stands after the EVM's changes, `None` if it does not exist then; the outer
/// `None` means that the changes do not touch it.
pub(crate) fn after(changes: &EvmState, address: &Address) -> Option<Option<AccountInfo>> {
    let account = changes.get(address).filter(|account| account.is_touched())?;
    Some(account_delta(account).post)
}

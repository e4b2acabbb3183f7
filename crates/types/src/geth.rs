#[cfg(doc)]
use crate::KECCAK_EMPTY;
use crate::{AccountDelta, AccountInfo, TxDiff};
use alloy_primitives::{Address, B256, U256};

/// Options of Geth's `prestateTracer` that change what is printed
/// (`eth/tracers/native/prestate.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GethOptions {
    /// Leave `code` out; `codeHash` stays (rule C3).
    pub disable_code: bool,
    /// Leave `storage` out; an account that changed storage only is then no change (rule D6).
    pub disable_storage: bool,
}

/// One account as `prestateTracer` prints it; `None`, zero nonce and empty storage are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GethAccount {
    /// Balance in wei.
    pub balance: Option<U256>,
    /// Hash of the code to print; [`KECCAK_EMPTY`] prints `"0x"`.
    pub code: Option<B256>,
    /// `codeHash`.
    pub code_hash: Option<B256>,
    /// Nonce.
    pub nonce: u64,
    /// Slots, ascending.
    pub storage: Vec<(B256, B256)>,
}

/// Accounts ascending by address: the result of the plain mode.
pub type GethState = Vec<(Address, GethAccount)>;

/// The result of the diff mode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GethDiff {
    /// Before.
    pub pre: GethState,
    /// After; changed fields only.
    pub post: GethState,
}

impl GethAccount {
    /// All fields of an account as it stood before (rule C1).
    pub fn snapshot(info: &AccountInfo, options: GethOptions) -> Self {
        let code = info.has_code().then_some(info.code_hash);
        Self {
            balance: Some(info.balance),
            code: code.filter(|_| !options.disable_code),
            code_hash: code,
            nonce: info.nonce,
            storage: Vec::new(),
        }
    }

    /// The fields of an account that changed (rules D2 to D5), or `None` if none did.
    pub fn changes(pre: &AccountInfo, post: &AccountInfo, options: GethOptions) -> Option<Self> {
        let new_code = (pre.code_hash != post.code_hash).then_some(post.code_hash);
        let changes = Self {
            balance: (pre.balance != post.balance).then_some(post.balance),
            code: new_code.filter(|_| !options.disable_code),
            code_hash: new_code,
            nonce: if pre.nonce == post.nonce { 0 } else { post.nonce },
            storage: Vec::new(),
        };
        (pre != post).then_some(changes)
    }
}

impl GethDiff {
    /// What Geth prints for a transaction, from what it really changed: `prestateTracer` in diff
    /// mode without the artefacts that contradict the state (rules D9, E2 and E3).
    pub fn of(tx: &TxDiff, options: GethOptions) -> Self {
        let mut diff = Self::default();
        for (address, delta) in &tx.diff {
            let reads = tx
                .zero_reads
                .binary_search_by_key(address, |(reader, _)| *reader)
                .map_or(&[][..], |at| &tx.zero_reads[at].1);
            diff.push(*address, delta, reads, options);
        }
        diff
    }

    fn push(
        &mut self,
        address: Address,
        delta: &AccountDelta,
        zero_reads: &[B256],
        options: GethOptions,
    ) {
        let before = delta.pre.unwrap_or_default();
        let mut pre = GethAccount::snapshot(&before, options);
        let Some(after) = delta.post else {
            // Rules D1 and D10: everything looked up, no post; what was empty is not shown.
            if !before.is_empty() {
                if !options.disable_storage {
                    pre.storage = delta.storage.iter().map(|slot| (slot.slot, slot.pre)).collect();
                    pre.storage.extend(zero_reads.iter().map(|slot| (*slot, B256::ZERO)));
                    pre.storage.sort_unstable();
                }
                self.pre.push((address, pre));
            }
            return;
        };
        let changed_storage = !options.disable_storage && !delta.storage.is_empty();
        let fields = GethAccount::changes(&before, &after, options);
        if fields.is_none() && !changed_storage {
            return;
        }
        let mut post = fields.unwrap_or_default();
        if changed_storage {
            // Rule D6: zero is left out on either side.
            let set = |value: &B256| !value.is_zero();
            let storage = || delta.storage.iter();
            pre.storage = storage().map(|s| (s.slot, s.pre)).filter(|(_, v)| set(v)).collect();
            post.storage = storage().map(|s| (s.slot, s.post)).filter(|(_, v)| set(v)).collect();
        }
        self.post.push((address, post));
        if !before.is_empty() {
            self.pre.push((address, pre));
        }
    }
}

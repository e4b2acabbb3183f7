use alloy_primitives::{B256, U256, b256};

/// Hash of empty code, `keccak256("")`.
pub const KECCAK_EMPTY: B256 =
    b256!("0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");

/// What the state holds of an account, storage apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccountInfo {
    /// Number of transactions sent, or of contracts made (EIP-161: contracts start at 1).
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code; [`KECCAK_EMPTY`] without code, never zero.
    pub code_hash: B256,
}

impl AccountInfo {
    /// An account without nonce, balance or code: what EIP-161 deletes when touched.
    pub const EMPTY: Self = Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK_EMPTY };

    /// Empty in the sense of EIP-161. Storage does not count.
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && !self.has_code()
    }

    /// Whether there is code.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK_EMPTY
    }
}

impl Default for AccountInfo {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// One storage slot before and after. Zero means the slot is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotDelta {
    /// Key of the slot.
    pub slot: B256,
    /// Value before.
    pub pre: B256,
    /// Value after.
    pub post: B256,
}

impl SlotDelta {
    /// A slot from its three parts.
    pub const fn new(slot: B256, pre: B256, post: B256) -> Self {
        Self { slot, pre, post }
    }

    /// Whether nothing changed.
    pub fn is_noop(&self) -> bool {
        self.pre == self.post
    }

    /// Whether it belongs into a diff. In a wiped account a slot that came back to its old value
    /// does: unlisted slots are zero there.
    pub(crate) fn counts(&self, wiped: bool) -> bool {
        !self.is_noop() || (wiped && !self.post.is_zero())
    }
}

/// One account before and after. `None` means the account does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AccountDelta {
    /// Before.
    pub pre: Option<AccountInfo>,
    /// After.
    pub post: Option<AccountInfo>,
    /// Changed slots, ascending by key, none twice.
    pub storage: Vec<SlotDelta>,
    /// The account had been there before and went away with its whole storage, whether or not it
    /// came back (SELFDESTRUCT before EIP-6780; deletion of a touched empty account, EIP-161).
    ///
    /// `storage` then lists the slots whose value before is known; others that were set are now
    /// zero without being listed (so one that holds its old value again is listed), and a slot listed with `pre` zero may have held a value if it
    /// was first seen after that.
    pub wiped: bool,
}

impl AccountDelta {
    /// Whether nothing changed. A wiped account counts as changed.
    pub fn is_noop(&self) -> bool {
        self.pre == self.post && !self.wiped && self.storage.iter().all(SlotDelta::is_noop)
    }

    /// The same change seen from its end.
    pub fn inverted(mut self) -> Self {
        std::mem::swap(&mut self.pre, &mut self.post);
        for slot in &mut self.storage {
            std::mem::swap(&mut slot.pre, &mut slot.post);
        }
        self
    }
}

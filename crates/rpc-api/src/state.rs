use crate::{BlockHandle, CodeOption, SlotValues, quantity};
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most slots that `prestate_getStorage`, `prestate_getAccounts` and the `cold` part of
/// `prestate_resync` read in one call; beyond it -32005.
pub const MAX_READ_SLOTS: usize = 10_000;

/// Slots by account: second parameter of `prestate_getStorage`, `cold` of `prestate_resync`.
pub type SlotsByAccount = BTreeMap<Address, Vec<B256>>;

/// Values by account and slot; every slot asked for is there, zero if not set.
pub type StorageValues = BTreeMap<Address, SlotValues>;

/// Result of `prestate_getStorage`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageAt {
    /// The block after which they were read.
    pub block: BlockHandle,
    /// The values.
    pub storage: StorageValues,
}

/// What `prestate_getAccounts` reads of one account besides balance, nonce and code hash.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AccountQuery {
    /// These slots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<B256>,
    /// `"full"` adds the code; `"none"` leaves out its hash, too.
    pub code: CodeOption,
}

/// An account, as it stands after a block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountState {
    /// Wei.
    pub balance: U256,
    /// Nonce.
    #[serde(with = "quantity")]
    pub nonce: u64,
    /// Keccak-256 of the code, of nothing without code. Left out with `code: "none"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<B256>,
    /// With `code: "full"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Bytes>,
    /// The slots asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: SlotValues,
}

/// Result of `prestate_getAccounts`: all from one and the same state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountsAt {
    /// The block after which they were read.
    pub block: BlockHandle,
    /// `null`: the account does not exist.
    pub accounts: BTreeMap<Address, Option<AccountState>>,
}

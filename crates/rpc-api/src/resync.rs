use crate::{AccountState, BlockHandle, Position, ReorgNotice, SlotsByAccount, StorageValues};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most slots that the `watch` part of `prestate_resync` may name; beyond it -32005.
pub const MAX_WATCHED_SLOTS: usize = 100_000;

/// What a caller keeps of one account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Watch {
    /// These slots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<B256>,
    /// Balance, nonce and code hash.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub account: bool,
}

/// Parameter of `prestate_resync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResyncRequest {
    /// The block whose state the caller holds. It may have left the canonical chain.
    pub from: Position,
    /// What the caller keeps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub watch: BTreeMap<Address, Watch>,
    /// Slots that the caller does not hold yet: read whether or not they changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cold: SlotsByAccount,
    /// Where to stop; the newest block if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<BlockId>,
}

/// Result of `prestate_resync`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resync {
    /// Where the caller was.
    pub from: BlockHandle,
    /// Where the caller is with this reply.
    pub head: BlockHandle,
    /// If `from` left the canonical chain. What it changed is taken back in this reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorg: Option<ReorgNotice>,
    /// Watched slots whose value changed, and all cold ones, with the value at `head`.
    pub storage: StorageValues,
    /// Watched accounts that changed, as they are at `head`; `null`: it does not exist.
    pub accounts: BTreeMap<Address, Option<AccountState>>,
}

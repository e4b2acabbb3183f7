use crate::{BlockHandle, BlockHead, quantity};
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slots with their values, 32 bytes each. A slot that is not set is zero.
pub type SlotValues = BTreeMap<B256, B256>;

/// One side of a diff. `pre` and `post` of a diff have the same keys; an account that does not
/// exist on a side is `null` there and whole on the other, so applying `post` goes forward and
/// applying `pre` goes back.
pub type DiffSide = BTreeMap<Address, Option<AccountChange>>;

/// What one side of a diff says of an account: only what changed, or everything if the account
/// does not exist on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountChange {
    /// Wei.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<U256>,
    /// The code, with `code: "full"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Bytes>,
    /// Keccak-256 of the code, unless `code: "none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_hash: Option<B256>,
    /// Nonce.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// Changed slots, with zeros.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: SlotValues,
    /// The whole storage was cleared on the way (in `post` only): slots that are not listed are
    /// zero now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub storage_wiped: bool,
}

/// Result of `prestate_getBlockDiff`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDiffView {
    /// The block.
    pub block: BlockHead,
    /// Before.
    pub pre: DiffSide,
    /// After.
    pub post: DiffSide,
}

/// What a part of a block changed: a transaction, or the system before or after them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sides {
    /// Before.
    pub pre: DiffSide,
    /// After.
    pub post: DiffSide,
}

/// Result of `prestate_getTransactionDiff`, and one of a block's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionDiffView {
    /// The transaction.
    pub tx_hash: B256,
    /// Its place in the block, from zero.
    #[serde(with = "quantity")]
    pub index: u64,
    /// Before.
    pub pre: DiffSide,
    /// After.
    pub post: DiffSide,
}

/// Result of `prestate_getTransactionDiffs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransactionDiffsView {
    /// The block.
    pub block: BlockHead,
    /// What the system changed before the first transaction, with `system: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_system: Option<Sides>,
    /// In the order of the block.
    pub transactions: Vec<TransactionDiffView>,
    /// What the system changed after the last transaction, with `system: true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_system: Option<Sides>,
}

/// A caller's block that left the canonical chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorgNotice {
    /// Newest block of the caller's chain that is still canonical.
    pub common_ancestor: BlockHandle,
    /// Blocks that left, newest first: the caller's block down to the child of the ancestor.
    pub dropped: Vec<BlockHandle>,
}

/// Result of `prestate_getDiffRange`: the net change from the state after `from` to the state
/// after `to`. What came back to its old value is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffRange {
    /// Where it starts.
    pub from: BlockHandle,
    /// Where it ends.
    pub to: BlockHandle,
    /// If `from` left the canonical chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorg: Option<ReorgNotice>,
    /// At `from`.
    pub pre: DiffSide,
    /// At `to`.
    pub post: DiffSide,
}

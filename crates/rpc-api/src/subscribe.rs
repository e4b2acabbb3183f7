use crate::{BlockHead, CodeOption, DiffSide, Position, TransactionDiffView};
use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// First parameter of `prestate_subscribe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DiffStreamKind {
    /// What each block changed as a whole.
    BlockDiffs,
    /// What each transaction changed.
    TransactionDiffs,
}

/// Second parameter of `prestate_subscribe`. Everything may be left out; an unknown option is
/// refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SubscribeOptions {
    /// The block whose state the caller holds: messages go on from there, without a gap, with
    /// reverts first if it left the canonical chain. Without it they begin with the next block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Position>,
    /// Only these accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<Address>>,
    /// Of these accounts only these slots.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<Address, Vec<B256>>,
    /// How code is shown.
    pub code: CodeOption,
    /// `false` leaves storage out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<bool>,
}

/// What a block changed, in the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StreamedDiff {
    /// `transactionDiffs`.
    Transactions {
        /// In the order of the block.
        transactions: Vec<TransactionDiffView>,
    },
    /// `blockDiffs`.
    Block {
        /// Before.
        pre: DiffSide,
        /// After.
        post: DiffSide,
    },
}

/// A block that came or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamedBlock {
    /// The block.
    pub block: BlockHead,
    /// What it changed; in a revert, too, `pre` is the state before the block was run: apply it to
    /// go back.
    #[serde(flatten)]
    pub diff: StreamedDiff,
}

/// Why a subscription is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CutReason {
    /// The reader fell behind the memory that is kept for it.
    TooSlow,
    /// Diffs of a block could not be made.
    Unavailable,
    /// The server is stopping.
    Stopped,
    /// What was to be replayed from the archive could not be read.
    Archive,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// Last message of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutNotice {
    /// Why.
    pub reason: CutReason,
    /// The same in words.
    pub message: String,
    /// Figures that go with the reason.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// A message of `prestate_subscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[non_exhaustive]
pub enum DiffMessage {
    /// A block joined the canonical chain, on top of the one before.
    Commit(StreamedBlock),
    /// The newest block left it.
    Revert(StreamedBlock),
    /// The subscription is over; subscribe again from the last block seen.
    Cut(CutNotice),
}

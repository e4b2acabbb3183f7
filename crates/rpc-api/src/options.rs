use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How contract code is shown in the `prestate_*` views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeOption {
    /// Not at all.
    None,
    /// As `codeHash`.
    #[default]
    Hash,
    /// As `code` and `codeHash`.
    Full,
}

/// Options of `prestate_getBlockDiff`, `prestate_getTransactionDiffs` and
/// `prestate_getTransactionDiff`. Everything may be left out; an unknown option is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DiffOptions {
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
    /// Most accounts and slots, added up, that a diff may have; beyond it -32005.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Add `preSystem` and `postSystem` to the transactions of a block.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub system: bool,
}

use crate::quantity;
use alloy_primitives::B256;
use prestate_types::{BlockRef, BlockSummary};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// A block by number and hash: `{"number":"0x…","hash":"0x…"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockHandle {
    /// Height.
    #[serde(with = "quantity")]
    pub number: u64,
    /// Hash of the header.
    pub hash: B256,
}

impl From<BlockRef> for BlockHandle {
    fn from(BlockRef { number, hash }: BlockRef) -> Self {
        Self { number, hash }
    }
}

impl From<BlockHandle> for BlockRef {
    fn from(BlockHandle { number, hash }: BlockHandle) -> Self {
        Self { number, hash }
    }
}

/// The block a diff belongs to:
/// `{"number":"0x…","hash":"0x…","parentHash":"0x…","timestamp":"0x…"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockHead {
    /// Height.
    #[serde(with = "quantity")]
    pub number: u64,
    /// Hash of the header.
    pub hash: B256,
    /// Hash of the parent.
    pub parent_hash: B256,
    /// Seconds since the Unix epoch.
    #[serde(with = "quantity")]
    pub timestamp: u64,
}

impl BlockHead {
    /// Number and hash.
    pub fn block(&self) -> BlockRef {
        BlockRef::new(self.number, self.hash)
    }
}

impl From<BlockSummary> for BlockHead {
    fn from(summary: BlockSummary) -> Self {
        let BlockSummary { block, parent_hash, timestamp } = summary;
        Self { number: block.number, hash: block.hash, parent_hash, timestamp }
    }
}

/// The block whose state a caller holds: its hash, or number and hash. The number lets a server
/// that no longer knows the block tell "too old" from "of another chain".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Position {
    /// `"0x…"`, 32 bytes.
    Hash(B256),
    /// `{"number":"0x…","hash":"0x…"}`.
    Block(BlockHandle),
}

impl Position {
    /// The hash.
    pub fn hash(&self) -> B256 {
        match self {
            Self::Hash(hash) => *hash,
            Self::Block(block) => block.hash,
        }
    }

    /// The number, if it was given.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Hash(_) => None,
            Self::Block(block) => Some(block.number),
        }
    }
}

impl From<BlockRef> for Position {
    fn from(block: BlockRef) -> Self {
        Self::Block(block.into())
    }
}

impl<'de> Deserialize<'de> for Position {
    // By hand: an untagged enum would answer "did not match any variant" to every mistake.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => match text.parse() {
                Ok(hash) => Ok(Self::Hash(hash)),
                Err(_) => Err(D::Error::custom("expected a block hash of 32 bytes in hex")),
            },
            object @ serde_json::Value::Object(_) => {
                serde_json::from_value(object).map(Self::Block).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("expected a block hash or {number, hash}")),
        }
    }
}

use alloy_primitives::B256;
use std::fmt;

/// A block by number and hash. The hash decides; the number is there to be read and ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BlockRef {
    /// Height.
    pub number: u64,
    /// Hash of the header.
    pub hash: B256,
}

impl BlockRef {
    /// A reference from its two parts.
    pub const fn new(number: u64, hash: B256) -> Self {
        Self { number, hash }
    }
}

impl fmt::Display for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.hash)
    }
}

/// What is kept of a header beside the diffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockSummary {
    /// The block itself.
    pub block: BlockRef,
    /// Hash of its parent.
    pub parent_hash: B256,
    /// Seconds since the Unix epoch.
    pub timestamp: u64,
}

use alloy_primitives::B256;
use alloy_rlp::Decodable;
use prestate_host::{Block, HeaderMismatch, RecoveredBlock, StateError};
use prestate_types::BlockRef;

/// Why a block was not taken onto a [`crate::MemoryChain`]. The chain is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are no block.
    #[error("block at byte {offset}: {reason}")]
    Rlp {
        /// Where it starts.
        offset: usize,
        /// The decoder's reason.
        reason: String,
    },
    /// The parent is not on this chain.
    #[error("block {block}: its parent {parent} is not known")]
    UnknownParent {
        /// The block.
        block: BlockRef,
        /// Its parent.
        parent: B256,
    },
    /// A transaction or a system call failed.
    #[error("block {block}: {reason}")]
    Execution {
        /// The block.
        block: BlockRef,
        /// The executor's reason.
        reason: String,
    },
    /// The result is not what the header says.
    #[error(transparent)]
    Header(#[from] HeaderMismatch),
    /// State could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Blocks from a concatenation of their RLP encodings, as `geth export` writes them.
pub fn decode_blocks(mut bytes: &[u8]) -> Result<Vec<RecoveredBlock>, ImportError> {
    let total = bytes.len();
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let offset = total - bytes.len();
        let block = Block::decode(&mut bytes)
            .map_err(|error| ImportError::Rlp { offset, reason: error.to_string() })?;
        let number = block.header.number;
        let recovered = RecoveredBlock::try_recover_unchecked(block).map_err(|error| {
            ImportError::Rlp { offset, reason: format!("block {number}: {error}") }
        })?;
        blocks.push(recovered);
    }
    Ok(blocks)
}

use alloy_consensus::{EthereumTxEnvelope, TxEip4844};
use prestate_types::{BlockRef, BlockSummary};

/// An Ethereum block as reth itself holds it: blob transactions without their sidecars.
pub type Block = alloy_consensus::Block<EthereumTxEnvelope<TxEip4844>>;

/// A block with its hash and the senders of its transactions.
pub type RecoveredBlock = reth_primitives_traits::RecoveredBlock<Block>;

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxPlace {
    /// Its block, which was canonical when asked.
    pub block: BlockRef,
    /// Its index in the block, from zero.
    pub index: u64,
}

/// The summary kept of a block.
pub fn summary(block: &RecoveredBlock) -> BlockSummary {
    BlockSummary {
        block: BlockRef::new(block.number, block.hash()),
        parent_hash: block.parent_hash,
        timestamp: block.timestamp,
    }
}

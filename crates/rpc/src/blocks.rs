//! From what a caller names to a block, in Geth's words (`eth/api_backend.go`).

use crate::{block_param::BlockParam, faults, rpc::Shared};
use alloy_primitives::B256;
use prestate_host::{RecoveredBlock, TxPlace};
use prestate_rpc_api::{RpcError, code};
use prestate_types::BlockRef;
use std::sync::Arc;

impl Shared {
    /// Number and hash of the block a caller names, without loading it.
    pub(crate) fn locate(&self, param: BlockParam) -> Result<BlockRef, RpcError> {
        let at = |found: Option<BlockRef>, tag: &str| {
            found.ok_or_else(|| RpcError::server(format!("{tag} block not found")))
        };
        let host = &self.host;
        match param {
            BlockParam::Hash { hash, canonical } => {
                let block = self.locate_hash(hash)?;
                let on_chain = || host.canonical_hash(block.number).map_err(faults::host);
                if canonical && on_chain()? != Some(hash) {
                    return Err(RpcError::server("hash is not currently canonical"));
                }
                Ok(block)
            }
            BlockParam::Number(number) => host
                .canonical_hash(number)
                .map_err(faults::host)?
                .map(|hash| BlockRef::new(number, hash))
                .ok_or_else(|| RpcError::server(format!("block #{number} not found"))),
            BlockParam::Latest => host.head().map_err(faults::host),
            BlockParam::Earliest => host.earliest().map_err(faults::host),
            BlockParam::Safe => at(host.safe().map_err(faults::host)?, "safe"),
            BlockParam::Finalized => at(host.finalized().map_err(faults::host)?, "finalized"),
            BlockParam::Pending => Err(RpcError::server("pending block is not available")),
        }
    }

    /// As [`Self::locate`], by hash.
    pub(crate) fn locate_hash(&self, hash: B256) -> Result<BlockRef, RpcError> {
        if let Some(summary) = self.known.summary(&hash)? {
            return Ok(summary.block);
        }
        Ok(BlockRef::new(self.by_hash(hash)?.number, hash))
    }

    /// The block a caller names.
    pub(crate) fn block(&self, param: BlockParam) -> Result<Arc<RecoveredBlock>, RpcError> {
        self.by_hash(self.locate(param)?.hash)
    }

    /// A block by hash, from the host.
    pub(crate) fn by_hash(&self, hash: B256) -> Result<Arc<RecoveredBlock>, RpcError> {
        if let Some(block) = self.host.block(hash).map_err(faults::host)? {
            return Ok(block);
        }
        if self.known.summary(&hash)?.is_some() {
            // A replica, or a node that dropped the block's body: what it did is kept, not what
            // it was made of.
            return Err(RpcError::new(
                code::PRUNED_HISTORY,
                format!(
                    "of block {hash} only the state changes are kept here: its transactions \
                     cannot be executed again"
                ),
            ));
        }
        Err(RpcError::server(format!("block {hash} not found")))
    }

    /// Where a transaction stands.
    pub(crate) fn located(&self, hash: B256) -> Result<TxPlace, RpcError> {
        if let Some(place) = self.host.transaction(hash).map_err(faults::host)? {
            return Ok(place);
        }
        // A node may drop its index of transactions earlier than we our diffs.
        let kept = self.known.kept_transaction(&hash)?;
        kept.map(|place| TxPlace { block: place.block, index: place.index })
            .ok_or_else(|| RpcError::server("transaction not found"))
    }
}

/// Refuses the block that follows no state.
pub(crate) fn can_be_traced(number: u64) -> Result<(), RpcError> {
    if number == 0 { Err(RpcError::server("genesis is not traceable")) } else { Ok(()) }
}

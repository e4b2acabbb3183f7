//! From what a caller names to a block, in Geth's words (`eth/api_backend.go`).

use crate::{block_param::BlockParam, faults, rpc::Shared};
use alloy_primitives::B256;
use prestate_host::{RecoveredBlock, TxPlace};
use prestate_rpc_api::RpcError;
use prestate_types::BlockRef;
use std::sync::Arc;

impl Shared {
    /// The block a caller names.
    pub(crate) fn block(&self, param: BlockParam) -> Result<Arc<RecoveredBlock>, RpcError> {
        let at = |found: Option<BlockRef>, tag: &str| {
            found.ok_or_else(|| RpcError::server(format!("{tag} block not found")))
        };
        let host = &self.host;
        let hash = match param {
            BlockParam::Hash { hash, canonical } => {
                let block = self.by_hash(hash)?;
                let on_chain = || host.canonical_hash(block.number).map_err(faults::host);
                if canonical && on_chain()? != Some(hash) {
                    return Err(RpcError::server("hash is not currently canonical"));
                }
                return Ok(block);
            }
            BlockParam::Number(number) => host
                .canonical_hash(number)
                .map_err(faults::host)?
                .ok_or_else(|| RpcError::server(format!("block #{number} not found")))?,
            BlockParam::Latest => host.head().map_err(faults::host)?.hash,
            BlockParam::Earliest => host.earliest().map_err(faults::host)?.hash,
            BlockParam::Safe => at(host.safe().map_err(faults::host)?, "safe")?.hash,
            BlockParam::Finalized => at(host.finalized().map_err(faults::host)?, "finalized")?.hash,
            BlockParam::Pending => {
                return Err(RpcError::server("pending block is not available"));
            }
        };
        self.by_hash(hash)
    }

    /// A block by hash.
    pub(crate) fn by_hash(&self, hash: B256) -> Result<Arc<RecoveredBlock>, RpcError> {
        self.host
            .block(hash)
            .map_err(faults::host)?
            .ok_or_else(|| RpcError::server(format!("block {hash} not found")))
    }

    /// A block whose transactions can be traced.
    pub(crate) fn traceable(
        &self,
        block: Arc<RecoveredBlock>,
    ) -> Result<Arc<RecoveredBlock>, RpcError> {
        if block.number == 0 {
            return Err(RpcError::server("genesis is not traceable"));
        }
        Ok(block)
    }

    /// Where a transaction stands, with its block.
    pub(crate) fn place(&self, hash: B256) -> Result<(TxPlace, Arc<RecoveredBlock>), RpcError> {
        let place = self
            .host
            .transaction(hash)
            .map_err(faults::host)?
            .ok_or_else(|| RpcError::server("transaction not found"))?;
        Ok((place, self.by_hash(place.block.hash)?))
    }
}

//! From what a caller names to a block and its state.

use super::{Answer, DevRpc, fault};
use crate::{ChainState, execute::Executed};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::B256;
use prestate_host::{Host, RecoveredBlock};
use std::sync::Arc;

impl DevRpc {
    /// The number of a block that is canonical; `None` for the pending block.
    pub(super) fn number(&self, tag: BlockNumberOrTag) -> Answer<Option<u64>> {
        let host = &self.chain;
        let failed = |error: prestate_host::HostError| fault::server(error.to_string());
        let at = |found: Option<prestate_types::BlockRef>| {
            found.map(|at| at.number).ok_or_else(|| fault::server("block not found"))
        };
        Ok(Some(match tag {
            BlockNumberOrTag::Latest => host.head().map_err(failed)?.number,
            BlockNumberOrTag::Safe => at(host.safe().map_err(failed)?)?,
            BlockNumberOrTag::Finalized => at(host.finalized().map_err(failed)?)?,
            BlockNumberOrTag::Earliest => host.earliest().map_err(failed)?.number,
            BlockNumberOrTag::Number(number) => number,
            BlockNumberOrTag::Pending => return Ok(None),
        }))
    }

    /// The canonical block of a number, `None` above the head.
    pub(super) fn canonical(&self, number: u64) -> Answer<Option<Arc<RecoveredBlock>>> {
        let hash =
            self.chain.canonical_hash(number).map_err(|error| fault::server(error.to_string()))?;
        match hash {
            Some(hash) => self.by_hash(hash),
            None => Ok(None),
        }
    }

    pub(super) fn by_hash(&self, hash: B256) -> Answer<Option<Arc<RecoveredBlock>>> {
        self.chain.block_by_hash(hash).map_err(fault::state)
    }

    /// The block that would be made now.
    pub(super) fn pending(&self) -> Answer<Executed> {
        self.chain.pending().map_err(fault::dev)
    }

    /// A block and the state after it; the newest if none is named.
    pub(super) fn site(&self, id: Option<BlockId>) -> Answer<(Arc<RecoveredBlock>, ChainState)> {
        let block = match id.unwrap_or_default() {
            BlockId::Hash(named) => {
                let block = self
                    .by_hash(named.block_hash)?
                    .ok_or_else(|| fault::server("header for hash not found"))?;
                let canonical = self.canonical(block.number)?;
                let on_chain = canonical.is_some_and(|there| there.hash() == block.hash());
                if named.require_canonical == Some(true) && !on_chain {
                    return Err(fault::server("hash is not currently canonical"));
                }
                block
            }
            BlockId::Number(tag) => match self.number(tag)? {
                Some(number) => {
                    self.canonical(number)?.ok_or_else(|| fault::server("header not found"))?
                }
                None => {
                    let pending = self.pending()?;
                    return Ok((pending.block, pending.state));
                }
            },
        };
        let state = self.chain.state(block.hash()).map_err(fault::state)?;
        Ok((block, state))
    }
}

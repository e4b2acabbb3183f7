//! The way from one block's state to another's.

use crate::{block_param::BlockParam, faults, rpc::Shared, whole::Want};
use alloy_primitives::B256;
use prestate_rpc_api::{BlockHandle, Position, ReorgNotice, RpcError, code};
use prestate_types::{BlockRef, StateDiff};
use serde_json::{json, value::to_raw_value};
use std::sync::Arc;

/// Diffs held at a time while they are merged.
const MERGED_AT_ONCE: usize = 32;

/// First back from a block to an ancestor, then on to another block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) from: BlockRef,
    pub(crate) to: BlockRef,
    ancestor: BlockRef,
    /// To be taken back, newest first.
    back: Vec<BlockRef>,
    /// To be gone over, oldest first.
    on: Vec<BlockRef>,
    /// Whether `from` has left the canonical chain.
    left: bool,
}

impl Path {
    /// What a caller has to be told, if its block left the chain.
    pub(crate) fn reorg(&self) -> Option<ReorgNotice> {
        self.left.then(|| ReorgNotice {
            common_ancestor: self.ancestor.into(),
            dropped: self.back.iter().copied().map(BlockHandle::from).collect(),
        })
    }
}

impl Shared {
    /// The block whose state a caller holds.
    pub(crate) fn position(&self, position: Position) -> Result<BlockRef, RpcError> {
        let hash = position.hash();
        let known = match self.known.summary(&hash)? {
            Some(summary) => Some(summary.block.number),
            None => self.host.block(hash).map_err(faults::host)?.map(|block| block.number),
        };
        let Some(number) = known else { return Err(self.not_held(position.number(), Some(hash))) };
        match position.number() {
            Some(given) if given != number => Err(RpcError::invalid_params(format!(
                "block {hash} has number {number}, {given} was given"
            ))),
            _ => Ok(BlockRef::new(number, hash)),
        }
    }

    /// As [`Self::locate`]; what is not there is told apart for programs.
    pub(crate) fn locate_end(&self, param: BlockParam) -> Result<BlockRef, RpcError> {
        match param {
            BlockParam::Hash { hash, .. } => {
                // Checks `requireCanonical` too.
                self.position(Position::Hash(hash))?;
                self.locate(param)
            }
            BlockParam::Number(number) => self
                .host
                .canonical_hash(number)
                .map_err(faults::host)?
                .map(|hash| BlockRef::new(number, hash))
                .ok_or_else(|| self.not_held(Some(number), None)),
            tag => self.locate(tag),
        }
    }

    /// Why a block is not known here, with what is in `data`.
    pub(crate) fn not_held(&self, number: Option<u64>, hash: Option<B256>) -> RpcError {
        let (head, earliest) = match (self.host.head(), self.earliest()) {
            (Ok(head), Ok(earliest)) => (head, earliest),
            (Err(fault), _) => return faults::host(fault),
            (_, Err(fault)) => return fault,
        };
        let named = match (number, hash) {
            (Some(number), Some(hash)) => BlockRef::new(number, hash).to_string(),
            (Some(number), None) => format!("#{number}"),
            (None, Some(hash)) => hash.to_string(),
            (None, None) => String::new(),
        };
        let (code, reason, why) = match number {
            Some(number) if number > head.number => {
                (code::SERVER, "future", format!("is above the newest block {head}"))
            }
            Some(number) if number < earliest.number => {
                (code::PRUNED_HISTORY, "pruned", format!("is below the earliest block {earliest}"))
            }
            _ => (
                code::SERVER,
                "unknown",
                "is not known here: it belongs to another chain, or left this one too long ago"
                    .to_owned(),
            ),
        };
        let data = json!({
            "reason": reason,
            "earliest": BlockHandle::from(earliest),
            "head": BlockHandle::from(head),
        });
        RpcError { code, message: format!("block {named} {why}"), data: to_raw_value(&data).ok() }
    }

    /// The oldest block of which anything can be answered.
    fn earliest(&self) -> Result<BlockRef, RpcError> {
        let host = self.host.earliest().map_err(faults::host)?;
        let Some(archive) = &self.known.archive else { return Ok(host) };
        let range = archive.range().map_err(|fault| faults::logged(&fault))?;
        Ok(range.map_or(host, |(lowest, _)| lowest.min(host)))
    }

    fn parent(&self, block: BlockRef) -> Result<BlockRef, RpcError> {
        let parent = match self.known.summary(&block.hash)? {
            Some(summary) => summary.parent_hash,
            None => self.by_hash(block.hash)?.parent_hash,
        };
        let number = block.number.checked_sub(1).ok_or_else(|| {
            RpcError::server(format!("blocks of different chains: {block} has no parent"))
        })?;
        Ok(BlockRef::new(number, parent))
    }

    /// The way between two blocks. May read the disk.
    pub(crate) fn path(&self, from: BlockRef, to: BlockRef) -> Result<Path, RpcError> {
        let canonical = self.host.canonical_hash(from.number).map_err(faults::host)?;
        let (mut back, mut on) = (Vec::new(), Vec::new());
        let (mut low, mut high) = (from, to);
        while low != high {
            if back.len() + on.len() >= self.config.max_range_blocks as usize {
                let given = from.number.abs_diff(to.number).max((back.len() + on.len()) as u64 + 1);
                return Err(RpcError::limit(
                    format!(
                        "more than {} blocks lie between {from} and {to}: read the state anew",
                        self.config.max_range_blocks
                    ),
                    "rangeBlocks",
                    self.config.max_range_blocks,
                    given,
                ));
            }
            if high.number >= low.number {
                on.push(high);
                high = self.parent(high)?;
            } else {
                back.push(low);
                low = self.parent(low)?;
            }
        }
        on.reverse();
        Ok(Path { from, to, ancestor: low, back, on, left: canonical != Some(from.hash) })
    }

    /// What changed along a path, as one change.
    pub(crate) async fn along(self: &Arc<Self>, path: &Path) -> Result<StateDiff, RpcError> {
        let steps = path.back.iter().map(|block| (*block, true));
        let steps = steps.chain(path.on.iter().map(|block| (*block, false)));
        let mut merged = Vec::with_capacity(MERGED_AT_ONCE);
        for (block, back) in steps {
            let diff =
                self.with_whole(block, Want::Diff, |_, whole| Ok(whole.diff().clone())).await?;
            merged.push(if back { diff.invert() } else { diff });
            if merged.len() == MERGED_AT_ONCE {
                merged = vec![self.read(move |_| Ok(StateDiff::fold(&merged))).await?];
                merged.reserve(MERGED_AT_ONCE);
            }
        }
        self.read(move |_| Ok(StateDiff::fold(&merged))).await
    }
}

use super::{DevChain, DevError, build::Tx, chain::FINAL_BLOCKS};
use crate::execute::Executed;
use alloy_consensus::transaction::Recovered;
use alloy_primitives::B256;
use prestate_host::{Host, RecoveredBlock};
use prestate_types::BlockRef;
use std::sync::Arc;

/// A reorg that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorg {
    /// The newest block that both branches have.
    pub common_ancestor: BlockRef,
    /// No longer canonical, ascending.
    pub dropped: Vec<BlockRef>,
    /// Canonical instead, one more, ascending.
    pub added: Vec<BlockRef>,
}

impl DevChain {
    /// Drops the last `depth` blocks and makes a branch of one block more in their place.
    ///
    /// About a quarter of the dropped transactions, the last one always among them, go back into
    /// the pool, and so do those that cannot be executed without them; the others are spread over
    /// the new blocks, one block later than they were. State set by decree in a dropped block is
    /// as it was before.
    ///
    /// # Errors
    /// [`DevError::Limit`] beyond [`FINAL_BLOCKS`], [`DevError::Depth`] beyond the genesis block
    /// and for zero.
    pub fn reorg(&self, depth: u64) -> Result<Reorg, DevError> {
        if depth > FINAL_BLOCKS {
            return Err(DevError::Limit { what: "depth", limit: FINAL_BLOCKS, given: depth });
        }
        let _making = self.making();
        let head = self.head_block()?;
        let blocks = head.number - self.chain.earliest().map_or(0, |earliest| earliest.number);
        if depth == 0 || depth > blocks {
            return Err(DevError::Depth { blocks, given: depth });
        }
        let mut dropped = vec![head];
        while (dropped.len() as u64) < depth
            && let Some(lowest) = dropped.last()
        {
            dropped.push(self.known(lowest.parent_hash)?);
        }
        dropped.reverse();
        let ancestor = self.known(dropped[0].parent_hash)?;

        let mut again = left_out(&dropped);
        // The branch tells itself from every other branch on this ancestor.
        let salt = u64::from_be_bytes(dropped[0].hash()[..8].try_into().unwrap_or_default()) | 1;
        let mut made: Vec<Executed> = Vec::new();
        for index in 0..=dropped.len() {
            // One block later than they were; the first new block is empty.
            let taken = index.checked_sub(1).map(|at| transactions(&dropped[at]));
            let kept: Vec<_> = taken
                .into_iter()
                .flatten()
                .filter(|tx| !again.iter().any(|left| left.tx_hash() == tx.tx_hash()))
                .collect();
            let source = &mut kept.iter().cloned();
            let next = match made.last() {
                None => self.make(&ancestor, None, source, salt)?,
                Some(last) => self.make_on(last, source, salt)?,
            };
            let held = |hash: &B256| {
                next.block.body().transactions.iter().any(|there| there.tx_hash() == hash)
            };
            again.extend(kept.into_iter().filter(|tx| !held(tx.tx_hash())));
            made.push(next);
        }
        let reference = |block: &RecoveredBlock| BlockRef::new(block.number, block.hash());
        let reorg = Reorg {
            common_ancestor: reference(&ancestor),
            dropped: dropped.iter().map(|block| reference(block)).collect(),
            added: made.iter().map(|made| reference(&made.block)).collect(),
        };
        self.take(made)?;
        for tx in again {
            // What became invalid on the new branch is lost, as on any chain.
            let _ = self.enqueue(Arc::unwrap_or_clone(tx));
        }
        Ok(reorg)
    }

    fn known(&self, hash: B256) -> Result<Arc<RecoveredBlock>, DevError> {
        Ok(self.block_by_hash(hash)?.ok_or(prestate_host::StateError::UnknownBlock(hash))?)
    }
}

fn transactions(block: &RecoveredBlock) -> Vec<Arc<Recovered<Tx>>> {
    block.transactions_recovered().map(|tx| Arc::new(tx.cloned())).collect()
}

/// Those that the new branch does without: chosen by hash, so that the same chain reorganises the
/// same way.
fn left_out(dropped: &[Arc<RecoveredBlock>]) -> Vec<Arc<Recovered<Tx>>> {
    let all: Vec<_> = dropped.iter().flat_map(|block| transactions(block)).collect();
    let last = all.len().saturating_sub(1);
    all.into_iter()
        .enumerate()
        .filter(|(at, tx)| *at == last || tx.tx_hash()[31] % 4 == 0)
        .map(|(_, tx)| tx)
        .collect()
}

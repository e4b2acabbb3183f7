use prestate_host::{BundleSlice, CommittedBlock, Notification, RecoveredBlock};
use prestate_types::BlockRef;
use reth_ethereum::{EthPrimitives, exex::ExExNotification, provider::Chain};
use std::sync::Arc;

/// A notification of the node as the pipeline takes it. `None` if it tells of nothing.
pub fn notification(told: &ExExNotification<EthPrimitives>) -> Option<Notification> {
    let old = told.reverted_chain().map(|chain| references(&chain)).unwrap_or_default();
    let new = told.committed_chain().map(|chain| committed(&chain)).unwrap_or_default();
    // The node calls it a reorg even if nothing replaced the old blocks (reth #26674).
    match (old.is_empty(), new.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Notification::Committed(new)),
        (false, true) => Some(Notification::Reverted { old }),
        (false, false) => Some(Notification::Reorged { old, new }),
    }
}

fn references(chain: &Chain<EthPrimitives>) -> Vec<BlockRef> {
    chain.blocks_iter().map(|block| BlockRef::new(block.number, block.hash())).collect()
}

fn committed(chain: &Chain<EthPrimitives>) -> Vec<CommittedBlock> {
    let blocks = chain.blocks_iter().cloned();
    let bundle = &chain.execution_outcome().bundle;
    // One entry of reverts a block is what a block's part is cut out by. Its numbers are those of
    // the blocks, not of `first_block`, which some paths leave at zero (reth #20021).
    if bundle.reverts.len() != chain.len() {
        return blocks.map(|block| CommittedBlock { block, bundle: None }).collect();
    }
    let bundle = Arc::new(bundle.clone());
    let slice = |index| Some(BundleSlice { bundle: Arc::clone(&bundle), index });
    blocks
        .enumerate()
        .map(|(index, block)| CommittedBlock { block, bundle: slice(index) })
        .collect()
}

/// Blocks that a notification says are canonical no longer.
pub(crate) fn dropped(
    told: &ExExNotification<EthPrimitives>,
) -> impl Iterator<Item = Arc<RecoveredBlock>> {
    let old = told.reverted_chain();
    let blocks: Vec<_> = old.iter().flat_map(|chain| chain.blocks_iter().cloned()).collect();
    blocks.into_iter()
}

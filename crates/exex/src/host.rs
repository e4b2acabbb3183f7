use crate::state::RethState;
use alloy_consensus::BlockHeader;
use alloy_primitives::{B256, map::B256Map};
use parking_lot::Mutex;
use prestate_host::{
    Block, ChainSpec, Host, HostError, HostInfo, Notification, Notifications, RecoveredBlock,
    StateError, StateReader, TxPlace,
};
use prestate_types::BlockRef;
use reth_ethereum::storage::{
    BlockIdReader, BlockReader, PruneCheckpointReader, StateProviderFactory, TransactionVariant,
    errors::provider::{ProviderError, ProviderResult},
};
use std::{collections::VecDeque, fmt::Debug, sync::Arc};
use tokio::sync::{mpsc, watch};

/// Notifications that wait for the pipeline, which takes them at once.
const MAX_WAITING: usize = 1024;
/// Blocks remembered that are canonical no longer: a day of reorgs at a bad time.
const MAX_SIDE_BLOCKS: usize = 256;

/// What is asked of the node's database.
pub trait RethProvider:
    BlockReader<Block = Block>
    + BlockIdReader
    + StateProviderFactory
    + PruneCheckpointReader
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<P> RethProvider for P where
    P: BlockReader<Block = Block>
        + BlockIdReader
        + StateProviderFactory
        + PruneCheckpointReader
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// A reth node as a [`Host`].
///
/// The node knows canonical blocks only. Those that were reorged out while it ran are kept aside
/// here, the newest 256 of them; their state is gone with them.
#[derive(Debug)]
pub struct RethHost<P> {
    provider: P,
    spec: Arc<ChainSpec>,
    version: String,
    listener: Mutex<Option<Notifications>>,
    acked: watch::Sender<Option<BlockRef>>,
    aside: Mutex<Aside>,
}

#[derive(Debug, Default)]
struct Aside {
    blocks: B256Map<Arc<RecoveredBlock>>,
    order: VecDeque<B256>,
}

impl<P: RethProvider> RethHost<P> {
    /// Over a node's provider. `version` is that of the node.
    pub fn new(provider: P, spec: ChainSpec, version: impl Into<String>) -> Self {
        Self {
            provider,
            spec: Arc::new(spec),
            version: version.into(),
            listener: Mutex::new(None),
            acked: watch::Sender::new(None),
            aside: Mutex::default(),
        }
    }

    /// A new stream for the next caller of [`Host::notifications`]; the one before ends.
    pub fn listen(&self) -> mpsc::Sender<Notification> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        *self.listener.lock() = Some(receiver);
        sender
    }

    /// What [`Host::ack`] was last called with.
    pub fn acked(&self) -> watch::Receiver<Option<BlockRef>> {
        self.acked.subscribe()
    }

    /// Remembers blocks that ceased to be canonical.
    pub fn keep_aside<'a>(&self, blocks: impl IntoIterator<Item = &'a Arc<RecoveredBlock>>) {
        let mut aside = self.aside.lock();
        for block in blocks {
            if aside.blocks.insert(block.hash(), block.clone()).is_none() {
                aside.order.push_back(block.hash());
            }
            if aside.order.len() > MAX_SIDE_BLOCKS
                && let Some(oldest) = aside.order.pop_front()
            {
                aside.blocks.remove(&oldest);
            }
        }
    }

    /// A block named by a tag. The node may remember one from before a restart that its chain, now
    /// shorter, does not reach: it has none then.
    fn tagged(
        &self,
        block: ProviderResult<Option<alloy_eips::BlockNumHash>>,
    ) -> Result<Option<BlockRef>, HostError> {
        let head = self.provider.best_block_number().map_err(host_error)?;
        let block = block.map_err(host_error)?.filter(|block| block.number <= head);
        Ok(block.map(|block| BlockRef::new(block.number, block.hash)))
    }
}

impl<P: RethProvider> Host for RethHost<P> {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "reth", version: self.version.clone() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        let info = self.provider.chain_info().map_err(host_error)?;
        Ok(BlockRef::new(info.best_number, info.best_hash))
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        self.tagged(self.provider.safe_block_num_hash())
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        self.tagged(self.provider.finalized_block_num_hash())
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        let number = self.provider.earliest_block_number().map_err(host_error)?;
        let hash = self.canonical_hash(number)?;
        let missing = || HostError::Backend(format!("no hash of the earliest block {number}"));
        Ok(BlockRef::new(number, hash.ok_or_else(missing)?))
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.provider.block_hash(number).map_err(host_error)
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        let block = self.provider.recovered_block(hash.into(), TransactionVariant::WithHash);
        match block {
            Ok(Some(block)) => Ok(Some(Arc::new(block))),
            Ok(None) | Err(ProviderError::BlockHashNotFound(_)) => {
                Ok(self.aside.lock().blocks.get(&hash).cloned())
            }
            Err(error) => Err(host_error(error)),
        }
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        let found = self.provider.transaction_by_hash_with_meta(hash).map_err(host_error)?;
        Ok(found.map(|(_, meta)| TxPlace {
            block: BlockRef::new(meta.block_number, meta.block_hash),
            index: meta.index,
        }))
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        let number = self.provider.block_number(hash);
        let number = number.map_err(|error| StateError::Backend(error.to_string()))?;
        let Some(number) = number else {
            let aside = self.aside.lock();
            let Some(block) = aside.blocks.get(&hash) else {
                return Err(StateError::UnknownBlock(hash));
            };
            return Err(StateError::NotHeld(BlockRef::new(block.number(), hash)));
        };
        Ok(Box::new(RethState::open(&self.provider, BlockRef::new(number, hash))?))
    }

    fn notifications(&self) -> Option<Notifications> {
        self.listener.lock().take()
    }

    fn ack(&self, block: BlockRef) {
        self.acked.send_replace(Some(block));
    }
}

fn host_error(error: ProviderError) -> HostError {
    match error {
        ProviderError::BlockExpired { requested, earliest_available } => {
            HostError::Pruned { requested, earliest: earliest_available }
        }
        other => HostError::Backend(other.to_string()),
    }
}

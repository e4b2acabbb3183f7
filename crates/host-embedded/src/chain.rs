use crate::{
    ChainState,
    execute::{Executed, execute},
    genesis::genesis_block,
    import::{ImportError, decode_blocks},
};
use alloy_genesis::Genesis;
use alloy_primitives::{B256, map::B256Map};
use parking_lot::{Mutex, RwLock};
use prestate_host::{
    BundleSlice, ChainSpec, CommittedBlock, Host, HostError, HostInfo, Notification, Notifications,
    Receipt, RecoveredBlock, StateError, StateReader, TxPlace, summary,
};
use prestate_types::BlockRef;
use revm::database::BundleState;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::mpsc;

/// Notifications waiting for a slow listener before [`MemoryChain::import`] waits for it.
const NOTIFICATION_BUFFER: usize = 1024;

/// A chain in memory: it executes blocks from a genesis on, checks them against their headers,
/// keeps the state after every block and follows the head it is told.
#[derive(Debug)]
pub struct MemoryChain {
    spec: Arc<ChainSpec>,
    inner: RwLock<Inner>,
    notify: mpsc::Sender<Notification>,
    listener: Mutex<Option<Notifications>>,
}

#[derive(Debug)]
struct Inner {
    blocks: B256Map<Known>,
    canonical: BTreeMap<u64, B256>,
    transactions: B256Map<TxPlace>,
    head: BlockRef,
    genesis: BlockRef,
    /// States of canonical blocks below this number have been let go.
    states_from: u64,
}

/// A block with what executing it gave, as far as it is still kept.
#[derive(Debug, Clone)]
struct Known {
    block: Arc<RecoveredBlock>,
    state: Option<ChainState>,
    bundle: Option<Arc<BundleState>>,
    receipts: Arc<Vec<Receipt>>,
}

impl From<Executed> for Known {
    fn from(Executed { block, state, bundle, receipts }: Executed) -> Self {
        Self { block, state: Some(state), bundle, receipts }
    }
}

impl MemoryChain {
    /// A chain that holds its genesis only.
    pub fn from_genesis(genesis: &Genesis) -> Self {
        let spec = ChainSpec::from_genesis(&genesis.config);
        let block = genesis_block(genesis, &spec);
        let at = summary(&block).block;
        let mut state = ChainState::from_alloc(&genesis.alloc);
        state.note_hash(at.number, at.hash);
        let known = Known {
            block: Arc::new(block),
            state: Some(state),
            bundle: None,
            receipts: Arc::default(),
        };
        let (notify, listener) = mpsc::channel(NOTIFICATION_BUFFER);
        let inner = Inner {
            blocks: std::iter::once((at.hash, known)).collect(),
            canonical: [(at.number, at.hash)].into(),
            transactions: B256Map::default(),
            head: at,
            genesis: at,
            states_from: at.number,
        };
        Self {
            spec: Arc::new(spec),
            inner: RwLock::new(inner),
            notify,
            listener: Mutex::new(Some(listener)),
        }
    }

    /// Executes and checks a block on its parent and keeps it. On top of the head it becomes the
    /// new head; elsewhere it waits for [`Self::set_head`].
    pub fn import(&self, block: RecoveredBlock) -> Result<BlockRef, ImportError> {
        let at = summary(&block).block;
        let parent = block.parent_hash;
        if self.inner.read().blocks.contains_key(&at.hash) {
            return Ok(at);
        }
        let state = match self.state(parent) {
            Err(StateError::UnknownBlock(_)) => {
                return Err(ImportError::UnknownParent { block: at, parent });
            }
            found => found?,
        };
        let known = execute(&self.spec, block, state)?;
        let extends = {
            let mut inner = self.inner.write();
            inner.blocks.insert(at.hash, known.into());
            inner.head.hash == parent
        };
        if extends {
            self.set_head(at.hash)?;
        }
        Ok(at)
    }

    /// Imports blocks from a concatenation of their RLP encodings (`geth export`).
    pub fn import_rlp(&self, bytes: &[u8]) -> Result<Vec<BlockRef>, ImportError> {
        decode_blocks(bytes)?.into_iter().map(|block| self.import(block)).collect()
    }

    /// Makes a known block the head; what is no longer canonical is reverted.
    pub fn set_head(&self, hash: B256) -> Result<(), ImportError> {
        let notification = self.inner.write().set_head(hash)?;
        self.tell(notification);
        Ok(())
    }

    /// Takes blocks that were executed here, the first on a known parent and each on the one
    /// before, and makes the last one the head. Returns what changed.
    pub(crate) fn adopt(
        &self,
        executed: Vec<Executed>,
    ) -> Result<Option<Notification>, ImportError> {
        let Some(last) = executed.last().map(|last| last.block.hash()) else { return Ok(None) };
        let notification = {
            let mut inner = self.inner.write();
            for block in executed {
                inner.blocks.insert(block.block.hash(), block.into());
            }
            inner.set_head(last)?
        };
        self.tell(notification.clone());
        Ok(notification)
    }

    fn tell(&self, notification: Option<Notification>) {
        if let Some(notification) = notification {
            // Without a listener nobody misses it.
            let _ = self.notify.try_send(notification);
        }
    }

    /// Lets go of what only a reorg needs, of canonical blocks below `final_below`, and of the
    /// states of canonical blocks below `states_from`. Blocks that lost to a canonical one below
    /// `final_below` are forgotten.
    pub(crate) fn let_go(&self, final_below: u64, states_from: u64) {
        let mut inner = self.inner.write();
        let Inner { blocks, canonical, states_from: kept_from, .. } = &mut *inner;
        blocks.retain(|hash, known| {
            let number = known.block.number;
            if number < final_below {
                known.bundle = None;
            }
            if number < states_from {
                known.state = None;
            }
            number >= final_below || canonical.get(&number) == Some(hash)
        });
        *kept_from = states_from.max(*kept_from);
    }

    /// The state after a known block.
    pub(crate) fn state(&self, hash: B256) -> Result<ChainState, StateError> {
        let inner = self.inner.read();
        let Some(known) = inner.blocks.get(&hash) else {
            return Err(StateError::UnknownBlock(hash));
        };
        known.state.clone().ok_or(StateError::Pruned {
            requested: known.block.number,
            earliest: inner.states_from,
        })
    }

    /// Receipts of a known block.
    pub fn receipts(&self, hash: B256) -> Option<Arc<Vec<Receipt>>> {
        self.inner.read().blocks.get(&hash).map(|known| known.receipts.clone())
    }
}

impl Inner {
    fn set_head(&mut self, hash: B256) -> Result<Option<Notification>, ImportError> {
        let mut new = Vec::new();
        let mut cursor = hash;
        // Down to the first block that is canonical already.
        loop {
            let Some(known) = self.blocks.get(&cursor) else {
                return Err(StateError::UnknownBlock(cursor).into());
            };
            let at = summary(&known.block).block;
            if self.canonical.get(&at.number) == Some(&at.hash) {
                break;
            }
            new.push(CommittedBlock {
                block: known.block.clone(),
                bundle: known.bundle.clone().map(|bundle| BundleSlice { bundle, index: 0 }),
            });
            cursor = known.block.parent_hash;
        }
        new.reverse();
        let ancestor = self.blocks[&cursor].block.number;
        let old: Vec<_> = self
            .canonical
            .split_off(&(ancestor + 1))
            .into_iter()
            .map(|(number, hash)| BlockRef::new(number, hash))
            .collect();
        for reverted in &old {
            for tx in &self.blocks[&reverted.hash].block.body().transactions {
                self.transactions.remove(tx.tx_hash());
            }
        }
        for committed in &new {
            let block = committed.block_ref();
            self.canonical.insert(block.number, block.hash);
            for (index, tx) in committed.block.body().transactions.iter().enumerate() {
                self.transactions.insert(*tx.tx_hash(), TxPlace { block, index: index as u64 });
            }
        }
        if let Some((number, hash)) = self.canonical.last_key_value() {
            self.head = BlockRef::new(*number, *hash);
        }
        Ok(match (old.is_empty(), new.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Notification::Committed(new)),
            (false, true) => Some(Notification::Reverted { old }),
            (false, false) => Some(Notification::Reorged { old, new }),
        })
    }
}

impl Host for MemoryChain {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "chain", version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        Ok(self.inner.read().head)
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        Ok(self.inner.read().genesis)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        Ok(self.inner.read().canonical.get(&number).copied())
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        Ok(self.inner.read().blocks.get(&hash).map(|known| known.block.clone()))
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        Ok(self.inner.read().transactions.get(&hash).copied())
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        Ok(Box::new(self.state(hash)?))
    }

    fn notifications(&self) -> Option<Notifications> {
        self.listener.lock().take()
    }

    fn ack(&self, _block: BlockRef) {}
}

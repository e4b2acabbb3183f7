use crate::{
    genesis::{genesis_block, state_root},
    import::{ImportError, decode_blocks},
};
use alloy_evm::{
    block::BlockExecutor,
    eth::{EthBlockExecutor, EthEvmBuilder},
};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, map::B256Map};
use imbl::HashMap;
use parking_lot::{Mutex, RwLock};
use prestate_host::{
    BundleSlice, ChainSpec, CommittedBlock, Host, HostError, HostInfo, Notification, Notifications,
    Outcome, ReaderDb, Receipt, Receipts, RecoveredBlock, StateError, StateReader, TxPlace,
    check_header, evm_env, execution_context, same, summary,
};
use prestate_types::{AccountInfo, BlockRef, KECCAK_EMPTY};
use revm::{
    bytecode::Bytecode,
    database::{BundleState, State, states::bundle_state::BundleRetention},
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::mpsc;

/// Notifications waiting for a slow listener before [`MemoryChain::import`] waits for it.
const NOTIFICATION_BUFFER: usize = 1024;

/// A whole state. Cloning shares everything, so that every block keeps its own.
#[derive(Debug, Clone, Default)]
pub struct ChainState {
    accounts: HashMap<Address, Account>,
    codes: HashMap<B256, Bytecode>,
    hashes: HashMap<u64, B256>,
}

#[derive(Debug, Clone, Default)]
struct Account {
    info: AccountInfo,
    storage: HashMap<B256, B256>,
}

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
}

#[derive(Debug, Clone)]
struct Known {
    block: Arc<RecoveredBlock>,
    state: ChainState,
    bundle: Option<Arc<BundleState>>,
    receipts: Arc<Vec<Receipt>>,
}

impl MemoryChain {
    /// A chain that holds its genesis only.
    pub fn from_genesis(genesis: &Genesis) -> Self {
        let spec = ChainSpec::from_genesis(&genesis.config);
        let block = genesis_block(genesis, &spec);
        let at = summary(&block).block;
        let mut state = ChainState::default();
        for (address, account) in &genesis.alloc {
            let code_hash = account.code.as_ref().filter(|code| !code.is_empty()).map(|code| {
                let code = Bytecode::new_raw(code.clone());
                let hash = code.hash_slow();
                state.codes.insert(hash, code);
                hash
            });
            let info = AccountInfo {
                nonce: account.nonce.unwrap_or_default(),
                balance: account.balance,
                code_hash: code_hash.unwrap_or(KECCAK_EMPTY),
            };
            let set = account.storage.iter().flatten().filter(|(_, value)| !value.is_zero());
            let storage = set.map(|(slot, value)| (*slot, *value)).collect();
            state.accounts.insert(*address, Account { info, storage });
        }
        state.hashes.insert(at.number, at.hash);
        let known = Known { block: Arc::new(block), state, bundle: None, receipts: Arc::default() };
        let (notify, listener) = mpsc::channel(NOTIFICATION_BUFFER);
        let inner = Inner {
            blocks: std::iter::once((at.hash, known)).collect(),
            canonical: [(at.number, at.hash)].into(),
            transactions: B256Map::default(),
            head: at,
            genesis: at,
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
        let Some(state) = self.inner.read().blocks.get(&parent).map(|known| known.state.clone())
        else {
            return Err(ImportError::UnknownParent { block: at, parent });
        };
        let known = execute(&self.spec, block, state)?;
        let extends = {
            let mut inner = self.inner.write();
            inner.blocks.insert(at.hash, known);
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
        if let Some(notification) = notification {
            // Without a listener nobody misses it.
            let _ = self.notify.try_send(notification);
        }
        Ok(())
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

impl ChainState {
    fn apply(&mut self, bundle: &BundleState) {
        for (hash, code) in &bundle.contracts {
            self.codes.insert(*hash, code.clone());
        }
        for (address, change) in &bundle.state {
            let Some(info) = &change.info else {
                self.accounts.remove(address);
                continue;
            };
            let mut account = self.accounts.get(address).cloned().unwrap_or_default();
            if change.was_destroyed() {
                account.storage = HashMap::new();
            }
            account.info =
                AccountInfo { nonce: info.nonce, balance: info.balance, code_hash: info.code_hash };
            for (slot, value) in &change.storage {
                let slot = B256::from(*slot);
                if value.present_value().is_zero() {
                    account.storage.remove(&slot);
                } else {
                    account.storage.insert(slot, value.present_value().into());
                }
            }
            self.accounts.insert(*address, account);
        }
    }

    /// The root of the whole state; time in proportion to its size.
    pub fn root(&self) -> B256 {
        state_root(self.accounts.iter().map(|(address, account)| {
            let storage = account.storage.iter().map(|(slot, value)| (*slot, *value)).collect();
            (*address, account.info, storage)
        }))
    }
}

impl StateReader for ChainState {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.accounts.get(&address).map(|account| account.info))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        let storage = self.accounts.get(&address).map(|account| &account.storage);
        Ok(storage.and_then(|storage| storage.get(&slot)).copied().unwrap_or_default())
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.codes.get(&hash).cloned().ok_or(StateError::MissingCode(hash))
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        self.hashes.get(&number).copied().ok_or(StateError::MissingBlockHash(number))
    }
}

/// Executes a block and holds the outcome against its header, state root included.
fn execute(
    spec: &ChainSpec,
    block: RecoveredBlock,
    mut state: ChainState,
) -> Result<Known, ImportError> {
    let at = summary(&block).block;
    let mut db = State::builder()
        .with_database(ReaderDb(Arc::new(state.clone())))
        .with_bundle_update()
        .build();
    let env = evm_env(spec, block.header());
    let context = execution_context(&block);
    let evm = EthEvmBuilder::new(&mut db, env).build();
    let outcome = EthBlockExecutor::new(evm, context, spec, &Receipts)
        .execute_block(block.transactions_recovered())
        .map_err(|error| ImportError::Execution { block: at, reason: error.to_string() })?;
    let stated = Outcome {
        receipts: &outcome.receipts,
        gas_used: outcome.gas_used,
        blob_gas_used: outcome.blob_gas_used,
        requests: &outcome.requests,
    };
    check_header(spec, &block, stated)?;
    db.merge_transitions(BundleRetention::Reverts);
    let bundle = db.take_bundle();
    state.apply(&bundle);
    same(at, "state root", state.root(), block.state_root)?;
    state.hashes.insert(at.number, at.hash);
    Ok(Known {
        block: Arc::new(block),
        state,
        bundle: Some(Arc::new(bundle)),
        receipts: Arc::new(outcome.receipts),
    })
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
        match self.inner.read().blocks.get(&hash) {
            Some(known) => Ok(Box::new(known.state.clone())),
            None => Err(StateError::UnknownBlock(hash)),
        }
    }

    fn notifications(&self) -> Option<Notifications> {
        self.listener.lock().take()
    }

    fn ack(&self, _block: BlockRef) {}
}

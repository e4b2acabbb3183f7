//! A host made of plain data, for tests: the test gives blocks and states, moves the head, feeds
//! notifications, injects errors and reads the acknowledgements.
//!
//! Nothing follows from anything else: a notification does not move the head, a new block brings
//! no state. A test thus shows its subject every order of events a real host may produce.

use crate::{
    Block, ChainSpec, Host, HostError, HostInfo, Notification, Notifications, RecoveredBlock,
    StateError, StateReader, TxPlace, summary,
};
use alloy_consensus::{
    BlockBody, EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS,
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B256, Bytes, map::B256Map};
use parking_lot::Mutex;
use prestate_types::{AccountInfo, BlockRef};
use revm::bytecode::Bytecode;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::mpsc;

/// Notifications that wait at most; [`FakeHost::notify`] refuses more.
const NOTIFICATION_BUFFER: usize = 1024;

/// A whole state: what is not in it does not exist, or is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FakeState {
    /// Accounts.
    pub accounts: BTreeMap<Address, AccountInfo>,
    /// Slots that are set.
    pub storage: BTreeMap<(Address, B256), B256>,
    /// Codes by hash.
    pub codes: BTreeMap<B256, Bytes>,
    /// What BLOCKHASH reads.
    pub block_hashes: BTreeMap<u64, B256>,
}

impl StateReader for FakeState {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.accounts.get(&address).copied())
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        Ok(self.storage.get(&(address, slot)).copied().unwrap_or_default())
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        let code = self.codes.get(&hash).ok_or(StateError::MissingCode(hash))?;
        Ok(Bytecode::new_raw(code.clone()))
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        self.block_hashes.get(&number).copied().ok_or(StateError::MissingBlockHash(number))
    }
}

/// Why a notification was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// So many wait already.
    #[error("{NOTIFICATION_BUFFER} notifications wait already")]
    Full,
    /// The listener is gone, or [`FakeHost::hang_up`] was called.
    #[error("nobody listens any more")]
    Closed,
}

/// See the module's page.
#[derive(Debug)]
pub struct FakeHost {
    spec: Arc<ChainSpec>,
    inner: Mutex<Inner>,
    notify: Mutex<Option<mpsc::Sender<Notification>>>,
    listener: Mutex<Option<Notifications>>,
}

#[derive(Debug)]
struct Inner {
    blocks: B256Map<Arc<RecoveredBlock>>,
    states: B256Map<Result<Arc<FakeState>, StateError>>,
    canonical: BTreeMap<u64, B256>,
    earliest: BlockRef,
    head: BlockRef,
    safe: Option<BlockRef>,
    finalized: Option<BlockRef>,
    failing: Option<HostError>,
    acks: Vec<BlockRef>,
}

impl FakeHost {
    /// A host that knows one block, which is canonical, the earliest and the head, without state.
    pub fn new(spec: ChainSpec, first: RecoveredBlock) -> Self {
        let at = summary(&first).block;
        let (notify, listener) = mpsc::channel(NOTIFICATION_BUFFER);
        let inner = Inner {
            blocks: std::iter::once((at.hash, Arc::new(first))).collect(),
            states: B256Map::default(),
            canonical: [(at.number, at.hash)].into(),
            earliest: at,
            head: at,
            safe: None,
            finalized: None,
            failing: None,
            acks: Vec::new(),
        };
        Self {
            spec: Arc::new(spec),
            inner: Mutex::new(inner),
            notify: Mutex::new(Some(notify)),
            listener: Mutex::new(Some(listener)),
        }
    }

    /// Makes a block known, without state and not canonical.
    pub fn insert(&self, block: RecoveredBlock) -> BlockRef {
        let at = summary(&block).block;
        self.inner.lock().blocks.insert(at.hash, Arc::new(block));
        at
    }

    /// Gives the state after a block, in place of any state or error before.
    pub fn set_state(&self, block: B256, state: FakeState) {
        self.inner.lock().states.insert(block, Ok(Arc::new(state)));
    }

    /// Makes the state after a block fail to open, for instance with [`StateError::Pruned`], until
    /// [`Self::set_state`].
    pub fn fail_state(&self, block: B256, error: StateError) {
        self.inner.lock().states.insert(block, Err(error));
    }

    /// Makes this chain canonical from its first block's number on and its last block the head.
    /// Blocks of lower numbers stay, those above go. Neither state nor notifications follow.
    ///
    /// # Panics
    /// A block was not [inserted](Self::insert) before, or none is given.
    pub fn set_canonical(&self, blocks: &[BlockRef]) {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            panic!("a canonical chain has a head");
        };
        let mut inner = self.inner.lock();
        inner.canonical.split_off(&first.number);
        for block in blocks {
            assert!(inner.blocks.contains_key(&block.hash), "block {block} was never inserted");
            inner.canonical.insert(block.number, block.hash);
        }
        inner.head = *last;
        inner.earliest = inner.earliest.min(*first);
    }

    /// Sets or forgets the safe block.
    pub fn set_safe(&self, block: Option<BlockRef>) {
        self.inner.lock().safe = block;
    }

    /// Sets or forgets the finalized block.
    pub fn set_finalized(&self, block: Option<BlockRef>) {
        self.inner.lock().finalized = block;
    }

    /// Makes every question about blocks fail, until `None` is given.
    pub fn fail_blocks(&self, error: Option<HostError>) {
        self.inner.lock().failing = error;
    }

    /// Sends a notification, as it is.
    pub fn notify(&self, notification: Notification) -> Result<(), NotifyError> {
        let notify = self.notify.lock();
        let sender = notify.as_ref().ok_or(NotifyError::Closed)?;
        sender.try_send(notification).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotifyError::Full,
            mpsc::error::TrySendError::Closed(_) => NotifyError::Closed,
        })
    }

    /// Ends the stream of notifications: the listener gets what waits and then the end.
    pub fn hang_up(&self) {
        self.notify.lock().take();
    }

    /// Every acknowledgement so far, in order.
    pub fn acks(&self) -> Vec<BlockRef> {
        self.inner.lock().acks.clone()
    }

    fn ask<T>(&self, answer: impl FnOnce(&Inner) -> T) -> Result<T, HostError> {
        let inner = self.inner.lock();
        match &inner.failing {
            Some(error) => Err(error.clone()),
            None => Ok(answer(&inner)),
        }
    }
}

impl Host for FakeHost {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "fake", version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        self.ask(|inner| inner.head)
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        self.ask(|inner| inner.safe)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        self.ask(|inner| inner.finalized)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        self.ask(|inner| inner.earliest)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.ask(|inner| inner.canonical.get(&number).copied())
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        self.ask(|inner| inner.blocks.get(&hash).cloned())
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        self.ask(|inner| {
            inner.canonical.iter().find_map(|(number, block)| {
                let transactions = &inner.blocks.get(block)?.body().transactions;
                let index = transactions.iter().position(|tx| *tx.tx_hash() == hash)? as u64;
                Some(TxPlace { block: BlockRef::new(*number, *block), index })
            })
        })
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        let inner = self.inner.lock();
        match (inner.states.get(&hash), inner.blocks.get(&hash)) {
            (Some(Ok(state)), _) => Ok(Box::new(Arc::clone(state))),
            (Some(Err(error)), _) => Err(error.clone()),
            (None, Some(block)) => Err(StateError::NotHeld(summary(block).block)),
            (None, None) => Err(StateError::UnknownBlock(hash)),
        }
    }

    fn notifications(&self) -> Option<Notifications> {
        self.listener.lock().take()
    }

    fn ack(&self, block: BlockRef) {
        self.inner.lock().acks.push(block);
    }
}

/// A block without transactions on top of a parent, valid by the rules of its number and time as
/// far as its header states its outcome; its state root is `salt`, which tells siblings apart.
///
/// Twelve seconds a block.
pub fn empty_block(spec: &ChainSpec, number: u64, parent_hash: B256, salt: B256) -> RecoveredBlock {
    let timestamp = number * 12;
    let shanghai = spec.is_shanghai_active_at_timestamp(timestamp);
    let cancun = spec.is_cancun_active_at_timestamp(timestamp);
    let header = Header {
        number,
        timestamp,
        parent_hash,
        state_root: salt,
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        gas_limit: 30_000_000,
        base_fee_per_gas: spec.is_london_active_at_block(number).then_some(7),
        withdrawals_root: shanghai.then_some(EMPTY_WITHDRAWALS),
        blob_gas_used: cancun.then_some(0),
        excess_blob_gas: cancun.then_some(0),
        parent_beacon_block_root: cancun.then_some(B256::ZERO),
        ..Default::default()
    };
    let body = BlockBody {
        transactions: Vec::new(),
        ommers: Vec::new(),
        withdrawals: shanghai.then(Default::default),
    };
    RecoveredBlock::new_unhashed(Block { header, body }, Vec::new())
}

use super::{
    DevAccounts, DevConfig, DevError, Mining, OpenError, TrafficContracts,
    admission::{Rules, SentTx, decode},
    build::{Plan, Source, Tx, build, next_base_fee},
    events::Events,
    genesis::dev_genesis,
    journal::Journal,
    pool::{Best, Pool},
};
use crate::{ChainState, MemoryChain, execute::Executed};
use alloy_consensus::transaction::Recovered;
use alloy_genesis::Genesis;
use alloy_primitives::{B256, Bytes};
use parking_lot::Mutex;
use prestate_host::{
    ChainSpec, Host, HostError, HostInfo, IrregularChange, Notifications, Receipt, RecoveredBlock,
    StateError, StateReader, TxPlace,
};
use prestate_types::BlockRef;
use std::{
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

/// Blocks after which a block is safe.
const SAFE_BLOCKS: u64 = 32;
/// Blocks after which a block is final: no reorg goes deeper.
pub const FINAL_BLOCKS: u64 = 64;
/// Blocks whose state is kept. Older state is let go, so that a chain can run for months.
const STATE_BLOCKS: u64 = 50_000;
/// Blocks between two times of letting go.
const LET_GO_EVERY: u64 = 64;
/// Blocks made by one `dev_mine`.
const MAX_MINED: u64 = 10_000;
/// Blocks written and announced together when many are asked for.
const MINED_TOGETHER: u64 = 64;

/// An Ethereum chain in this process: it takes transactions, makes blocks of them and keeps them.
///
/// All methods may block on the EVM and on the disk: call them from blocking threads. When a
/// transaction or a block is confirmed, it is on disk.
#[derive(Debug)]
pub struct DevChain {
    pub(super) chain: MemoryChain,
    pub(super) config: DevConfig,
    accounts: DevAccounts,
    genesis: Genesis,
    journal: Option<Journal>,
    pool: Mutex<Pool>,
    /// Held while blocks are made and taken: one head at a time.
    making: Mutex<()>,
    events: Mutex<Events>,
    /// Of the traffic, once there is any.
    pub(super) contracts: OnceLock<TrafficContracts>,
}

impl DevChain {
    /// Opens the chain of the configuration's folder, or begins a new one.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: DevConfig) -> Result<Self, OpenError> {
        let accounts = DevAccounts::from_mnemonic(&config.mnemonic, config.accounts)?;
        let journal = config.datadir.as_deref().map(Journal::open).transpose()?;
        let fresh = || dev_genesis(&config, &accounts.addresses(), unix_time());
        let stored = journal.as_ref().map(Journal::genesis).transpose()?.flatten();
        let genesis = match (stored, &journal) {
            (Some(genesis), _) => {
                is_same_chain(&config, &genesis)?;
                genesis
            }
            (None, Some(journal)) => {
                let genesis = fresh();
                journal.begin(&genesis)?;
                genesis
            }
            (None, None) => fresh(),
        };
        let chain = MemoryChain::from_genesis(&genesis);
        if let Some(journal) = &journal {
            let spec = chain.spec().clone();
            journal.replay(&spec, |block| {
                let at = chain.import(block).map_err(OpenError::Replay)?;
                if at.number.is_multiple_of(LET_GO_EVERY) {
                    let_go(&chain, at.number);
                }
                Ok::<_, OpenError>(())
            })?;
        }
        Ok(Self {
            chain,
            config,
            accounts,
            genesis,
            journal,
            pool: Mutex::default(),
            making: Mutex::default(),
            events: Mutex::default(),
            contracts: OnceLock::new(),
        })
    }

    /// The accounts whose keys it holds.
    pub fn accounts(&self) -> &DevAccounts {
        &self.accounts
    }

    /// The contracts of its traffic, once there is any.
    pub fn contracts(&self) -> Option<&TrafficContracts> {
        self.contracts.get()
    }

    /// What it was opened with.
    pub fn config(&self) -> &DevConfig {
        &self.config
    }

    /// Its genesis file.
    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// Takes a transaction from its EIP-2718 bytes, blob transactions with sidecar. With instant
    /// mining it is in a block when this returns, unless it has to wait (for an earlier nonce, or
    /// for the base fee to fall).
    ///
    /// # Errors
    /// [`DevError::Refused`] in Geth's words.
    pub fn send_raw(&self, raw: &Bytes) -> Result<B256, DevError> {
        self.send(decode(raw)?)
    }

    pub(crate) fn send(&self, tx: SentTx) -> Result<B256, DevError> {
        let head = self.head_block()?;
        let rules = Rules {
            chain_id: self.spec().chain_id(),
            spec: self.spec().rules_at(head.number + 1, head.timestamp + 1),
            block_gas_limit: head.gas_limit,
        };
        self.send_recovered(rules.admit(tx)?)
    }

    /// Takes a transaction that was checked already.
    pub(crate) fn send_recovered(&self, tx: Recovered<Tx>) -> Result<B256, DevError> {
        let hash = self.enqueue(tx)?;
        if self.config.mining == Mining::Instant {
            self.mine_ready()?;
        }
        Ok(hash)
    }

    /// Puts a checked transaction into the pool.
    pub(crate) fn enqueue(&self, tx: Recovered<Tx>) -> Result<B256, DevError> {
        let hash = *tx.inner().tx_hash();
        {
            let mut pool = self.pool.lock();
            let sender = self.head_state()?.account(tx.signer())?.unwrap_or_default();
            pool.add(Arc::new(tx), sender)?;
        }
        self.events.lock().pending.push(hash);
        Ok(hash)
    }

    /// Makes blocks as long as something can be included.
    pub(crate) fn mine_ready(&self) -> Result<(), DevError> {
        let _making = self.making.lock();
        self.make_ready()
    }

    /// The same, for who has the lock.
    fn make_ready(&self) -> Result<(), DevError> {
        loop {
            let head = self.head_block()?;
            let mut best = self.best(&head)?;
            if best.is_empty() {
                return Ok(());
            }
            let made = self.make(&head, None, &mut best, 0)?;
            if made.block.body().transactions.is_empty() {
                return Ok(());
            }
            self.take(vec![made])?;
        }
    }

    /// Puts transactions into the pool and makes blocks of it, as few as possible: nothing else is
    /// made in between.
    pub(super) fn mine_batch(&self, txs: Vec<Recovered<Tx>>) -> Result<(), DevError> {
        let _making = self.making.lock();
        for tx in txs {
            self.enqueue(tx)?;
        }
        self.make_ready()
    }

    /// Makes `count` blocks, the first with what the pool has. Returns the head.
    ///
    /// # Errors
    /// [`DevError::Limit`] above 10,000.
    pub fn mine(&self, count: u64) -> Result<BlockRef, DevError> {
        if count > MAX_MINED {
            return Err(DevError::Limit {
                what: "number of blocks",
                limit: MAX_MINED,
                given: count,
            });
        }
        let _making = self.making.lock();
        let mut left = count;
        while left > 0 {
            let head = self.head_block()?;
            let mut best = self.best(&head)?;
            let mut made = vec![self.make(&head, None, &mut best, 0)?];
            if best.is_empty() {
                // Nothing waits: the others are empty, and are written together.
                while (made.len() as u64) < left.min(MINED_TOGETHER)
                    && let Some(last) = made.last()
                {
                    made.push(self.make_on(last, &mut std::iter::empty(), 0)?);
                }
            }
            left -= made.len() as u64;
            self.take(made)?;
        }
        Ok(self.chain.head().unwrap_or_default())
    }

    /// Makes a block that sets balances and slots by decree ([`IrregularChange`]), and holds
    /// nothing else.
    pub(super) fn decree(&self, change: IrregularChange) -> Result<BlockRef, DevError> {
        let _making = self.making.lock();
        let head = self.head_block()?;
        let nothing = &mut std::iter::empty();
        let made = self.make(&head, Some(change), nothing, 0)?;
        let block = BlockRef::new(made.block.number, made.block.hash());
        self.take(vec![made])?;
        Ok(block)
    }

    pub(super) fn make(
        &self,
        parent: &Arc<RecoveredBlock>,
        change: Option<IrregularChange>,
        source: &mut dyn Source,
        salt: u64,
    ) -> Result<Executed, DevError> {
        let state = self.chain.state(parent.hash())?;
        self.make_with(parent, &state, change, source, salt)
    }

    pub(super) fn make_on(
        &self,
        parent: &Executed,
        source: &mut dyn Source,
        salt: u64,
    ) -> Result<Executed, DevError> {
        self.make_with(&parent.block, &parent.state, None, source, salt)
    }

    fn make_with(
        &self,
        parent: &RecoveredBlock,
        state: &ChainState,
        change: Option<IrregularChange>,
        source: &mut dyn Source,
        salt: u64,
    ) -> Result<Executed, DevError> {
        let plan = Plan {
            timestamp: unix_time().max(parent.timestamp + 1),
            coinbase: self.config.coinbase,
            gas_limit: parent.gas_limit,
            salt,
            extra_data: match change {
                Some(_) => Bytes::from_static(b"prestate dev: state by decree"),
                None => Bytes::new(),
            },
            change,
        };
        build(self.spec(), parent, state, &plan, source)
            .map_err(|error| DevError::Build(error.to_string()))
    }

    /// Writes blocks down, makes them canonical and tells everybody, in this order.
    pub(super) fn take(&self, made: Vec<Executed>) -> Result<(), DevError> {
        if let Some(journal) = &self.journal {
            journal.append(self.spec(), made.iter().map(|made| &*made.block))?;
        }
        let notification = self.chain.adopt(made)?;
        let head = self.head_block()?;
        let state = self.head_state()?;
        // In memory, reading an account cannot fail.
        let account = |address| state.account(address).ok().flatten().unwrap_or_default();
        self.pool.lock().prune(account);
        if let Some(notification) = notification {
            self.events.lock().chain.push(notification.into());
        }
        if head.number.is_multiple_of(LET_GO_EVERY) {
            let_go(&self.chain, head.number);
        }
        Ok(())
    }

    fn best(&self, head: &RecoveredBlock) -> Result<Best, DevError> {
        let state = self.head_state()?;
        let nonce =
            |address| state.account(address).ok().flatten().map_or(0, |account| account.nonce);
        Ok(self.pool.lock().best(next_base_fee(head.header()), nonce))
    }

    /// The block that would be made now, with its state; never canonical.
    pub(crate) fn pending(&self) -> Result<Executed, DevError> {
        let head = self.head_block()?;
        let state = self.chain.state(head.hash())?;
        let mut best = self.best(&head)?;
        self.make_with(&head, &state, None, &mut best, 0)
    }

    pub(crate) fn with_pool<T>(&self, look: impl FnOnce(&mut Pool) -> T) -> T {
        look(&mut self.pool.lock())
    }

    pub(crate) fn with_events<T>(&self, look: impl FnOnce(&Events) -> T) -> T {
        look(&self.events.lock())
    }

    pub(super) fn making(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.making.lock()
    }

    /// The newest block.
    pub(crate) fn head_block(&self) -> Result<Arc<RecoveredBlock>, StateError> {
        let hash = self.chain.head().map_err(backend)?.hash;
        self.block_by_hash(hash)?.ok_or(StateError::UnknownBlock(hash))
    }

    pub(crate) fn head_state(&self) -> Result<ChainState, StateError> {
        self.chain.state(self.chain.head().map_err(backend)?.hash)
    }

    pub(crate) fn block_by_hash(
        &self,
        hash: B256,
    ) -> Result<Option<Arc<RecoveredBlock>>, StateError> {
        self.chain.block(hash).map_err(backend)
    }

    pub(crate) fn state(&self, hash: B256) -> Result<ChainState, StateError> {
        self.chain.state(hash)
    }

    pub(crate) fn receipts(&self, hash: B256) -> Option<Arc<Vec<Receipt>>> {
        self.chain.receipts(hash)
    }

    fn depth(&self, blocks: u64) -> Result<Option<BlockRef>, HostError> {
        let number = self.chain.head()?.number.saturating_sub(blocks);
        let hash = self.chain.canonical_hash(number)?;
        Ok(hash.map(|hash| BlockRef::new(number, hash)))
    }
}

fn backend(error: HostError) -> StateError {
    StateError::Backend(error.to_string())
}

fn let_go(chain: &MemoryChain, head: u64) {
    chain.let_go(head.saturating_sub(FINAL_BLOCKS), head.saturating_sub(STATE_BLOCKS));
}

fn is_same_chain(config: &DevConfig, stored: &Genesis) -> Result<(), OpenError> {
    let asked = dev_genesis(config, &[], 0).config;
    let folder = config.datadir.as_deref().unwrap_or("".as_ref()).display().to_string();
    let differ = |what, stored: String, asked: String| {
        if stored == asked {
            return Ok(());
        }
        Err(OpenError::OtherChain { folder: folder.clone(), what, stored, asked })
    };
    differ("chain id", stored.config.chain_id.to_string(), asked.chain_id.to_string())?;
    let rules = |config| {
        let spec = ChainSpec::from_genesis(config);
        let rules = format!("{:?}", spec.rules_at(0, 0)).to_lowercase();
        match spec.blob_params_at(0) {
            Some(blobs) => format!("{rules} ({} blobs)", blobs.max_blob_count),
            None => rules,
        }
    };
    differ("hardfork", rules(&stored.config), rules(&asked))
}

/// Seconds since 1970.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Host for DevChain {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "dev", version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        self.chain.spec()
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        self.chain.head()
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        self.depth(SAFE_BLOCKS)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        self.depth(FINAL_BLOCKS)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        self.chain.earliest()
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.chain.canonical_hash(number)
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        self.chain.block(hash)
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        self.chain.transaction(hash)
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        self.chain.state_after(hash)
    }

    fn notifications(&self) -> Option<Notifications> {
        self.chain.notifications()
    }

    fn ack(&self, block: BlockRef) {
        self.chain.ack(block);
    }
}

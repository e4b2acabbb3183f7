use crate::{
    BlockUpdate, Decision, Explanation, Objective, Reorg, ResyncError, ResyncerConfig, SlotKey,
    Source, Update, WatchError,
    block_traces::BlockTraces,
    capability::Capabilities,
    endpoint::Endpoint,
    latency::{Latencies, Timed},
    ledger::Ledger,
    point_reads::PointReads,
};
use alloy_network::{Ethereum, Network};
use alloy_primitives::{Address, B256};
use alloy_provider::Provider;
use prestate_types::BlockRef;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Keeps a set of storage slots exact across blocks, gaps and reorgs, against any node.
///
/// It chooses between three [sources](Source) by [`Objective`], learns what the endpoint offers and
/// how fast it is, and can [explain](Self::explain) every choice. After [`Self::sync`] returns
/// `Ok`, every watched slot has the value it has after [`Self::head`].
///
/// What it relies on: that the node's answers are true for the block they name. What a trace cannot
/// tell for sure is read: slots of an account that the trace says is gone, slots whose old value
/// is not the one known, slots of [`ResyncerConfig::untraceable`] accounts.
/// One case is out of reach of any trace of Geth's: a contract made in the very transaction in which
/// a SELFDESTRUCT of it is undone (after Cancun) is missing from both sides. Whoever watches slots of
/// contracts before they exist, and fears that, leaves [`Source::Trace`] out.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use prestate_client::{Objective, Resyncer, ResyncerConfig, connect_http};
/// use alloy_primitives::{B256, address};
///
/// let provider = connect_http("http://127.0.0.1:8545".parse()?)?;
/// let config = ResyncerConfig { objective: Objective::ComputeUnits, ..Default::default() };
/// let mut resyncer = Resyncer::new(provider, config);
/// resyncer.watch(address!("0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640"), [B256::ZERO])?;
/// loop {
///     let update = resyncer.next_update(std::time::Duration::from_millis(500)).await?;
///     for change in update.changes {
///         println!("{}: {:?} -> {}", change.key.slot, change.old, change.new);
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Resyncer<P, N = Ethereum> {
    pub(crate) endpoint: Endpoint<P, N>,
    pub(crate) config: ResyncerConfig,
    pub(crate) ledger: Ledger,
    pub(crate) capabilities: Capabilities,
    pub(crate) latencies: Latencies,
    pub(crate) reads: PointReads,
    pub(crate) traces: BlockTraces,
    /// Number of this resync, from one.
    pub(crate) resyncs: u64,
    pub(crate) decisions: VecDeque<Decision>,
    /// Resync in which a source was last measured.
    pub(crate) measured: BTreeMap<Source, u64>,
    pub(crate) doubted_gone: u64,
    pub(crate) doubted_mismatch: u64,
    /// Where the last update ended.
    reported: Option<BlockRef>,
    /// What is to be reported with the next update.
    pub(crate) reorg: Option<Reorg>,
    pub(crate) blocks: Vec<BlockUpdate>,
    pub(crate) used: Vec<Source>,
    chain_checked: bool,
}

impl<P: Provider<N>, N: Network> Resyncer<P, N> {
    /// A resyncer without slots; [`connect_http`](crate::connect_http) makes a fitting provider.
    pub fn new(provider: P, config: ResyncerConfig) -> Self {
        Self {
            endpoint: Endpoint::new(provider, &config),
            ledger: Ledger::new(config.keep_blocks),
            capabilities: Capabilities::new(config.sources.iter().copied()),
            latencies: Latencies::default(),
            reads: PointReads::new(config.max_batch, config.width),
            traces: BlockTraces::default(),
            resyncs: 0,
            decisions: VecDeque::new(),
            measured: BTreeMap::new(),
            doubted_gone: 0,
            doubted_mismatch: 0,
            reported: None,
            reorg: None,
            blocks: Vec::new(),
            used: Vec::new(),
            chain_checked: config.chain_id.is_none(),
            config,
        }
    }

    /// The provider it works with.
    pub fn provider(&self) -> &P {
        self.endpoint.provider()
    }

    /// Watches slots of an account; they are cold until the next [`Self::sync`]. Slots watched
    /// already stay as they are. The account need not exist: its slots are zero then.
    ///
    /// # Errors
    /// Too many slots; none is added then.
    pub fn watch(
        &mut self,
        address: Address,
        slots: impl IntoIterator<Item = B256>,
    ) -> Result<(), WatchError> {
        let keys: Vec<_> = slots.into_iter().map(|slot| SlotKey::new(address, slot)).collect();
        let new: std::collections::BTreeSet<_> =
            keys.iter().filter(|key| !self.ledger.is_watched(key)).collect();
        let (given, limit) = (self.ledger.len() + new.len(), self.config.max_slots);
        if given > limit {
            return Err(WatchError::TooManySlots { given, limit });
        }
        for key in keys {
            self.ledger.watch(key);
        }
        Ok(())
    }

    /// Stops watching a slot; whether it was watched.
    pub fn unwatch(&mut self, address: Address, slot: B256) -> bool {
        self.ledger.unwatch(&SlotKey::new(address, slot))
    }

    /// Number of watched slots.
    pub fn watched(&self) -> usize {
        self.ledger.len()
    }

    /// The block whose state the values are of; `None` before the first resync.
    pub fn head(&self) -> Option<BlockRef> {
        self.ledger.head()
    }

    /// A watched slot's value after [`Self::head`]; `None` if it is not watched or still cold.
    pub fn value(&self, address: Address, slot: B256) -> Option<B256> {
        self.ledger.value(&SlotKey::new(address, slot))
    }

    /// All watched slots with their values, `None` for cold ones.
    pub fn values(&self) -> impl Iterator<Item = (SlotKey, Option<B256>)> + '_ {
        self.ledger.keys().map(|key| (key, self.ledger.value(&key)))
    }

    /// Changes what it is to be good at, from the next resync on.
    pub fn set_objective(&mut self, objective: Objective) {
        self.config.objective = objective;
    }

    /// Brings every watched slot to the newest block.
    ///
    /// # Errors
    /// See [`ResyncError`]. What was found until then is kept and reported by the next call that
    /// succeeds.
    pub async fn sync(&mut self) -> Result<Update, ResyncError> {
        self.check_chain().await?;
        self.resyncs += 1;
        let spent = self.endpoint.spent().units();
        self.repair().await?;
        let head = self.ledger.head().ok_or_else(|| ResyncError::Exhausted(Vec::new()))?;
        let from = self.reported.replace(head);
        // Blocks that came and went between two updates are no news.
        let reorg = self.reorg.take().filter(|reorg| {
            reorg.common_ancestor.is_none()
                || from.is_some_and(|from| reorg.dropped.contains(&from))
        });
        Ok(Update {
            from,
            head,
            reorg,
            changes: self.ledger.take_changes(),
            blocks: std::mem::take(&mut self.blocks),
            sources: std::mem::take(&mut self.used),
            compute_units: self.endpoint.spent().units() - spent,
        })
    }

    /// Resyncs every `poll` until there is a new head.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub async fn next_update(&mut self, poll: Duration) -> Result<Update, ResyncError> {
        loop {
            let update = self.sync().await?;
            if update.from != Some(update.head) || !update.changes.is_empty() {
                return Ok(update);
            }
            tokio::time::sleep(poll).await;
        }
    }

    /// The numbers behind the last decisions, and everything learned.
    pub fn explain(&self) -> Explanation {
        let sources = self.latencies.table().filter_map(|(what, estimate)| match what {
            Timed::Source(source) => Some((source, estimate)),
            Timed::Header => None,
        });
        Explanation {
            objective: self.config.objective,
            cost_table: self.endpoint.costs().name().to_owned(),
            resyncs: self.resyncs,
            spent: self.endpoint.spent().clone(),
            latencies: sources.collect(),
            batch_size: self.reads.batch_size(),
            reads_by_hash: self.reads.by_hash(),
            doubted_gone: self.doubted_gone,
            doubted_mismatch: self.doubted_mismatch,
            decisions: self.decisions.iter().cloned().collect(),
        }
    }

    async fn check_chain(&mut self) -> Result<(), ResyncError> {
        if let Some(expected) = self.config.chain_id
            && !self.chain_checked
        {
            let given: alloy_primitives::U64 =
                self.endpoint.persist("eth_chainId", ()).await.map_err(ResyncError::Head)?;
            if given.to::<u64>() != expected {
                return Err(ResyncError::OtherChain { expected, given: given.to() });
            }
            self.chain_checked = true;
        }
        Ok(())
    }
}

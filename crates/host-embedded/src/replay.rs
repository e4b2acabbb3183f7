use crate::{BlockFile, MapState};
use alloy_primitives::{B256, map::B256Map};
use prestate_host::{
    ChainSpec, Host, HostError, HostInfo, Notifications, RecoveredBlock, StateError, StateReader,
    TxPlace, summary,
};
use prestate_types::BlockRef;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::mpsc;

/// Why a set of block files makes no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayHostError {
    /// Nothing to serve.
    #[error("no block file given")]
    Empty,
    /// Two blocks of one number.
    #[error("two blocks of number {number} were given: {first} and {second}")]
    SameNumber {
        /// The number.
        number: u64,
        /// Hash of the one loaded first.
        first: B256,
        /// Hash of the other.
        second: B256,
    },
}

/// Block files as a host: a chain with gaps, that never changes. State is there before each block
/// (after its parent) and nowhere else.
#[derive(Debug)]
pub struct ReplayHost {
    spec: Arc<ChainSpec>,
    blocks: B256Map<Arc<RecoveredBlock>>,
    by_number: BTreeMap<u64, B256>,
    transactions: B256Map<TxPlace>,
    /// By the hash of the block it follows.
    states: B256Map<Arc<MapState>>,
    earliest: BlockRef,
    head: BlockRef,
}

impl ReplayHost {
    /// A host over the files. The same block given twice counts once.
    pub fn new(
        spec: ChainSpec,
        files: impl IntoIterator<Item = BlockFile>,
    ) -> Result<Self, ReplayHostError> {
        let mut blocks = B256Map::default();
        let mut by_number = BTreeMap::new();
        let mut transactions = B256Map::default();
        let mut states: B256Map<Arc<MapState>> = B256Map::default();
        for BlockFile { block, prestate } in files {
            let BlockRef { number, hash } = summary(&block).block;
            if let Some(first) = by_number.insert(number, hash) {
                if first != hash {
                    return Err(ReplayHostError::SameNumber { number, first, second: hash });
                }
                continue;
            }
            for (index, tx) in block.body().transactions.iter().enumerate() {
                let place = TxPlace { block: BlockRef::new(number, hash), index: index as u64 };
                transactions.insert(*tx.tx_hash(), place);
            }
            states
                .entry(block.parent_hash)
                .and_modify(|state| Arc::make_mut(state).extend(prestate.clone()))
                .or_insert_with(|| Arc::new(prestate));
            blocks.insert(hash, Arc::new(block));
        }
        let end = |entry: Option<(&u64, &B256)>| {
            entry.map(|(number, hash)| BlockRef::new(*number, *hash)).ok_or(ReplayHostError::Empty)
        };
        let earliest = end(by_number.first_key_value())?;
        let head = end(by_number.last_key_value())?;
        let spec = Arc::new(spec);
        Ok(Self { spec, blocks, by_number, transactions, states, earliest, head })
    }

    /// The blocks, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<RecoveredBlock>> {
        self.by_number.values().filter_map(|hash| self.blocks.get(hash))
    }
}

impl Host for ReplayHost {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "replay", version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        Ok(self.head)
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        Ok(self.earliest)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        Ok(self.by_number.get(&number).copied())
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        Ok(self.blocks.get(&hash).cloned())
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        Ok(self.transactions.get(&hash).copied())
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        match (self.states.get(&hash), self.blocks.get(&hash)) {
            (Some(state), _) => Ok(Box::new(Arc::clone(state))),
            (None, Some(block)) => Err(StateError::NotHeld(summary(block).block)),
            (None, None) => Err(StateError::UnknownBlock(hash)),
        }
    }

    fn notifications(&self) -> Option<Notifications> {
        // Closed from the start: nothing ever changes.
        let (_, receiver) = mpsc::channel(1);
        Some(receiver)
    }

    fn ack(&self, _block: BlockRef) {}
}

use crate::{CostTable, Objective, Source};
use alloy_primitives::{Address, address};
use std::{collections::BTreeSet, time::Duration};

/// Contracts that the protocol itself writes to, outside transactions, so that no transaction
/// trace shows it: beacon roots (EIP-4788), block hashes (EIP-2935), withdrawal requests
/// (EIP-7002), consolidation requests (EIP-7251).
pub const SYSTEM_CONTRACTS: [Address; 4] = [
    address!("0x000F3df6D732807Ef1319fB7B8bB8522d0Beac02"),
    address!("0x0000F90827F1C53a10cb7A02335B175320002935"),
    address!("0x00000961Ef480Eb55e80D19ad83579A64c007002"),
    address!("0x0000BBdDc7CE488642fb579F8B00f3a590007251"),
];

/// How a [`Resyncer`](crate::Resyncer) works.
#[derive(Debug, Clone)]
pub struct ResyncerConfig {
    /// What it is to be good at.
    pub objective: Objective,
    /// Sources it may choose from. Cold slots are read in any case.
    pub sources: Vec<Source>,
    /// The provider's price list.
    pub costs: CostTable,
    /// If given, another chain is refused.
    pub chain_id: Option<u64>,
    /// Most slots watched.
    pub max_slots: usize,
    /// Blocks that can be taken back without reading every slot anew.
    pub keep_blocks: usize,
    /// Longest way back to a known block that is walked for the sake of traces.
    pub max_walk_blocks: u64,
    /// Most reads in one batch. It becomes less by itself where a provider refuses.
    pub max_batch: usize,
    /// Requests that may run side by side.
    pub width: usize,
    /// Attempts in a row without any progress, after which a source is given up for this resync.
    pub attempts: u32,
    /// Pause before the second attempt; it doubles up to [`Self::max_pause`], and a provider that
    /// names a longer one is obeyed up to there.
    pub pause: Duration,
    /// Longest pause.
    pub max_pause: Duration,
    /// Accounts whose slots may change outside transactions: read after every traced block.
    pub untraceable: BTreeSet<Address>,
    /// Decisions kept for [`Resyncer::explain`](crate::Resyncer::explain).
    pub kept_decisions: usize,
}

impl Default for ResyncerConfig {
    fn default() -> Self {
        Self {
            objective: Objective::default(),
            sources: Source::ALL.to_vec(),
            costs: CostTable::default(),
            chain_id: None,
            max_slots: 100_000,
            // Two epochs: finality in ordinary times.
            keep_blocks: 64,
            max_walk_blocks: 256,
            // What public endpoints take without refusing items; own nodes take 1,000.
            max_batch: 100,
            width: 4,
            attempts: 5,
            pause: Duration::from_millis(200),
            max_pause: Duration::from_secs(10),
            untraceable: SYSTEM_CONTRACTS.into(),
            kept_decisions: 64,
        }
    }
}

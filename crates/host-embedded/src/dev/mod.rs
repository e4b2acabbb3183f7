//! The dev chain: an Ethereum chain in this process that makes its own blocks.

mod accounts;
mod admission;
mod build;
mod call;
mod chain;
mod clock;
mod config;
mod error;
mod events;
mod genesis;
mod journal;
mod mutate;
mod pool;
mod reorg;
mod rpc;
mod traffic;

pub use accounts::{AccountsError, DevAccounts};
pub use chain::{DevChain, FINAL_BLOCKS};
pub use config::{
    DEFAULT_ACCOUNTS, DEFAULT_BALANCE_ETHER, DEFAULT_CHAIN_ID, DEFAULT_GAS_LIMIT, DEFAULT_HARDFORK,
    DevConfig, Hardfork, Mining, TEST_MNEMONIC, UnknownHardfork,
};
pub use error::{DevError, OpenError};
pub use genesis::dev_genesis;
pub use journal::JournalError;
pub use reorg::Reorg;
pub use rpc::{DevRpc, dev_module};
pub use traffic::{
    HEAVY_GAS_LIMIT, HEAVY_TRANSACTIONS, MAX_TPS, PoolAt, TokenAt, TrafficConfig, TrafficContracts,
    TrafficError, TrafficShape,
};

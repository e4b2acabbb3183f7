//! Programs and transactions made by hand or by a seed, and chains made of them.

mod asm;
mod chain;
mod genesis;
mod keys;
mod program;
mod traffic;
mod transaction;
mod world;

pub use asm::{CallGas, Code, op};
pub use chain::{BlockRecipe, Chain, ChainError};
pub use genesis::{CHAIN_ID, Fork, GAS_LIMIT, GenesisAccount, GenesisPlan};
pub use keys::Keys;
pub use program::Programs;
pub use transaction::{AuthNonce, Authorisation, Fee, Recipe, Shape};
pub use world::{AUTHORITIES, Contract, SENDERS, World};

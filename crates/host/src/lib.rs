//! The seam between the product and whatever runs the chain: a reth node, the embedded dev chain,
//! or a set of block files.
//!
//! Everything above works against [`Host`] and is tested with the hosts of `prestate-host-embedded`
//! and, under the feature `test-utils`, with [`fake::FakeHost`]. Every host's own test calls
//! [`conformance::check`].

mod block;
mod database;
mod error;
mod execution;
mod host;
mod irregular;
mod notification;
mod receipts;
mod spec;
mod state;

#[cfg(feature = "test-utils")]
pub mod conformance;
#[cfg(feature = "test-utils")]
pub mod fake;

pub use block::{Block, RecoveredBlock, TxPlace, summary};
pub use database::{ReaderDb, ReaderDbError};
pub use error::{HostError, StateError};
pub use execution::{evm_env, execution_context};
pub use host::{Host, HostInfo};
pub use irregular::{BalanceChange, IrregularChange, SlotChange, apply_pre_block, execute_block};
pub use notification::{BundleSlice, CommittedBlock, Notification, Notifications};
pub use receipts::{HeaderMismatch, Outcome, Receipt, Receipts, check_header, same};
pub use spec::{ChainSpec, SpecError};
pub use state::StateReader;

//! RPC namespaces as traits and parameter types.

mod block;
mod error;
mod options;
mod quantity;
mod resync;
mod state;
mod subscribe;
#[cfg(test)]
mod tests;
mod views;

pub use block::{BlockHandle, BlockHead, Position};
pub use error::{RpcError, code};
pub use options::{CodeOption, DiffOptions};
pub use resync::{MAX_WATCHED_SLOTS, Resync, ResyncRequest, Watch};
pub use state::{
    AccountQuery, AccountState, AccountsAt, MAX_READ_SLOTS, SlotsByAccount, StorageAt,
    StorageValues,
};
pub use subscribe::{
    CutNotice, CutReason, DiffMessage, DiffStreamKind, StreamedBlock, StreamedDiff,
    SubscribeOptions,
};
pub use views::{
    AccountChange, BlockDiffView, DiffRange, DiffSide, ReorgNotice, Sides, SlotValues,
    TransactionDiffView, TransactionDiffsView,
};

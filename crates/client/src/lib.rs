//! The consumer's side: the `prestate_*` namespace on alloy's providers ([`PrestateApi`]), diffs as a
//! stream without gaps ([`DiffStream`]), and [`Resyncer`], which keeps storage slots exact against any
//! node.

mod block_trace;
mod block_traces;
mod capability;
mod choose;
mod config;
mod cost;
mod diff_cursor;
mod diff_socket;
mod diff_stream;
mod endpoint;
mod error;
mod explain;
mod fault;
mod header;
mod latency;
mod ledger;
mod point_reads;
mod policy;
mod prestate_api;
mod provider;
mod refusal;
mod repair;
mod resync_call;
mod resyncer;
mod source;
mod update;
mod walk;

pub use capability::Availability;
pub use config::{ResyncerConfig, SYSTEM_CONTRACTS};
pub use cost::{CostTable, Spent};
pub use diff_stream::{DiffEvent, DiffStream, DiffStreamConfig, DiffStreamError, StartAt};
pub use error::{ResyncError, WatchError};
pub use explain::{Decision, Explanation, Outcome};
pub use fault::Fault;
pub use latency::LatencyEstimate;
pub use ledger::{SlotChange, SlotKey};
pub use policy::{Candidate, Reason, Situation};
pub use prestate_api::PrestateApi;
pub use provider::connect_http;
pub use refusal::Refusal;
pub use resyncer::Resyncer;
pub use source::{Objective, Source};
pub use update::{BlockUpdate, Reorg, Update};

// What the calls take and answer.
pub use prestate_rpc_api::{
    AccountChange, AccountQuery, AccountState, AccountsAt, BlockDiffView, BlockHandle, BlockHead,
    CodeOption, DiffMessage, DiffOptions, DiffRange, DiffSide, DiffStreamKind, MAX_READ_SLOTS,
    Position, ReorgNotice, Resync, ResyncRequest, SlotValues, SlotsByAccount, StorageAt,
    StorageValues, StreamedBlock, StreamedDiff, SubscribeOptions, TransactionDiffView,
    TransactionDiffsView, Watch,
};
pub use prestate_types::BlockRef;

//! The vocabulary of the product: blocks by reference, what a block or transaction changed, and
//! how two changes combine.
//!
//! Nothing here does I/O, knows the EVM or JSON: every other crate leans on these types.

mod account;
mod block;
mod codes;
mod compare;
mod diff;
mod filter;
mod geth;
mod merge;
mod metric;
mod opcode_names;
mod tracer;
mod traces;
mod vm_error;

pub use account::{AccountDelta, AccountInfo, KECCAK_EMPTY, SlotDelta};
pub use block::{BlockRef, BlockSummary};
pub use codes::{CodeHashMap, Codes};
pub use compare::Mismatch;
pub use diff::{BlockDiff, BlockFacts, StateDiff, TxDiff, ZeroReads};
pub use filter::{DiffFilter, FilterError, MAX_FILTER_ADDRESSES, MAX_FILTER_SLOTS};
pub use geth::{GethAccount, GethDiff, GethOptions, GethState};
pub use metric::{Metric, MetricKind};
pub use opcode_names::opcode_name;
pub use tracer::{CallOptions, FlatCallOptions, PrestateOptions, StructLogOptions, Tracer};
pub use traces::{
    CallFrame, CallLog, FlatFrames, FrameKind, SelectorCalls, Step, StepSink, StructLogs,
    TraceOutput, TracePlace,
};
pub use vm_error::VmError;

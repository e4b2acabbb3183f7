//! From committed blocks to exact diffs.
//!
//! Two sources, one model: [`block_diff`] reads what a block changed from its committed bundle,
//! without executing anything; [`replay`] runs the block once on its parent's state and takes what
//! each transaction changed from the EVM's own journal, without an inspector. [`check_invariant`]
//! holds them against each other. [`replay_lookups`] follows Geth's look-ups opcode by opcode, for
//! the plain prestate mode and for Geth's artefacts.
//!
//! Nothing here sees a clock, a socket or JSON.

mod bundle;
mod call;
mod changes;
mod driver;
mod error;
mod exact;
mod invariant;
mod lookups;
mod replay;
mod tracers;
mod warm_up;

pub use bundle::{RunDiffs, block_diff};
pub use call::{
    AccountOverride, Before, BlockOverrides, CallEnvironment, CallError, CallState, CallTrace,
    Message, OverrideError, PrefixError, StateOverrides, state_before, trace_call,
};
pub use changes::state_diff;
pub use driver::{BlockEvm, BlockState, Deadline, Driver, Execution, Finished, TxStep};
pub use error::{InvariantError, ReplayError};
pub use exact::{PlainOptions, TxLookups};
pub use invariant::check_invariant;
pub use lookups::LookupInspector;
pub use replay::{Replayed, replay, replay_lookups};
pub use tracers::{
    CallTracer, FourByteTracer, ParityInspector, StopsItself, StructLogger, TraceError,
    TraceInspector, TraceLimits, TxContext, Watched, localized, parity_state_diff, reward_traces,
    trace_block, trace_block_parity,
};
pub use warm_up::warm_up;

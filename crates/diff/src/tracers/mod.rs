//! Geth's other tracers, from revm's hooks.
//!
//! Geth calls its tracers at other moments than revm, and its errors carry more words. Each tracer
//! here is an inspector of its own that keeps what Geth would see; [`TraceInspector`] runs any of
//! them, and [`trace_block`] a block with it. Nothing here writes text: results are the plain
//! structures of `prestate-types`.

mod any;
mod authorizations;
mod block;
mod calls;
mod deadline;
mod four_byte;
mod metering;
mod operation;
mod parity;
mod parity_rewards;
mod parity_state;
mod precompile;
mod recorded;
mod revert_reason;
mod struct_log;
mod vm_trace;
mod watch;

pub(crate) use operation::operation;

pub use any::{TraceInspector, TxContext};
pub use block::{TraceError, TraceLimits, trace_block};
pub use calls::CallTracer;
pub use deadline::{StopsItself, Watched};
pub use four_byte::FourByteTracer;
pub use parity::{ParityInspector, localized, trace_block_parity};
pub use parity_rewards::reward_traces;
pub use parity_state::parity_state_diff;
pub use struct_log::StructLogger;

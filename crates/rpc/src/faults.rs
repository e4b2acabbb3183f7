//! One place that turns faults into JSON-RPC errors: Geth's code and text where Geth has one; what
//! is ours to know only goes into the log.

use prestate_diff::{ReplayError, TraceError};
use prestate_host::{HostError, StateError};
use prestate_rpc_api::{RpcError, code};
use prestate_wire::MissingCode;
use tracing::error;

/// A host that cannot look up blocks.
pub(crate) fn host(fault: HostError) -> RpcError {
    match fault {
        // Geth `core/history`, `PrunedHistoryError`.
        HostError::Pruned { .. } => {
            RpcError::new(code::PRUNED_HISTORY, "pruned history unavailable")
        }
        other => logged(&other),
    }
}

/// A state that cannot be read.
pub(crate) fn state(fault: StateError) -> RpcError {
    match fault {
        StateError::UnknownBlock(hash) => RpcError::server(format!("block {hash} not found")),
        StateError::Pruned { .. } => RpcError::server("historical state is not available"),
        StateError::Backend(_) => logged(&fault),
        // Block files: say which account and slot, so that the file can be mended.
        other => RpcError::server(other.to_string()),
    }
}

/// A replay that failed.
pub(crate) fn replay(fault: ReplayError) -> RpcError {
    match fault {
        ReplayError::Timeout { .. } => RpcError::server("execution timeout"),
        ReplayError::State { source: StateError::Backend(_), .. }
        | ReplayError::TxState { source: StateError::Backend(_), .. } => logged(&fault),
        ReplayError::State { source: source @ StateError::Pruned { .. }, .. }
        | ReplayError::TxState { source: source @ StateError::Pruned { .. }, .. } => state(source),
        ReplayError::InvalidTx { ref reason, .. } => {
            RpcError::server(format!("tracing failed: {reason}"))
        }
        other => RpcError::server(other.to_string()),
    }
}

/// A trace that failed.
pub(crate) fn trace(fault: TraceError) -> RpcError {
    match fault {
        TraceError::Replay(fault) => replay(fault),
        TraceError::TooManySteps { limit, bytes, .. } => {
            RpcError::limit(fault.to_string(), "structLogBytes", limit, bytes)
        }
        other => logged(&other),
    }
}

/// A code that the state names and does not hold.
pub(crate) fn code(fault: MissingCode) -> RpcError {
    logged(&fault)
}

/// A fault of ours: the cause goes into the log.
pub(crate) fn logged(fault: &dyn std::error::Error) -> RpcError {
    error!(target: "prestate::rpc", %fault, "request failed");
    RpcError::internal()
}

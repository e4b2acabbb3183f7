use crate::dev::{DevError, call::CallError};
use jsonrpsee::types::{ErrorObject, ErrorObjectOwned};
use prestate_host::StateError;
use serde_json::json;

/// -32000, with Geth's text.
pub(super) fn server(text: impl Into<String>) -> ErrorObjectOwned {
    ErrorObject::owned(-32000, text.into(), None::<()>)
}

/// -32602.
pub(super) fn invalid(text: impl Into<String>) -> ErrorObjectOwned {
    ErrorObject::owned(-32602, text.into(), None::<()>)
}

/// -32005: a limit, which `data` names with its value.
pub(super) fn limit(what: &str, limit: u64, given: u64) -> ErrorObjectOwned {
    let data = json!({ "limit": what, "value": limit, "given": given });
    ErrorObject::owned(-32005, format!("{what} is {given}, at most {limit}"), Some(data))
}

pub(super) fn state(error: StateError) -> ErrorObjectOwned {
    match error {
        // EIP-4444, as Geth and reth number it.
        StateError::Pruned { .. } => ErrorObject::owned(4444, error.to_string(), None::<()>),
        StateError::UnknownBlock(_) => server("header for hash not found"),
        other => {
            tracing::error!(%other, "reading the chain failed");
            ErrorObject::owned(-32603, "internal error", None::<()>)
        }
    }
}

pub(super) fn dev(error: DevError) -> ErrorObjectOwned {
    match error {
        DevError::Limit { what, limit: most, given } => limit(what, most, given),
        DevError::Depth { .. } => invalid(error.to_string()),
        DevError::State(error) => state(error),
        DevError::Refused(text) => server(text),
        DevError::EmptyAccount(_) | DevError::UnknownAccount => server(error.to_string()),
        DevError::Build(_) | DevError::Import(_) | DevError::Journal(_) => {
            tracing::error!(%error, "a block could not be made");
            ErrorObject::owned(-32603, "internal error", None::<()>)
        }
    }
}

/// Geth: a revert has code 3 and carries its data.
pub(super) fn call(error: CallError) -> ErrorObjectOwned {
    let text = error.to_string();
    match error {
        CallError::Reverted(data) => ErrorObject::owned(3, text, Some(data)),
        CallError::Halted(_) | CallError::Refused(_) | CallError::Invalid(_) => server(text),
    }
}

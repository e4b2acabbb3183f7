//! RPC namespaces as traits and parameter types.

mod error;

pub use error::{RpcError, code};

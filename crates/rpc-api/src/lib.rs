//! RPC namespaces as traits and parameter types.

mod error;
mod options;

pub use error::{RpcError, code};
pub use options::{CodeOption, DiffOptions};

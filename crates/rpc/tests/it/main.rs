//! The namespaces over a chain in memory, held against what Geth answered.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod parity;
mod recorded;
mod support;
mod trace_call;

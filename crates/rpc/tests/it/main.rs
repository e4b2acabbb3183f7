//! The namespaces over a chain in memory, held against what Geth answered.

mod recorded;
mod support;
mod trace_call;

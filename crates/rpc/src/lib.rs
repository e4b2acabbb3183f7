//! The namespaces, answered from the host, the store and the pipeline.

mod service;
mod trace_config;

pub use service::{Answer, Call, Outcome, Piece, Reply, Service, Timing};
pub use trace_config::{
    DEFAULT_TRACE_TIMEOUT, MAX_MUX_DEPTH, Refusal, TraceCallConfig, TraceConfig,
};

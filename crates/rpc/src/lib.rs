//! The namespaces, answered from the host by replay; results are ropes, made once.
//!
//! [`Rpc`] is the [`Service`] that every transport calls. Work that executes transactions runs on
//! blocking threads behind a permit ([`RpcConfig::max_executions`]); what is in the cache passes
//! without one.

mod args;
mod block_param;
mod blocks;
mod call_args;
mod config;
mod debug;
mod eth;
mod faults;
mod joined;
mod modules;
mod parity;
mod path;
mod prestate;
mod range;
mod raw;
mod reads;
mod replica;
mod rpc;
mod run;
mod service;
mod sources;
mod status;
mod subscribe;
mod trace_call;
mod trace_config;
mod view;
mod whole;

pub use config::{
    DEFAULT_CACHE_BYTES, DEFAULT_MAX_QUEUE, DEFAULT_MAX_RANGE_BLOCKS, DEFAULT_MAX_STRUCT_LOG_BYTES,
    RpcConfig,
};
pub use joined::Joined;
pub use modules::{Modules, into_module};
pub use replica::{ArchiveHost, ArchiveHostError};
pub use rpc::{METHODS, Rpc};
pub use service::{
    Answer, Call, Outcome, Piece, Reply, Service, Subscribed, Timing, notifications_unsupported,
};
pub use sources::Sources;
pub use trace_config::{
    DEFAULT_TRACE_TIMEOUT, MAX_MUX_DEPTH, Refusal, TraceCallConfig, TraceConfig,
};

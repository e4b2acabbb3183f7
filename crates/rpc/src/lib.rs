//! The namespaces, answered from the host, the store and the pipeline.

mod service;

pub use service::{Answer, Call, Outcome, Piece, Reply, Service, Timing};

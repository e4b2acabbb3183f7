//! A Geth of our own: started on loopback with a private data directory, fed with blocks of exactly
//! the content we choose, asked over HTTP, its answers kept as the bytes it sent.

mod case;
mod client;
mod node;
mod requests;

pub use case::{Case, CaseError, Exchange};
pub use client::{Answer, Client, ClientError};
pub use node::{BlockPlan, Geth, GethError, Withdrawal, locate};
pub use requests::{
    Depth, Request, block_requests, call_requests, prestate_options, step_options, tracer_options,
};

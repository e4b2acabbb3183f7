//! The reth host: prestate inside a reth node, as an execution extension.
//!
//! ```text
//! node ─ notifications ─► follow ─► pipeline ─► archive
//!   ▲                        │          │
//!   └── FinishedHeight ◄─────┘          ├─► prestate_* on the node's HTTP, WebSocket, IPC
//!   └── database ◄── RethHost ◄─────────┴─► lane on its own port
//! ```
//!
//! The only crate that names reth's git crates. [`Prestate`] is made of [`PrestateArgs`] and put
//! into a node by [`install`], or part by part beside other extensions. Whatever goes wrong here,
//! the node goes on, `prestate_status` lists it under `problems`, and it is tried again; with
//! `--prestate.strict` the node stops instead.

mod args;
mod extension;
mod follow;
mod health;
mod host;
mod install;
mod intercept;
mod lane;
mod notify;
mod services;
mod session;
mod shared;
mod spec;
mod state;

pub use args::{
    DEFAULT_LANE_PORT, PrestateArgs, RangeArg, RangeError, RetentionArg, RetentionError,
};
pub use extension::{EXEX_ID, Prestate};
pub use host::{RethHost, RethProvider};
pub use install::{Builder, install};
pub use intercept::{Intercept, InterceptLayer};
pub use notify::notification;

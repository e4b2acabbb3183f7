//! The one loop: notification, diff, bytes, store, publish, acknowledge.
//!
//! ```text
//! host ─► intake ─► follow ─► feed ─► subscriptions
//!                     │  ▲
//!                     ▼  │ pool: executes blocks again
//!                    writer ─► archive ─► host.ack
//! ```
//!
//! [`Pipeline::start`] runs it on threads of its own. Notifications of the host are hints; what is
//! canonical is asked of the host, and the way there is found by parent hashes. A block's change as
//! a whole is published at once from what the node committed; its transactions' diffs follow from
//! executing it again, are held against it, and are made durable before the host hears of it.
//!
//! No error and no panic in a block ends the loop. Nothing here knows JSON or a socket.

mod backfill;
mod chain;
mod compute;
mod config;
mod error;
mod feed;
mod follow;
mod intake;
mod metrics;
mod persist;
mod pipeline;
mod pool;
mod published;
mod redo;
mod run;
mod start;
mod status;
mod subscription;
mod work;

pub use backfill::{Backfill, BackfillProgress};
pub use config::{Backoff, PipelineConfig};
pub use error::{BackfillError, BlockFailure, StartError, SubscribeError};
pub use metrics::{METRICS, describe_metrics};
pub use pipeline::{Pipeline, PipelineHandle};
pub use published::PublishedBlock;
pub use redo::FailedBlock;
pub use status::PipelineStatus;
pub use subscription::{CutReason, Subscription, Update};

//! The HTTP and WebSocket front: any [`Service`](prestate_rpc::Service) over JSON-RPC.
//!
//! Replies are spliced from ropes, never parsed again. The lane bounds memory (connections,
//! requests and bytes in flight) and keeps the timers; the permits for work are the service's.
//! It sees no host and no store.
//!
//! | request | answer |
//! |---|---|
//! | `POST /` with a JSON content type | 200 and the response object or array; 204 if there were only notifications |
//! | `GET /` with `Upgrade: websocket` | a WebSocket that takes the same calls and batches, and subscriptions |
//! | `GET /` | 200, a page that says what this is |
//! | `GET /v1/blocks/{hash}/{view}` | 200 with strong `ETag`, 304, 404 for a block that is not known, 410 for one that is pruned |
//! | `GET /health`, `GET /ready` | 200; `/ready` 503 while the service fails or the lane closes |
//! | `GET /metrics` | 200, Prometheus text, where [`LaneConfig::metrics`] is given; without a token, the `Host` check applies |
//! | `OPTIONS /` | CORS preflight |
//! | anything else | 404, 405 with `Allow`, 415 for another content type |
//!
//! JSON-RPC errors travel with 200, as Geth sends them, broken JSON (-32700) included. What the
//! front itself refuses has a status of its own: 401 token, 403 host, 406 coding, 408 slow body,
//! 413 long body, 503 with `Retry-After` and -32005 overload.

mod activity;
mod admission;
mod balance;
mod body;
mod coding;
mod config;
mod cors;
mod dispatch;
mod envelope;
mod error;
mod frames;
mod front;
mod jwt;
mod metrics;
mod permessage;
mod reply;
mod request_body;
mod resources;
mod server;
mod socket;
mod stats;
mod subscriptions;
mod vhost;

pub use config::MetricsText;
pub use config::{
    DEFAULT_BATCH_CONCURRENCY, DEFAULT_BODY_TIMEOUT, DEFAULT_CALL_TIMEOUT, DEFAULT_HEADER_TIMEOUT,
    DEFAULT_IDLE_TIMEOUT, DEFAULT_MAX_BATCH_LEN, DEFAULT_MAX_BATCH_RESPONSE_BYTES,
    DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_IN_FLIGHT, DEFAULT_MAX_QUEUE, DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_RESPONSE_BYTES, DEFAULT_MAX_SUBSCRIPTIONS, DEFAULT_PING_INTERVAL, DEFAULT_PORT,
    DEFAULT_REQUEST_BYTES_IN_FLIGHT, DEFAULT_RESPONSE_BYTES_IN_FLIGHT, DEFAULT_VHOST,
    DEFAULT_WRITE_TIMEOUT, LaneConfig,
};
pub use error::{JwtSecretError, LaneError};
pub use jwt::JwtSecret;
pub use metrics::METRICS;
pub use server::{Lane, Running};
pub use stats::Stats;

//! The resyncer against a small provider whose chain is a plain model: the model is the oracle.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod behaviour;
mod model;
mod soak;
mod stream;
mod stub;
mod units;

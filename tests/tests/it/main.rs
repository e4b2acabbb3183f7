//! Integration tests over several crates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bundles;
mod chain;
mod consumer;
mod dev;
mod fixtures;
mod hosts;
mod layering;
mod lock_files;
mod metrics;
mod readme;
mod resyncer;
mod sample;
mod selfdestruct;
mod subscribers;
mod transports;

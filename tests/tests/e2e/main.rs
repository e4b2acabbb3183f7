//! The `prestate` program as a process: what it prints where, and how it exits.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod archive;
mod bad_input;
mod blocks;
mod dev;
mod metrics;
mod program;
mod server;

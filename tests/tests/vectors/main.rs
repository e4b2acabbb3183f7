//! Geth's own tracer vectors.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod calls;
mod parity;
mod prestate;
mod stops;
mod transaction;

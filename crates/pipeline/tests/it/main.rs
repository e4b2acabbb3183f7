//! The pipeline over a chain in memory.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod backfill;
mod chain;
mod crash;
mod faults;
mod model;
mod random;
mod reorg;
mod runs;
mod series;
mod stream;

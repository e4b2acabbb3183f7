//! The archive from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod chain;
mod crash;
mod faults;
mod fixtures;
mod model;
mod old;
mod open;
mod segment;

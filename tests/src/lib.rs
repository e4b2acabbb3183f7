//! Shared pieces of the test suites.

pub mod generate;
pub mod geth;

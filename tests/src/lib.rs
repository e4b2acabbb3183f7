//! Shared pieces of the test suites.

pub mod dev_chain;
pub mod fixtures;
pub mod generate;
pub mod geth;
pub mod series;

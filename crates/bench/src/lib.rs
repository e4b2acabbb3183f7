//! Workloads, rivals and reports.
//!
//! A workload runs its contestants in alternation, block by block and round by round, and keeps
//! every raw time: what is compared is medians of one run on one machine.

mod encode;
mod stats;

pub use encode::{EncodeError, EncodeReport, EncodeRow, encode};
pub use stats::median;

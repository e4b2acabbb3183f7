//! Workloads, rivals and reports.
//!
//! A workload runs its contestants in alternation, block by block and round by round, and keeps
//! every raw time: what is compared is medians of one run on one machine.

mod encode;
mod fill;
mod serve;
mod stats;

pub use encode::{EncodeError, EncodeReport, EncodeRow, encode};
pub use fill::{FillReport, FillRow, fill};
pub use serve::{
    HeavyRow, Load, LoadResult, Process, RivalKind, ServeError, ServeOptions, ServeReport,
    ServeRow, heavy_host, run_lane, run_rival, serve,
};
pub use stats::median;

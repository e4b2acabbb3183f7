//! Workloads, rivals and reports.
//!
//! A workload runs its contestants in alternation, block by block and round by round, and keeps
//! every raw time: what is compared is medians of one run on one machine.

mod archive;
mod commit;
mod encode;
mod fill;
mod outcome;
mod report;
mod resync;
mod serve;
mod stats;
mod storage;

pub use archive::{ArchiveBenchError, ArchiveBenchOptions, ArchiveReport, Sizes, archive};
pub use commit::{CommitError, CommitReport, CommitRow, commit};
pub use encode::{EncodeError, EncodeReport, EncodeRow, encode};
pub use fill::{FillReport, FillRow, fill};
pub use outcome::{Failure, Tally, UnknownFailure};
pub use report::{
    Bar, Better, Change, Column, Machine, Plot, PlotKind, Report, ReportError, Reported, Row,
    SCHEMA, Series, Table, compare, without_secrets,
};
pub use resync::{
    Cell, Coding, Crossing, EndpointUrl, Endpoints, Question, ResyncBenchError, ResyncOptions,
    ResyncReport, Slot, Timed, resync,
};
pub use serve::{
    Climb, Endpoint, EndpointError, FirstReplies, FirstRow, HeavyFill, LadderOptions, LadderReport,
    Launcher, Load, LoadResult, Process, RivalKind, ServeError, ServeOptions, ServeReport,
    ServeRow, SmallReport, Step, WorkReport, heavy_block, heavy_host, ladder, run_lane, run_rival,
    run_traced, serve,
};
pub use stats::median;
pub use storage::{StorageOptions, StorageReport, storage};

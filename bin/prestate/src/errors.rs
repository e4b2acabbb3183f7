use alloy_primitives::B256;
use prestate_diff::ReplayError;
use prestate_host::{HostError, SpecError, StateError};
use prestate_host_embedded::{ImportError, LoadError, ReplayHostError};
use prestate_wire::MissingCode;
use std::{io, path::PathBuf};

/// Why a command gave up. Shown after `error: `; the exit code is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Host(#[from] ReplayHostError),
    #[error(transparent)]
    Blocks(#[from] HostError),
    #[error(transparent)]
    Dev(#[from] prestate_host_embedded::dev::OpenError),
    #[error(transparent)]
    Traffic(#[from] prestate_host_embedded::dev::TrafficError),
    #[error("registering the dev chain's methods failed: {0}")]
    Methods(String),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Code(#[from] MissingCode),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("{}: {operation} failed: {source}", path.display())]
    Io { path: PathBuf, operation: &'static str, source: io::Error },
    #[error("{}: not a genesis file: {source}", path.display())]
    Genesis { path: PathBuf, source: serde_json::Error },
    #[error("transaction {wanted} is not in block {block}, which has {count} transactions")]
    NoSuchTransaction { wanted: B256, block: prestate_types::BlockRef, count: usize },
    #[error(transparent)]
    Bench(#[from] prestate_bench::EncodeError),
    #[error(transparent)]
    BenchReport(#[from] prestate_bench::ReportError),
    #[error(transparent)]
    BenchServe(#[from] prestate_bench::ServeError),
    #[error(transparent)]
    BenchResync(#[from] prestate_bench::ResyncBenchError),
    #[error(transparent)]
    ArchiveOpen(#[from] prestate_store::OpenError),
    #[error(transparent)]
    Replica(#[from] prestate_rpc::ArchiveHostError),
    #[error(transparent)]
    Pipeline(#[from] prestate_pipeline::StartError),
    #[error(transparent)]
    Backfill(#[from] prestate_pipeline::BackfillError),
    #[error(transparent)]
    Watch(#[from] prestate_client::DiffStreamError),
    #[error(transparent)]
    Lane(#[from] prestate_lane::LaneError),
    #[error(transparent)]
    Jwt(#[from] prestate_lane::JwtSecretError),
    #[error("{0}: `prestate archive verify --engine` does that")]
    NeedsWriter(prestate_store::OpenError),
    #[error(transparent)]
    ArchiveRead(#[from] prestate_store::ReadError),
    #[error(transparent)]
    ArchiveWrite(#[from] prestate_store::WriteError),
    #[error(transparent)]
    Location(#[from] prestate_segments::LocationError),
    #[error(transparent)]
    Segments(#[from] prestate_segments::SegmentsError),
    #[error("{}: {source}", path.display())]
    Segment { path: PathBuf, source: prestate_store::ImportError },
    #[error("recording metrics: {0}")]
    Metrics(metrics_exporter_prometheus::BuildError),
    #[error("starting the runtime failed: {0}")]
    Runtime(io::Error),
    #[error("{0}")]
    Usage(String),
    #[error("writing to standard output failed: {0}")]
    Output(io::Error),
}

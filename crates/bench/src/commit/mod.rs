//! From a block's commit to its diffs: the block diff from the node's bundle, and how long it takes
//! until the transactions' diffs can be had in gzip, and until the block is durable, through the
//! real pipeline with an archive on disk.

mod host;
mod report;

pub use report::{CommitReport, CommitRow};

use alloy_primitives::B256;
use host::CommittingHost;
use prestate_diff::{Execution, ReplayError, block_diff, replay};
use prestate_host::{BundleSlice, ChainSpec, RecoveredBlock, StateError, summary};
use prestate_host_embedded::{BlockFile, MapState, ReplayHost, ReplayHostError};
use prestate_pipeline::{Pipeline, PipelineConfig, PipelineHandle, StartError, Update};
use prestate_rpc::{Call, Reply, Rpc, RpcConfig, Service, Sources};
use prestate_rpc_api::RpcError;
use prestate_store::{Archive, ArchiveOptions, ChainId, OpenError};
use prestate_types::{BlockDiff, BlockRef, Codes};
use prestate_wire::{
    CodeTable, CodeView, Encoding, KnownCodes, MissingCode, RopeBuilder, splice, write_block_diff,
};
use revm::database::BundleState;
use serde_json::value::RawValue;
use std::{
    fs,
    hint::black_box,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, time::timeout};

/// A block that takes longer is not going to be served.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the acknowledgement is looked for.
const LOOK: Duration = Duration::from_micros(100);

/// Why the workload could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A block does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A value is not in the block's file.
    #[error(transparent)]
    State(#[from] StateError),
    /// A code is not in the block's file.
    #[error(transparent)]
    Code(#[from] MissingCode),
    /// A block file is no host.
    #[error(transparent)]
    Host(#[from] ReplayHostError),
    /// The archive could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The pipeline did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Its reason.
        source: io::Error,
    },
    /// A committed block is not served.
    #[error("block {block} is not served: {reason}")]
    NotServed {
        /// Which.
        block: BlockRef,
        /// Why.
        reason: String,
    },
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> CommitError {
    move |source| CommitError::Io { what, source }
}

/// A block with what executing it once gave.
struct Subject {
    block: Arc<RecoveredBlock>,
    prestate: MapState,
    bundle: Arc<BundleState>,
}

/// Runs the workload for so many rounds. `folder` is made for the archives, on the disk to be
/// measured, and removed at the end.
///
/// # Errors
/// The first block that fails ends the run.
pub fn commit(
    spec: &ChainSpec,
    files: Vec<BlockFile>,
    folder: &Path,
    rounds: usize,
    mut progress: impl FnMut(),
) -> Result<CommitReport, CommitError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(failed("start a runtime"))?;
    fs::create_dir_all(folder).map_err(failed("make a folder for the archives"))?;
    let mut subjects = Vec::new();
    for BlockFile { block, prestate } in files {
        let block = Arc::new(block);
        let parent = Arc::new(prestate.clone());
        let execution = Execution { spec, block: &block };
        let replayed = replay(execution, parent, &mut (), |_, _| ControlFlow::Continue(()))?;
        subjects.push(Subject { block, prestate, bundle: Arc::new(replayed.finished.bundle) });
    }
    let mut rows: Vec<_> = subjects
        .iter()
        .map(|subject| CommitRow::new(subject.block.number, subject.block.gas_used))
        .collect();
    // The first round warms up.
    for round in 0..=rounds.max(1) {
        for (subject, row) in subjects.iter().zip(&mut rows) {
            let times = once(spec, subject, folder, &runtime)?;
            if round > 0 {
                row.add(times);
            }
            progress();
        }
    }
    fs::remove_dir_all(folder).map_err(failed("remove the archives"))?;
    Ok(CommitReport { rows })
}

/// One block's times in one round.
struct Times {
    block_diff: Duration,
    replay: Duration,
    served: Duration,
    served_codes_new: Duration,
    durable: Duration,
}

fn once(
    spec: &ChainSpec,
    subject: &Subject,
    folder: &Path,
    runtime: &Runtime,
) -> Result<Times, CommitError> {
    let (block_diff, replay) = (time_block_diff(subject)?, time_replay(spec, subject)?);
    let Committed { served: served_codes_new, .. } =
        commit_one(spec, subject, folder, runtime, false)?;
    let Committed { served, durable } = commit_one(spec, subject, folder, runtime, true)?;
    Ok(Times { block_diff, replay, served, served_codes_new, durable })
}

/// The block diff and its JSON, from the bundle.
fn time_block_diff(subject: &Subject) -> Result<Duration, CommitError> {
    let Subject { block, prestate, bundle } = subject;
    let table = CodeTable::new();
    let started = Instant::now();
    let mut codes = Codes::default();
    let diff = block_diff(bundle, 0, prestate, &mut codes)?;
    let diff = BlockDiff { summary: summary(block), diff };
    let mut out = RopeBuilder::new();
    write_block_diff(&mut out, &diff, CodeView::Hash, &KnownCodes::new(&table, &codes))?;
    black_box(out.finish());
    Ok(started.elapsed())
}

/// Executing the block again for its transactions' diffs, nothing else.
fn time_replay(spec: &ChainSpec, subject: &Subject) -> Result<Duration, CommitError> {
    let parent = Arc::new(subject.prestate.clone());
    let started = Instant::now();
    let mut txs = Vec::with_capacity(subject.block.body().transactions.len());
    let execution = Execution { spec, block: &subject.block };
    let replayed = replay(execution, parent, &mut (), |tx, _| {
        txs.push(tx);
        ControlFlow::Continue(())
    })?;
    let took = started.elapsed();
    black_box((replayed, txs));
    Ok(took)
}

struct Committed {
    /// Until `debug_traceBlockByHash` was answered and compressed.
    served: Duration,
    /// Until it was durable and acknowledged.
    durable: Duration,
}

/// Commits the block to a pipeline of its own, whose archive is empty: with `codes_known` its codes
/// are shown in a reply that is kept, as most are by other blocks' in a server that runs.
fn commit_one(
    spec: &ChainSpec,
    subject: &Subject,
    folder: &Path,
    runtime: &Runtime,
    codes_known: bool,
) -> Result<Committed, CommitError> {
    let block = BlockRef::new(subject.block.number, subject.block.hash());
    let file = BlockFile { block: (*subject.block).clone(), prestate: subject.prestate.clone() };
    let inner = ReplayHost::new(spec.clone(), [file])?;
    let host = Arc::new(CommittingHost::new(inner, Arc::clone(&subject.block)));
    let path: PathBuf = folder.join("archive");
    let chain = ChainId { chain_id: spec.chain_id(), genesis_hash: B256::ZERO };
    let archive = Archive::create(&path, chain, &ArchiveOptions::default())?;
    let config = PipelineConfig { begin_above: Some(host.parent()), ..PipelineConfig::default() };
    let pipeline = Pipeline::start(host.clone(), Some(archive), config)?;
    let sources = Sources::following(host.clone(), pipeline.clone());
    let rpc = Rpc::new(sources, RpcConfig::default());
    let run = runtime.block_on(async {
        if codes_known {
            // Another reply than the one that is timed, of the same codes.
            let other = trace_params(block, ",\"exact\":true");
            body(&rpc, TRACE, &other).await.map_err(|error| error.to_string())?;
        }
        let bundle = BundleSlice { bundle: Arc::clone(&subject.bundle), index: 0 };
        let served = timeout(PATIENCE, serve(&rpc, &pipeline, block, || host.commit(bundle)));
        let (begun, served) =
            served.await.map_err(|_| "it was not published in time".to_owned())??;
        while host.acknowledged().is_none() {
            if begun.elapsed() > PATIENCE {
                return Err("it was not made durable in time".to_owned());
            }
            tokio::time::sleep(LOOK).await;
        }
        let durable = host.acknowledged().map(|at| at.duration_since(begun)).unwrap_or_default();
        Ok(Committed { served, durable })
    });
    pipeline.shutdown();
    drop((rpc, pipeline));
    fs::remove_dir_all(&path).map_err(failed("remove an archive"))?;
    run.map_err(|reason| CommitError::NotServed { block, reason })
}

/// A consumer that waits for the block and asks for its transactions' diffs at once.
async fn serve(
    rpc: &Rpc,
    pipeline: &PipelineHandle,
    block: BlockRef,
    commit: impl FnOnce() -> Instant,
) -> Result<(Instant, Duration), String> {
    let mut steps = pipeline.subscribe(None).map_err(|error| error.to_string())?;
    let begun = commit();
    loop {
        match steps.next().await {
            Some(Update::Commit(published)) if published.summary().block == block => break,
            Some(Update::Commit(_) | Update::Revert(_)) => {}
            other => return Err(format!("the subscription ended: {other:?}")),
        }
    }
    let bytes = body(rpc, TRACE, &trace_params(block, "")).await.map_err(|e| e.to_string())?;
    let took = begun.elapsed();
    black_box(bytes);
    Ok((begun, took))
}

const TRACE: &str = "debug_traceBlockByHash";

/// The prestate tracer in diff mode, with more of its options.
fn trace_params(block: BlockRef, more: &str) -> String {
    let config =
        format!("{{\"tracer\":\"prestateTracer\",\"tracerConfig\":{{\"diffMode\":true{more}}}}}");
    format!("[\"{}\",{config}]", block.hash)
}

/// Bytes of a reply in gzip.
async fn body(rpc: &Rpc, method: &str, params: &str) -> Result<u64, RpcError> {
    let params: &RawValue = serde_json::from_str(params).map_err(|_| RpcError::internal())?;
    let answer = rpc.call(Call { method, params: Some(params) }).await?;
    let Reply::Whole(rope) = answer.reply else { return Err(RpcError::internal()) };
    let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";
    // Kept ropes are made for many uses, not for one.
    rope.prepare(Encoding::Gzip);
    Ok(splice(head, &[rope], b"", b"}", Encoding::Gzip).len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::Reported as _, serve::heavy_block};

    #[test]
    fn a_committed_block_is_served_then_durable() {
        let (spec, file) = heavy_block(40).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("archives");
        let mut rounds = 0;
        let report = commit(&spec, vec![file], &at, 2, || rounds += 1).unwrap();
        assert_eq!(rounds, 3);
        assert!(!at.exists());
        let [row] = &report.rows[..] else { panic!("one block, {} rows", report.rows.len()) };
        assert_eq!((row.number, row.served.len(), row.durable.len()), (1, 2, 2));
        for (served, durable) in row.served.iter().zip(&row.durable) {
            assert!(*served > Duration::ZERO && *durable > Duration::ZERO);
        }
        assert_eq!(report.bars().len(), 2);
    }
}

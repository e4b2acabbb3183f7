use crate::{
    args::PrestateArgs,
    host::{RethHost, RethProvider},
};
use prestate_host::{Host, Notification};
use prestate_pipeline::{Pipeline, PipelineConfig, PipelineHandle, StartError};
use prestate_rpc::{Rpc, Sources};
use prestate_store::{Archive, ArchiveReader, ArchiveWriter, ChainId, OpenError, ReadError};
use prestate_types::BlockRef;
use std::{path::PathBuf, sync::Arc};
use tokio::sync::mpsc;

/// An archive opened for writing.
pub(crate) type Opened = (ArchiveWriter, ArchiveReader);

/// What an archive is opened with.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) chain: ChainId,
}

impl Place {
    /// Blocks on the disk.
    pub(crate) fn open(&self, args: &PrestateArgs) -> Result<Opened, OpenError> {
        Archive::open_or_create(&self.path, self.chain, &args.archive_options())
    }
}

/// A pipeline that runs, and what answers from it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) pipeline: PipelineHandle,
    pub(crate) rpc: Rpc,
    pub(crate) notifications: mpsc::Sender<Notification>,
    pub(crate) durable: bool,
}

impl Session {
    /// Starts a pipeline, in memory only without an archive. Reads the disk.
    pub(crate) fn start<P: RethProvider>(
        host: &Arc<RethHost<P>>,
        archive: Option<Opened>,
        args: &PrestateArgs,
        launch_head: BlockRef,
    ) -> Result<Self, StartError> {
        // What came while the archive was opened is not to be left out.
        let config = PipelineConfig { begin_above: Some(launch_head), ..args.pipeline_config() };
        let notifications = host.listen();
        let durable = archive.is_some();
        let host: Arc<dyn Host> = host.clone();
        let pipeline = Pipeline::start(host.clone(), archive, config)?;
        let rpc = Rpc::new(Sources::following(host, pipeline.clone()), args.rpc_config());
        Ok(Self { pipeline, rpc, notifications, durable })
    }
}

/// The newest block of an archive's chain that the node's chain has too, at most `max_blocks` below
/// the archive's tip. What is above it was lost by the node, or reorged while we were away.
pub(crate) fn common_ancestor(
    host: &dyn Host,
    archive: &ArchiveReader,
    max_blocks: u64,
) -> Result<Option<BlockRef>, ReadError> {
    let Some((lowest, tip)) = archive.range()? else { return Ok(None) };
    let floor = lowest.number.max(tip.number.saturating_sub(max_blocks));
    for number in (floor..=tip.number).rev() {
        let Some(hash) = archive.canonical_hash(number)? else { continue };
        // A node that cannot look is asked again by the pipeline, which heals from it.
        if host.canonical_hash(number).is_ok_and(|canonical| canonical == Some(hash)) {
            return Ok(Some(BlockRef::new(number, hash)));
        }
    }
    Ok(None)
}

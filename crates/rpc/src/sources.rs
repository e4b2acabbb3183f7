use crate::faults;
use alloy_primitives::B256;
use prestate_host::Host;
use prestate_pipeline::{PipelineHandle, PublishedBlock};
use prestate_rpc_api::RpcError;
use prestate_store::{ArchiveReader, TxPlace};
use prestate_types::BlockSummary;
use std::sync::Arc;

/// What the namespaces are answered from: a host, and what is already known of its blocks.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The chain, its blocks and states.
    pub host: Arc<dyn Host>,
    /// What follows the host: diffs of the newest blocks in memory, subscriptions.
    pub pipeline: Option<PipelineHandle>,
    /// Diffs on disk.
    pub archive: Option<ArchiveReader>,
}

impl From<Arc<dyn Host>> for Sources {
    /// Everything by replay.
    fn from(host: Arc<dyn Host>) -> Self {
        Self { host, pipeline: None, archive: None }
    }
}

impl<H: Host> From<Arc<H>> for Sources {
    fn from(host: Arc<H>) -> Self {
        let host: Arc<dyn Host> = host;
        host.into()
    }
}

impl Sources {
    /// A host with the pipeline that follows it, and the pipeline's archive.
    pub fn following(host: Arc<dyn Host>, pipeline: PipelineHandle) -> Self {
        let archive = pipeline.archive().cloned();
        Self { host, pipeline: Some(pipeline), archive }
    }
}

/// What is known without asking the host.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) pipeline: Option<PipelineHandle>,
    pub(crate) archive: Option<ArchiveReader>,
}

impl Known {
    /// Number, parent and time of a block that is known without the host.
    pub(crate) fn summary(&self, hash: &B256) -> Result<Option<BlockSummary>, RpcError> {
        let recent = self.pipeline.as_ref().and_then(|pipeline| pipeline.recent_block(hash));
        if let Some(block) = recent {
            return Ok(Some(*block.summary()));
        }
        match &self.archive {
            Some(archive) => archive.summary(hash).map_err(|fault| faults::logged(&fault)),
            None => Ok(None),
        }
    }

    /// What a block changed, where that is settled. May read the disk.
    pub(crate) fn published(&self, hash: &B256) -> Result<Option<Arc<PublishedBlock>>, RpcError> {
        let found = match (&self.pipeline, &self.archive) {
            (Some(pipeline), _) => pipeline.block(hash),
            (None, Some(archive)) => {
                archive.block(hash).map(|kept| kept.map(|kept| Arc::new(kept.into())))
            }
            (None, None) => Ok(None),
        };
        // A record that cannot be read is reported and never served; the host may still answer.
        Ok(found.unwrap_or_else(|fault| {
            tracing::error!(target: "prestate::rpc", %fault, "a block could not be read from the archive");
            None
        }))
    }

    /// Where the archive has a canonical transaction.
    pub(crate) fn kept_transaction(&self, hash: &B256) -> Result<Option<TxPlace>, RpcError> {
        let Some(archive) = &self.archive else { return Ok(None) };
        let place = archive.transaction(hash).map_err(|fault| faults::logged(&fault))?;
        Ok(place.filter(|place| place.canonical))
    }
}

use alloy_eips::eip7892::BlobScheduleBlobParams;
use alloy_hardforks::EthereumChainHardforks;
use alloy_primitives::B256;
use prestate_host::{
    ChainSpec, Host, HostError, HostInfo, Notifications, RecoveredBlock, StateError, StateReader,
    TxPlace,
};
use prestate_store::{ArchiveReader, ReadError};
use prestate_types::BlockRef;
use std::sync::Arc;

/// An archive as a host: it knows the chain and what its blocks changed, and has neither their
/// transactions nor states. What can be rendered from the archive is answered, byte for byte as
/// beside a node; everything else says that it needs one.
#[derive(Debug)]
pub struct ArchiveHost {
    archive: ArchiveReader,
    spec: Arc<ChainSpec>,
}

/// An archive that cannot stand in for a host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveHostError {
    /// It holds no canonical block.
    #[error("archive {} holds no block yet", path.display())]
    Empty {
        /// Its folder.
        path: std::path::PathBuf,
    },
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl ArchiveHost {
    /// A host over an archive with at least one block.
    ///
    /// # Errors
    ///
    /// [`ArchiveHostError`].
    pub fn new(archive: ArchiveReader) -> Result<Self, ArchiveHostError> {
        if archive.range()?.is_none() {
            return Err(ArchiveHostError::Empty { path: archive.path().to_owned() });
        }
        let id = archive.chain().chain_id;
        // Nothing is executed: of a chain that is not built in only the id matters.
        let spec = ChainSpec::by_chain_id(id).unwrap_or_else(|_| {
            ChainSpec::new(
                id,
                EthereumChainHardforks::new([]),
                BlobScheduleBlobParams::default(),
                None,
            )
        });
        Ok(Self { archive, spec: Arc::new(spec) })
    }

    fn range(&self) -> Result<(BlockRef, BlockRef), HostError> {
        let range = self.archive.range().map_err(backend)?;
        range.ok_or_else(|| HostError::Backend("the archive was emptied".to_owned()))
    }
}

fn backend(fault: ReadError) -> HostError {
    HostError::Backend(fault.to_string())
}

impl Host for ArchiveHost {
    fn info(&self) -> HostInfo {
        HostInfo { kind: "archive", version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        Ok(self.range()?.1)
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        Ok(self.range()?.0)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        self.archive.canonical_hash(number).map_err(backend)
    }

    fn block(&self, _hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        Ok(None)
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        let place = self.archive.transaction(&hash).map_err(backend)?;
        let place = place.filter(|place| place.canonical);
        Ok(place.map(|place| TxPlace { block: place.block, index: place.index }))
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        match self.archive.summary(&hash) {
            Ok(Some(summary)) => Err(StateError::NotHeld(summary.block)),
            Ok(None) => Err(StateError::UnknownBlock(hash)),
            Err(fault) => Err(StateError::Backend(fault.to_string())),
        }
    }

    fn notifications(&self) -> Option<Notifications> {
        None
    }

    fn ack(&self, _block: BlockRef) {}
}

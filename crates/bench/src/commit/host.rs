use alloy_primitives::B256;
use prestate_host::{
    BundleSlice, ChainSpec, CommittedBlock, Host, HostError, HostInfo, Notification, Notifications,
    RecoveredBlock, StateError, StateReader, TxPlace,
};
use prestate_host_embedded::ReplayHost;
use prestate_types::BlockRef;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::mpsc;

/// A block file as a node that has not committed the block yet, and does so when told.
#[derive(Debug)]
pub(super) struct CommittingHost {
    inner: ReplayHost,
    block: Arc<RecoveredBlock>,
    parent: BlockRef,
    changing: Mutex<Changing>,
    sender: mpsc::Sender<Notification>,
}

#[derive(Debug)]
struct Changing {
    head: BlockRef,
    listener: Option<Notifications>,
    acknowledged: Option<Instant>,
}

impl CommittingHost {
    /// `inner` holds the block.
    pub(super) fn new(inner: ReplayHost, block: Arc<RecoveredBlock>) -> Self {
        let parent = BlockRef::new(block.number.saturating_sub(1), block.parent_hash);
        let (sender, listener) = mpsc::channel(4);
        let changing =
            Mutex::new(Changing { head: parent, listener: Some(listener), acknowledged: None });
        Self { inner, block, parent, changing, sender }
    }

    pub(super) const fn parent(&self) -> BlockRef {
        self.parent
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block_ref(&self) -> BlockRef {
        BlockRef::new(self.block.number, self.block.hash())
    }

    /// Makes the block canonical and says so; the moment it did.
    pub(super) fn commit(&self, bundle: BundleSlice) -> Instant {
        // Who looks at the head in between waits for the notification to be out (contract, 6).
        let mut changing = self.changing();
        changing.head = self.block_ref();
        let block = CommittedBlock { block: Arc::clone(&self.block), bundle: Some(bundle) };
        let now = Instant::now();
        // A listener that has gone shows as a block that is never served.
        let _ = self.sender.try_send(Notification::Committed(vec![block]));
        now
    }

    /// When the block was acknowledged.
    pub(super) fn acknowledged(&self) -> Option<Instant> {
        self.changing().acknowledged
    }
}

impl Host for CommittingHost {
    fn info(&self) -> HostInfo {
        self.inner.info()
    }

    fn spec(&self) -> &Arc<ChainSpec> {
        self.inner.spec()
    }

    fn head(&self) -> Result<BlockRef, HostError> {
        Ok(self.changing().head)
    }

    fn safe(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn finalized(&self) -> Result<Option<BlockRef>, HostError> {
        Ok(None)
    }

    fn earliest(&self) -> Result<BlockRef, HostError> {
        Ok(self.parent)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError> {
        let head = self.changing().head;
        let canonical = [self.parent, head].into_iter().find(|block| block.number == number);
        Ok(canonical.map(|block| block.hash))
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError> {
        self.inner.block(hash)
    }

    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError> {
        self.inner.transaction(hash)
    }

    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError> {
        self.inner.state_after(hash)
    }

    fn notifications(&self) -> Option<Notifications> {
        self.changing().listener.take()
    }

    fn ack(&self, block: BlockRef) {
        if block == self.block_ref() {
            self.changing().acknowledged.get_or_insert_with(Instant::now);
        }
    }
}

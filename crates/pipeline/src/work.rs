use crate::{
    BlockFailure,
    compute::{Given, TracedBlock},
    metrics,
};
use prestate_types::BlockRef;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::sync::watch;

/// How the execution of a block ended.
pub(crate) type Traced = Result<Arc<TracedBlock>, BlockFailure>;

/// A block under way.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) block: BlockRef,
    pub(crate) given: Option<Arc<Given>>,
    traced: watch::Sender<Option<Traced>>,
    durable: AtomicBool,
    started: Instant,
}

impl Work {
    pub(crate) fn new(block: BlockRef, given: Option<Arc<Given>>) -> Self {
        let traced = watch::Sender::new(None);
        Self { block, given, traced, durable: AtomicBool::new(false), started: Instant::now() }
    }

    /// Notes the result; a better one replaces a failure.
    pub(crate) fn finish(&self, traced: Traced) {
        // A later success says nothing about how fast blocks are.
        if traced.is_ok() && self.traced.borrow().is_none() {
            metrics::servable(self.started.elapsed());
        }
        self.traced.send_replace(Some(traced));
    }

    pub(crate) fn now(&self) -> Option<Traced> {
        self.traced.borrow().clone()
    }

    /// Waits for the first result.
    pub(crate) async fn done(&self) -> Traced {
        let mut traced = self.traced.subscribe();
        match traced.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Err(BlockFailure::Stopped(self.block))),
            Err(_) => Err(BlockFailure::Stopped(self.block)),
        }
    }

    pub(crate) fn set_durable(&self) {
        self.durable.store(true, Ordering::Release);
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire)
    }
}

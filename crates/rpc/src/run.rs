//! Work that executes transactions: on a blocking thread, behind a permit, stopped when the caller
//! goes away.

use crate::rpc::Shared;
use prestate_diff::Deadline;
use prestate_rpc_api::RpcError;
use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for executions and the queue before them.
#[derive(Debug)]
pub(crate) struct Executions {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_queue: usize,
}

impl Executions {
    pub(crate) fn new(max_executions: usize, max_queue: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max_executions.max(1))),
            waiting: AtomicUsize::new(0),
            max_queue,
        }
    }

    /// Calls waiting for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Tells work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Whether to go on with the next transaction.
    pub(crate) fn check(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Cancels when dropped: the future of a caller that went away is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Executions {
    /// A permit. The queue before it is bounded: beyond it -32005.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let queued = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let _waiting = Waiting(&self.waiting);
        if queued > self.max_queue {
            return Err(RpcError::limit(
                "too many requests are waiting to be executed, try again later",
                "queue",
                self.max_queue as u64,
                queued as u64,
            ));
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.map_err(|_| RpcError::internal())
    }
}

impl Shared {
    /// A permit to execute.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        self.executions.permit().await
    }

    /// Runs work that executes nothing and may wait for the disk: heavy traces do not hold it up.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let permit = self.reads.permit().await?;
        let shared = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&shared)
        });
        done.await.unwrap_or_else(|panic| Err(crate::faults::logged(&panic)))
    }

    /// Runs work on a blocking thread with a permit, cancelled when the caller goes away.
    pub(crate) async fn execute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let permit = self.permit().await?;
        let cancel = Cancel::default();
        let guard = CancelOnDrop(cancel.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&cancel)
        })
        .await;
        drop(guard);
        done.unwrap_or_else(|panic| Err(crate::faults::logged(&panic)))
    }
}

/// The time one transaction may take.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    timeout: Duration,
    started: Instant,
    cancel: Cancel,
}

impl Clock {
    pub(crate) fn new(timeout: Duration, cancel: &Cancel) -> Self {
        Self { timeout, started: Instant::now(), cancel: cancel.clone() }
    }
}

impl Deadline for Clock {
    fn passed(&self) -> bool {
        self.started.elapsed() >= self.timeout || self.cancel.check().is_break()
    }

    fn start_tx(&mut self) {
        self.started = Instant::now();
    }
}

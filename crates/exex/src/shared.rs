use crate::{args::PrestateArgs, health::Health, services::Current, session::Session};
use parking_lot::Mutex;
use prestate_host::Host;
use prestate_pipeline::PipelineHandle;
use std::{
    io,
    sync::{Arc, OnceLock},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
    task::AbortHandle,
};

/// What the extension, the lane and the node's transports share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) args: PrestateArgs,
    pub(crate) health: Arc<Health>,
    pub(crate) current: Arc<Current>,
    threads: Threads,
    host: OnceLock<Arc<dyn Host>>,
    pipeline: Mutex<Option<PipelineHandle>>,
    housekeeper: Mutex<Option<AbortHandle>>,
    stop: watch::Sender<bool>,
}

/// A runtime apart from the node's, so that traffic never slows block import.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // May happen on a thread that must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    pub(crate) fn new(args: PrestateArgs) -> io::Result<Self> {
        let workers = args.pipeline_config().workers;
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name("prestate-serve")
            .enable_all()
            .build()?;
        let health = Arc::new(Health::default());
        Ok(Self {
            args,
            current: Arc::new(Current::new(health.clone())),
            health,
            threads: Threads(Some(runtime)),
            host: OnceLock::new(),
            pipeline: Mutex::default(),
            housekeeper: Mutex::default(),
            stop: watch::Sender::new(false),
        })
    }

    /// The runtime of lane and replays.
    pub(crate) fn runtime(&self) -> Handle {
        match &self.threads.0 {
            Some(runtime) => runtime.handle().clone(),
            // It is taken when dropped only.
            None => Handle::current(),
        }
    }

    /// The node, once its extension is started. There is one a process.
    pub(crate) fn set_host(&self, host: Arc<dyn Host>) {
        let _ = self.host.set(host);
    }

    pub(crate) fn host(&self) -> Option<Arc<dyn Host>> {
        self.host.get().cloned()
    }

    /// Answers from a session from now on.
    pub(crate) fn started(&self, session: &Session) {
        *self.pipeline.lock() = Some(session.pipeline.clone());
        let housekeeper = self.runtime().spawn(session.rpc.clone().keep_house());
        if let Some(before) = self.housekeeper.lock().replace(housekeeper.abort_handle()) {
            before.abort();
        }
        self.current.set(session.rpc.clone());
    }

    /// The pipeline that runs now.
    pub(crate) fn pipeline(&self) -> Option<PipelineHandle> {
        self.pipeline.lock().clone()
    }

    /// Ends the lane and the pipeline: what is under way becomes durable. Blocks the caller.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        if let Some(housekeeper) = self.housekeeper.lock().take() {
            housekeeper.abort();
        }
        let pipeline = self.pipeline.lock().take();
        if let Some(pipeline) = pipeline {
            pipeline.shutdown();
        }
        // What answers holds the node's database.
        self.current.clear();
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }
}

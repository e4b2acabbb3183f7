use crate::{args::PrestateArgs, health::Health, services::Current, session::Session};
use parking_lot::Mutex;
use prestate_host::Host;
use prestate_pipeline::PipelineHandle;
use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

/// How long a stop waits for requests under way, and for threads that read the database. The node
/// waits five seconds in all.
const LANE_PATIENCE: Duration = Duration::from_secs(3);
const THREADS_PATIENCE: Duration = Duration::from_secs(1);

/// What the extension, the lane and the node's transports share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) args: PrestateArgs,
    pub(crate) health: Arc<Health>,
    pub(crate) current: Arc<Current>,
    threads: Threads,
    handle: Handle,
    host: OnceLock<Arc<dyn Host>>,
    pipeline: Mutex<Option<PipelineHandle>>,
    housekeeper: Mutex<Option<AbortHandle>>,
    lane: Mutex<Option<JoinHandle<()>>>,
    /// Why the node was stopped, if that was us.
    fatal: OnceLock<String>,
    stop: watch::Sender<bool>,
}

/// A runtime apart from the node's, so that traffic never slows block import.
#[derive(Debug)]
struct Threads(Mutex<Option<Runtime>>);

impl Drop for Threads {
    fn drop(&mut self) {
        // May happen on a thread that must not wait.
        if let Some(runtime) = self.0.get_mut().take() {
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
            handle: runtime.handle().clone(),
            threads: Threads(Mutex::new(Some(runtime))),
            host: OnceLock::new(),
            pipeline: Mutex::default(),
            housekeeper: Mutex::default(),
            lane: Mutex::default(),
            fatal: OnceLock::new(),
            stop: watch::Sender::new(false),
        })
    }

    /// The runtime of lane and replays.
    pub(crate) fn runtime(&self) -> Handle {
        self.handle.clone()
    }

    /// The task that is to end before the runtime does.
    pub(crate) fn serves(&self, lane: JoinHandle<()>) {
        *self.lane.lock() = Some(lane);
    }

    /// Notes why the node is to stop; returns it as the error that stops it.
    pub(crate) fn give_up(&self, reason: &str) -> eyre::Report {
        let reason = self.fatal.get_or_init(|| format!("prestate: {reason} (--prestate.strict)"));
        eyre::eyre!("{reason}")
    }

    pub(crate) fn fatal(&self) -> Option<&str> {
        self.fatal.get().map(String::as_str)
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

    /// Ends the lane and the pipeline: what is under way becomes durable, and nothing here reads the
    /// node's database after. Blocks the caller.
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
        let lane = self.lane.lock().take();
        let Some(runtime) = self.threads.0.lock().take() else { return };
        if let Some(lane) = lane {
            let _ = runtime.block_on(async { tokio::time::timeout(LANE_PATIENCE, lane).await });
        }
        runtime.shutdown_timeout(THREADS_PATIENCE);
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }
}

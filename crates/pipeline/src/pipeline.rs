use crate::{
    Backfill, BackfillError, BackfillProgress, PipelineConfig, PipelineStatus, PublishedBlock,
    StartError, SubscribeError, Subscription,
    backfill::BackfillRun,
    chain::Chain,
    feed::Feed,
    follow::Follow,
    intake::Intake,
    metrics,
    persist::{Op, Persist, Progress},
    pool::Pool,
    redo::Redo,
    start::OwnChain,
};
use alloy_primitives::B256;
use parking_lot::Mutex;
use prestate_host::Host;
use prestate_store::{ArchiveReader, ArchiveWriter, ReadError};
use prestate_types::BlockRef;
use std::{future::Future, ops::RangeInclusive, sync::Arc, thread::JoinHandle};
use tokio::sync::{Semaphore, mpsc, watch};

/// Starts pipelines.
#[derive(Debug, Clone, Copy)]
pub struct Pipeline;

/// A running pipeline. Clones speak of the same one; it ends with [`Self::shutdown`] or when the
/// last clone is dropped.
#[derive(Debug, Clone)]
pub struct PipelineHandle(Arc<Running>);

#[derive(Debug)]
struct Running {
    host: Arc<dyn Host>,
    feed: Arc<Feed>,
    intake: Arc<Intake>,
    pool: Arc<Pool>,
    redo: Arc<Redo>,
    progress: Arc<Mutex<Progress>>,
    host_head: Arc<Mutex<Option<BlockRef>>>,
    in_flight: Arc<Semaphore>,
    ops: mpsc::WeakUnboundedSender<Op>,
    config: PipelineConfig,
    stop: watch::Sender<bool>,
    threads: Mutex<Threads>,
    backfill: Mutex<Option<watch::Receiver<BackfillProgress>>>,
}

/// In the order in which they end.
#[derive(Debug, Default)]
struct Threads {
    front: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let mut threads = std::mem::take(self.threads.get_mut());
        let pool = self.pool.clone();
        // The writer still waits for blocks under way, so the pool ends after it. Nobody waits for
        // this: a drop may happen on a thread that must not.
        let wait = move || threads.join(&pool);
        let _ = std::thread::Builder::new().name("prestate-stop".into()).spawn(wait);
    }
}

impl Threads {
    fn join(&mut self, pool: &Pool) {
        // A panic of any of them was reported when it happened.
        for thread in self.front.drain(..).chain(self.writer.take()) {
            let _ = thread.join();
        }
        pool.close();
        for thread in self.workers.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Pipeline {
    /// Starts following a host. With an archive it goes on where the archive's chain left the
    /// host's: blocks the host no longer has are taken off, missing ones are healed. Without, it
    /// starts at the host's head and keeps the newest blocks in memory only.
    ///
    /// It runs on threads of its own, and needs no runtime.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing runs then.
    pub fn start(
        host: Arc<dyn Host>,
        archive: Option<(ArchiveWriter, ArchiveReader)>,
        config: PipelineConfig,
    ) -> Result<PipelineHandle, StartError> {
        let notifications = host.notifications().ok_or(StartError::ListenerTaken)?;
        metrics::describe_metrics(metrics::METRICS);
        let (writer, reader) = archive.unzip();
        let mut own = OwnChain::read(&*host, reader.as_ref())?;
        if own.chain.tip().is_none() {
            own.chain = Chain::new(config.begin_above);
        }
        let max_in_flight = config.max_in_flight_blocks.max(1);
        let feed = Arc::new(Feed::new(own.chain, reader, config.recent_blocks, max_in_flight));
        let max_told = config.max_told_blocks.max(1);
        let intake = Arc::new(Intake::new(config.max_queued_notifications.max(1), max_told));
        let redo = Arc::new(Redo::new(config.retry));
        let (stop, stopped) = watch::channel(false);
        let (ops, written) = mpsc::unbounded_channel();
        let in_flight = Arc::new(Semaphore::new(max_in_flight));
        let host_head = Arc::new(Mutex::new(None));
        let mut persist =
            Persist::new(host.clone(), writer, feed.clone(), redo.clone(), config.retention);
        for block in &own.missing {
            redo.owe(*block, "it was not written before the last stop");
        }
        persist.missing(own.missing.iter().map(|block| block.number));
        let progress = persist.progress.clone();
        let (pool, workers) = Pool::start(config.workers)?;
        let weak_ops = ops.downgrade();
        let follow = Follow {
            host: host.clone(),
            feed: feed.clone(),
            intake: intake.clone(),
            pool: pool.clone(),
            redo: redo.clone(),
            ops,
            in_flight: in_flight.clone(),
            config: config.clone(),
            host_head: host_head.clone(),
            stop: stopped.clone(),
            redoing: Arc::new(Semaphore::new(config.workers.max(1))),
        };
        let running = Running {
            host,
            feed,
            intake: intake.clone(),
            pool,
            redo,
            progress,
            host_head,
            in_flight,
            ops: weak_ops,
            config,
            stop,
            threads: Mutex::new(Threads { workers, ..Threads::default() }),
            backfill: Mutex::default(),
        };
        {
            let mut threads = running.threads.lock();
            let drain = async move { intake.drain(notifications, stopped).await };
            threads.front.push(thread("prestate-intake", drain)?);
            threads.writer = Some(thread("prestate-writer", persist.run(written))?);
            threads.front.push(thread("prestate-follow", follow.run())?);
        }
        Ok(PipelineHandle(Arc::new(running)))
    }
}

impl PipelineHandle {
    /// A walk along the published chain: from the newest block, or from a block that memory or
    /// archive knows, canonical or not. From a block that is no longer canonical it first leads
    /// back. [`Subscription::next`] needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`SubscribeError`].
    pub fn subscribe(&self, from: Option<B256>) -> Result<Subscription, SubscribeError> {
        let Running { feed, config, stop, .. } = &*self.0;
        Subscription::new(feed.clone(), from, config.max_subscriber_lag_blocks, stop.subscribe())
    }

    /// The newest block published.
    pub fn head(&self) -> Option<BlockRef> {
        self.0.feed.chain(Chain::tip)
    }

    /// A block by its hash, from memory or archive, canonical or not. May read the disk.
    ///
    /// # Errors
    ///
    /// [`ReadError`] of the archive.
    pub fn block(&self, hash: &B256) -> Result<Option<Arc<PublishedBlock>>, ReadError> {
        self.0.feed.load(hash)
    }

    /// As [`Self::block`], from memory only: blocks that are not durable yet, and the newest ones.
    pub fn recent_block(&self, hash: &B256) -> Option<Arc<PublishedBlock>> {
        self.0.feed.recent(hash)
    }

    /// The archive, where there is one.
    pub fn archive(&self) -> Option<&ArchiveReader> {
        self.0.feed.archive.as_ref()
    }

    /// Changes whenever the published chain does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.feed.changes()
    }

    /// Fills the archive with the canonical blocks of a range that it does not hold, or only their
    /// changes as a whole, from the top down, beside the live chain. The range is cut off at the newest published block. To resume
    /// one that was cancelled or interrupted, ask for the same range again.
    ///
    /// # Errors
    ///
    /// [`BackfillError`].
    pub fn backfill(&self, range: RangeInclusive<u64>) -> Result<Backfill, BackfillError> {
        let Running { host, feed, pool, ops, config, stop, backfill, .. } = &*self.0;
        let archive = feed.archive.clone().ok_or(BackfillError::NoArchive)?;
        let tip = self.head().map_or(0, |head| head.number);
        let range = *range.start()..=*range.end().min(&tip);
        BackfillRun::checked(&range)?;
        let mut running = backfill.lock();
        if let Some(other) = running.as_ref().map(|other| other.borrow().clone())
            && !other.finished
        {
            return Err(BackfillError::Running { from: other.from, to: other.to });
        }
        let (from, to) = (*range.start(), *range.end());
        let (progress, seen) =
            watch::channel(BackfillProgress { from, to, ..BackfillProgress::default() });
        let (cancel, cancelled) = watch::channel(false);
        let run = BackfillRun {
            host: host.clone(),
            archive,
            pool: pool.clone(),
            ops: ops.clone(),
            range,
            workers: config.workers.max(1),
            pause: config.backfill_pause,
            progress,
            cancel: cancelled,
            stop: stop.subscribe(),
        };
        let thread = thread("prestate-backfill", run.run());
        let thread = thread.map_err(|error| match error {
            StartError::Thread { source, .. } => BackfillError::Thread(source),
            other => BackfillError::Thread(std::io::Error::other(other)),
        })?;
        self.0.threads.lock().front.push(thread);
        *running = Some(seen.clone());
        Ok(Backfill::new(seen, cancel))
    }

    /// The state of things.
    pub fn status(&self) -> PipelineStatus {
        let running = &*self.0;
        let host_head = *running.host_head.lock();
        let head = self.head();
        let number = |block: Option<BlockRef>| block.map_or(0, |block| block.number);
        let Progress { durable, acked, holes, space } = *running.progress.lock();
        let capacity = running.config.max_in_flight_blocks.max(1);
        PipelineStatus {
            host_head,
            head,
            durable,
            acknowledged: acked,
            lag_blocks: number(host_head).saturating_sub(number(head)),
            in_flight_blocks: capacity.saturating_sub(running.in_flight.available_permits()),
            queued_notifications: running.intake.waiting(),
            unwritten_blocks: holes,
            failed: running.redo.list(),
            space,
            subscribers: running.feed.subscribers(),
            backfill: running.backfill.lock().as_ref().map(|progress| progress.borrow().clone()),
        }
    }

    /// Ends the pipeline: no new blocks are taken up, those under way are made durable and
    /// acknowledged, subscriptions end with [`CutReason::Stopped`](crate::CutReason::Stopped).
    /// Blocks the caller until then.
    pub fn shutdown(&self) {
        self.0.stop.send_replace(true);
        let mut threads = std::mem::take(&mut *self.0.threads.lock());
        threads.join(&self.0.pool);
    }
}

/// Runs a future on a thread of its own: hosts may block, and must not hold up anybody's runtime.
fn thread(
    name: &'static str,
    run: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let failed = |source| StartError::Thread { name, source };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || runtime.block_on(run))
        .map_err(failed)
}

use crate::{
    PipelineConfig,
    chain::Chain,
    compute::{self, Given},
    error::panic_message,
    feed::Feed,
    intake::{Hint, Intake, Told},
    metrics,
    persist::{Fill, Op},
    pool::{Pool, Priority},
    published::PublishedBlock,
    redo::Redo,
    run::{Diffs, Run},
    work::Work,
};
use futures_util::FutureExt;
use parking_lot::Mutex;
use prestate_host::{Host, HostError};
use prestate_types::BlockRef;
use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

/// Pause after the loop itself failed.
const FAULT_PAUSE: Duration = Duration::from_millis(200);
/// How often blocks to do again are looked for.
const REDO_TICK: Duration = Duration::from_millis(100);

/// The loop: follows the host's chain and publishes each step.
///
/// Notifications are hints. What is canonical is asked of the host, and the way there is found by
/// parent hashes, so that repeated, overlapping, missing and stale notifications all lead to the
/// same chain.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) redo: Arc<Redo>,
    pub(crate) ops: mpsc::UnboundedSender<Op>,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) config: PipelineConfig,
    pub(crate) host_head: Arc<Mutex<Option<BlockRef>>>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) redoing: Arc<Semaphore>,
}

/// Why a step of the loop failed. It is tried again.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("the host does not hold block {0} of its own chain")]
    Missing(BlockRef),
}

impl Follow {
    /// Runs until told to stop. Neither an error nor a panic ends it.
    pub(crate) async fn run(self) {
        let mut stop = self.stop.clone();
        let mut redo = tokio::time::interval(REDO_TICK);
        let mut check = true;
        let mut deadline = tokio::time::Instant::now();
        loop {
            let step = AssertUnwindSafe(self.step(&mut check)).catch_unwind();
            let stepped = tokio::select! {
                stepped = step => stepped,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let idle = match stepped {
                Ok(Ok(more)) => !more,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "following the host's chain");
                    (check, _) = (true, tokio::time::sleep(FAULT_PAUSE).await);
                    continue;
                }
                Err(panic) => {
                    metrics::count(metrics::PANICS, 1);
                    tracing::error!(panic = panic_message(&*panic), "the loop panicked, goes on");
                    (check, _) = (true, tokio::time::sleep(FAULT_PAUSE).await);
                    continue;
                }
            };
            self.redo_due();
            if !idle {
                continue;
            }
            tokio::select! {
                () = self.intake.arrival() => {}
                () = tokio::time::sleep_until(deadline) => {
                    check = true;
                    deadline = tokio::time::Instant::now() + self.config.watchdog;
                }
                _ = redo.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Follows one hint, or, where one cannot be believed and no other waits, the host's head.
    /// Returns whether there may be more to do.
    async fn step(&self, check: &mut bool) -> Result<bool, FollowError> {
        let (hint, lost) = self.intake.next();
        *check |= lost;
        match hint {
            Some(hint) => {
                *check |= !self.heed(hint).await?;
                Ok(true)
            }
            None if *check => {
                self.reconcile().await?;
                *check = false;
                Ok(self.intake.waiting() > 0)
            }
            None => Ok(false),
        }
    }

    /// Follows a hint as far as the host confirms it; false if it does not.
    async fn heed(&self, hint: Hint) -> Result<bool, FollowError> {
        match hint {
            Hint::Tip(tip) if self.feed.chain(|chain| chain.contains(&tip)) => Ok(true),
            Hint::Tip(tip) => {
                if self.host.canonical_hash(tip.number)? != Some(tip.hash) {
                    return Ok(false);
                }
                self.saw_host_at(tip);
                self.follow(tip).await?;
                Ok(true)
            }
            Hint::Run(run) => {
                let tip = run.tip();
                if self.host.canonical_hash(tip.number)? != Some(tip.hash) {
                    return Ok(false);
                }
                self.saw_host_at(tip);
                self.follow_run(&run).await?;
                Ok(true)
            }
            Hint::Reverted(first) => {
                if !self.feed.chain(|chain| chain.contains(&first)) {
                    return Ok(true);
                }
                if self.host.canonical_hash(first.number)? == Some(first.hash) {
                    return Ok(false);
                }
                self.take_back(first.number);
                // What the host reverted to may be deeper still.
                Ok(false)
            }
        }
    }

    /// Compares the own chain with the host's head.
    async fn reconcile(&self) -> Result<(), FollowError> {
        let head = self.host.head()?;
        self.saw_host_at(head);
        let tip = self.feed.chain(Chain::tip);
        if tip == Some(head) {
            return Ok(());
        }
        // A node that syncs in stages moves its head after all of them.
        if let Some(tip) = tip.filter(|tip| tip.number > head.number)
            && self.host.canonical_hash(tip.number)? == Some(tip.hash)
        {
            return Ok(());
        }
        if self.feed.chain(|chain| chain.contains(&head)) {
            // Below the own tip: taken back, or the head is told later than the blocks.
            if let Some(tip) = tip
                && self.host.canonical_hash(tip.number)? != Some(tip.hash)
            {
                self.take_back(head.number + 1);
            }
            return Ok(());
        }
        self.follow(head).await
    }

    fn saw_host_at(&self, head: BlockRef) {
        *self.host_head.lock() = Some(head);
        metrics::set(metrics::HOST_HEAD, head.number);
        self.show_lag(head);
    }

    fn show_lag(&self, head: BlockRef) {
        let tip = self.feed.chain(Chain::tip).map_or(0, |tip| tip.number);
        metrics::set(metrics::LAG, head.number.saturating_sub(tip));
    }

    /// Goes to a block of the host's chain: back to the common ancestor, then up.
    async fn follow(&self, target: BlockRef) -> Result<(), FollowError> {
        let Some((base, way)) = self.way_to(target)? else { return self.jump_to(target).await };
        let untold = way.iter().filter(|block| self.intake.told(&block.hash).is_none()).count();
        if untold > 0 {
            ::metrics::counter!(metrics::HEALS, "kind" => "gap").increment(1);
            metrics::count(metrics::HEALED, untold as u64);
            tracing::info!(blocks = untold, to = %target, "healing blocks no notification told of");
        }
        if let Some(first) = way.first() {
            self.take_back(first.number);
        }
        self.begin_above(base);
        self.go(way).await;
        Ok(())
    }

    /// The common ancestor and the blocks above it, up to a block; `None` if it is too far away.
    /// The ancestor may be right below the own chain, which is then replaced as a whole.
    fn way_to(&self, target: BlockRef) -> Result<Option<(BlockRef, Vec<BlockRef>)>, FollowError> {
        let Some(lowest) = self.feed.chain(Chain::first) else { return Ok(None) };
        let mut way = Vec::new();
        let mut cursor = target;
        while cursor.number >= lowest.number && !self.feed.chain(|chain| chain.contains(&cursor)) {
            if way.len() >= self.config.max_heal_blocks || cursor.number == 0 {
                return Ok(None);
            }
            way.push(cursor);
            cursor = self.parent(cursor)?;
        }
        way.reverse();
        Ok(Some((cursor, way)))
    }

    /// Makes sure that the chain holds the block that the next one stands on.
    fn begin_above(&self, base: BlockRef) {
        if !self.feed.chain(|chain| chain.contains(&base)) {
            self.feed.push(base, None);
            self.send(Op::Base(base));
        }
    }

    fn parent(&self, block: BlockRef) -> Result<BlockRef, FollowError> {
        let body = match self.intake.told(&block.hash) {
            Some(told) => told.block,
            None => self.host.block(block.hash)?.ok_or(FollowError::Missing(block))?,
        };
        Ok(BlockRef::new(block.number.saturating_sub(1), body.parent_hash))
    }

    /// Starts anew at a block with no way from the own chain: the first one ever, or after too
    /// long an absence. What lies between is left to a back-fill.
    async fn jump_to(&self, target: BlockRef) -> Result<(), FollowError> {
        self.leave_for(target)?;
        if target.number == 0 {
            // Genesis changes nothing that could be told.
            self.begin_above(target);
            return Ok(());
        }
        self.begin_above(self.parent(target)?);
        self.go(vec![target]).await;
        Ok(())
    }

    /// Takes the own chain back to where the host's agrees.
    fn leave_for(&self, target: BlockRef) -> Result<(), FollowError> {
        let mut agreed = None;
        for block in self.feed.chain(|chain| chain.descending().collect::<Vec<_>>()) {
            if self.host.canonical_hash(block.number)? == Some(block.hash) {
                agreed = Some(block);
                break;
            }
        }
        if self.feed.chain(Chain::tip).is_some() {
            ::metrics::counter!(metrics::HEALS, "kind" => "jump").increment(1);
            tracing::warn!(to = %target, from = ?agreed, "no way to the host's head, starting anew there");
        }
        self.take_back(agreed.map_or(0, |agreed| agreed.number + 1));
        Ok(())
    }

    /// Goes to the end of a long run: the archive takes what its blocks changed as a whole, then
    /// they are on the chain. Their transactions are left to a back-fill.
    async fn follow_run(&self, run: &Arc<Run>) -> Result<(), FollowError> {
        let tip = run.tip();
        if self.feed.archive.is_none() {
            return self.follow(tip).await;
        }
        let known = self.feed.chain(|chain| run.first_unknown(|block| chain.contains(block)));
        let Some(first) = known else { return Ok(()) };
        let base = run.below(first);
        match self.way_to(base)? {
            Some(_) => self.follow(base).await?,
            None => self.leave_for(base)?,
        }
        self.take_back(base.number + 1);
        self.begin_above(base);
        // Whatever else the archive has above is in the way of a run written from its top down.
        self.send(Op::Truncate(base.number + 1));
        if let Err(reason) = self.store(run, first).await {
            tracing::warn!(to = %tip, reason, "a run of blocks was not written, starting anew at its end");
            return self.jump_to(tip).await;
        }
        for block in run.newest(Chain::window(), first) {
            self.feed.push(block, None);
            self.send(Op::Base(block));
        }
        metrics::count(metrics::BLOCKS, run.len_from(first));
        tracing::info!(from = %base, to = %tip, "a run of blocks is kept without its transactions' diffs");
        Ok(())
    }

    /// Has the block diffs of a run written, from its top down, a batch at a time.
    async fn store(&self, run: &Arc<Run>, first: usize) -> Result<(), String> {
        let mut diffs = run.diffs(first);
        let mut writing: Option<oneshot::Receiver<Result<(), String>>> = None;
        loop {
            let blocks = diffs.batch();
            if let Some(written) = writing.take() {
                written.await.map_err(|_| "the writer is gone".to_owned())??;
            }
            if blocks.is_empty() {
                return Ok(());
            }
            let (reply, written) = oneshot::channel();
            self.send(Op::Diffs(Diffs { run: run.clone(), blocks, reply }));
            writing = Some(written);
        }
    }

    /// Takes the chain back below a height.
    fn take_back(&self, first: u64) {
        let depth = self.feed.truncate(first);
        if depth == 0 {
            return;
        }
        metrics::count(metrics::REORGS, 1);
        ::metrics::histogram!(metrics::REORG_DEPTH).record(depth as f64);
        tracing::info!(depth, first, "blocks were taken back");
        self.redo.retain(|block| block.number < first);
        self.send(Op::Truncate(first));
    }

    fn send(&self, op: Op) {
        // The writer ends after the loop does.
        if self.ops.send(op).is_err() {
            tracing::error!("the writer is gone");
        }
    }

    /// Publishes blocks on top of the chain, one by one. Blocks that have to be executed first are
    /// so a few at a time.
    async fn go(&self, way: Vec<BlockRef>) {
        let lookahead = self.config.workers + 1;
        let mut way = way.into_iter();
        let mut under_way: VecDeque<(Arc<Work>, OwnedSemaphorePermit)> = VecDeque::new();
        loop {
            while under_way.len() < lookahead
                && under_way.back().is_none_or(|(work, _)| work.given.is_none())
            {
                let permit = match under_way.is_empty() {
                    true => self.in_flight.clone().acquire_owned().await.ok(),
                    false => self.in_flight.clone().try_acquire_owned().ok(),
                };
                let Some(permit) = permit else { break };
                let Some(block) = way.next() else { break };
                under_way.push_back((self.begin(block), permit));
            }
            let Some((work, permit)) = under_way.pop_front() else { return };
            if work.given.is_none() {
                // A failure is noted already.
                let _ = work.done().await;
            }
            let published = PublishedBlock::of_work(&work).map(Arc::new);
            self.feed.push(work.block, published);
            metrics::count(metrics::BLOCKS, 1);
            let free = self.in_flight.available_permits();
            let taken = self.config.max_in_flight_blocks.saturating_sub(free);
            metrics::set(metrics::IN_FLIGHT, taken as u64);
            if let Some(head) = *self.host_head.lock() {
                self.show_lag(head);
            }
            self.send(Op::Commit(work, permit));
        }
    }

    /// Reads the block diff from the bundle and has the block executed.
    fn begin(&self, block: BlockRef) -> Arc<Work> {
        let told = self.intake.told(&block.hash);
        self.intake.forget(&block.hash);
        let given = told.as_ref().and_then(|Told { block, bundle }| {
            compute::given(&*self.host, block, bundle.as_ref()?).map(Arc::new)
        });
        let work = Arc::new(Work::new(block, given));
        let (host, redo, job) = (self.host.clone(), self.redo.clone(), work.clone());
        let held = told.map(|told| told.block);
        self.pool.submit(Priority::Live, move || {
            let committed = job.given.as_deref().map(|given: &Given| &given.diff);
            let traced = compute::trace_patiently(&*host, block, held, committed);
            if let Err(failure) = &traced {
                compute::report(block, failure);
                redo.failed(block, failure);
            }
            job.finish(traced.map(Arc::new));
        });
        work
    }

    /// Has failed and missing blocks done again whose time has come.
    fn redo_due(&self) {
        let free = self.redoing.available_permits();
        for block in self.redo.due(free) {
            let Ok(permit) = self.redoing.clone().try_acquire_owned() else { return };
            let (host, redo, feed) = (self.host.clone(), self.redo.clone(), self.feed.clone());
            let ops = self.ops.downgrade();
            self.pool.submit(Priority::Late, move || {
                let _permit = permit;
                again(&*host, &redo, &feed, &ops, block);
            });
        }
    }
}

/// Does a block again and hands it to the writer.
fn again(
    host: &dyn Host,
    redo: &Redo,
    feed: &Feed,
    ops: &mpsc::WeakUnboundedSender<Op>,
    block: BlockRef,
) {
    // What the node committed, as far as it is known, still has to be met.
    let held = feed.load(&block.hash).ok().flatten();
    let committed = held.as_ref().map(|published| published.diff());
    let traced = match compute::trace(host, block, None, committed) {
        Ok(traced) => Arc::new(traced),
        Err(failure) => {
            metrics::count(metrics::FAILURES, 1);
            if redo.failed(block, &failure) {
                tracing::error!(%block, %failure, "block is given up");
                if let Some(ops) = ops.upgrade() {
                    let _ = ops.send(Op::GiveUp(block));
                }
            }
            return;
        }
    };
    if let Some(work) = held.as_ref().and_then(|published| published.work()) {
        work.finish(Ok(traced.clone()));
    }
    if feed.archive.is_none() {
        return redo.done(&block);
    }
    let (reply, filled) = oneshot::channel();
    if let Some(ops) = ops.upgrade() {
        let _ = ops.send(Op::Fill(Fill { traced, reply }));
    }
    match filled.blocking_recv() {
        Ok(Ok(())) => redo.done(&block),
        Ok(Err(reason)) => redo.unwritten(block, &reason),
        Err(_) => {}
    }
}

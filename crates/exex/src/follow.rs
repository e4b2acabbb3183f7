//! The execution extension itself: notifications in, finished heights out.

use crate::{
    health::Area,
    host::{RethHost, RethProvider},
    notify,
    session::{Opened, Place, Session, common_ancestor},
    shared::Shared,
};
use alloy_eips::BlockNumHash;
use futures_util::{FutureExt, StreamExt};
use prestate_host::Host;
use prestate_pipeline::{BackfillError, StartError};
use prestate_store::{OpenError, SpaceState};
use prestate_types::BlockRef;
use reth_ethereum::{
    EthPrimitives,
    exex::{ExExContext, ExExEvent, ExExHead, ExExNotification},
    network::api::NetworkInfo,
    node::api::{FullNodeComponents, NodeTypes},
};
use std::{
    convert::Infallible, future::pending, ops::RangeInclusive, panic::AssertUnwindSafe, sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc::error::TrySendError,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

/// Pauses between attempts to start, and to open the archive.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the pipeline is looked after.
const LOOK: Duration = Duration::from_secs(1);
/// Behind the node by so many blocks it is told: ten minutes of mainnet, as fast chains catch up.
const MAX_LAG_BLOCKS: u64 = 50;
/// Blocks of long runs whose transactions are done by themselves: a full node keeps the states of
/// its last 10,064.
const MAX_OWED_BLOCKS: u64 = 10_000;

/// Why following ended. It starts anew.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the pipeline did not start: {0}")]
    Start(#[from] StartError),
    #[error("the archive could not be opened: {0}")]
    Open(#[from] OpenError),
    #[error("the pipeline ended")]
    Pipeline,
    #[error("opening the archive panicked")]
    OpenPanicked,
    #[error("the archive takes no more blocks: {0}")]
    Full(String),
}

/// Where an extension runs.
#[derive(Debug)]
pub(crate) struct Home<P> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Arc<RethHost<P>>,
    /// Of the archive; `None` keeps all in memory.
    pub(crate) place: Option<Place>,
    pub(crate) genesis: BlockNumHash,
}

/// Follows the node for as long as it runs. Ends only under `--prestate.strict`, with the error
/// that is to stop the node: an extension that returns or panics takes the node with it.
pub(crate) async fn run<Node>(
    mut ctx: ExExContext<Node>,
    home: Home<Node::Provider>,
) -> eyre::Result<()>
where
    Node: FullNodeComponents<Types: NodeTypes<Primitives = EthPrimitives>>,
    Node::Provider: RethProvider,
{
    let shared = home.shared.clone();
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let mut follow = Follow::new(&mut ctx, &home);
        let followed = AssertUnwindSafe(follow.run()).catch_unwind().await;
        let session = follow.session.take();
        let reason = match followed {
            Ok(Err(ended)) => ended.to_string(),
            Ok(Ok(never)) => match never {},
            Err(panic) => format!("panic: {}", panic_text(&*panic)),
        };
        shared.current.clear();
        // Its writer holds the archive.
        if let Some(session) = session {
            let _ = tokio::task::spawn_blocking(move || session.pipeline.shutdown()).await;
        }
        if shared.args.strict {
            return Err(shared.give_up(&reason));
        }
        if started.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        let remedy = "it is started again; the log around this line says more";
        shared.health.report(Area::Pipeline, reason, remedy);
        metrics::counter!("prestate_restarts_total").increment(1);
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind")
}

/// One life of the pipeline.
struct Follow<'a, Node: FullNodeComponents<Types: NodeTypes<Primitives = EthPrimitives>>> {
    ctx: &'a mut ExExContext<Node>,
    home: &'a Home<Node::Provider>,
    shared: &'a Shared,
    host: &'a RethHost<Node::Provider>,
    session: Option<Session>,
    /// What the node was last told, and is told again.
    finished: BlockNumHash,
    backfill: Option<RangeInclusive<u64>>,
    /// Heights of runs that came without their transactions' diffs.
    owed: Option<RangeInclusive<u64>>,
}

/// An archive being opened.
type Opening = JoinHandle<Result<Option<Opened>, OpenError>>;

impl<'a, Node> Follow<'a, Node>
where
    Node: FullNodeComponents<Types: NodeTypes<Primitives = EthPrimitives>>,
    Node::Provider: RethProvider,
{
    fn new(ctx: &'a mut ExExContext<Node>, home: &'a Home<Node::Provider>) -> Self {
        let (shared, host) = (&*home.shared, &*home.host);
        // Genesis never claims too much.
        let finished = home.genesis;
        let backfill = shared.args.backfill.as_ref().map(|range| range.0.clone());
        Self { ctx, home, shared, host, session: None, finished, backfill, owed: None }
    }

    async fn run(&mut self) -> Result<Infallible, Ended> {
        let mut acked = self.host.acked();
        // From a life before.
        let block = *acked.borrow_and_update();
        self.acknowledge(block);
        let mut ended = false;
        let mut pause = FIRST_PAUSE;
        let mut open_at = Some(Instant::now());
        let mut opening: Option<Opening> = None;
        let mut look = tokio::time::interval(LOOK);
        loop {
            let opened = async {
                match &mut opening {
                    Some(opening) => opening.await,
                    None => pending().await,
                }
            };
            let due = async {
                match open_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                told = self.ctx.notifications.next(), if !ended => match told {
                    Some(Ok(told)) => self.told(&told),
                    Some(Err(error)) => self.stream_failed(&error),
                    None => {
                        ended = true;
                        let remedy = "the node is stopping, or its extension manager failed; \
                                      blocks are found by asking for its head";
                        self.shared.health.report(Area::Notifications, "closed".into(), remedy);
                    }
                },
                changed = acked.changed() => if changed.is_ok() {
                    let block = *acked.borrow_and_update();
                    self.acknowledge(block);
                },
                () = due => {
                    open_at = None;
                    opening = Some(self.open());
                }
                opened = opened => {
                    opening = None;
                    match opened.map_err(|_| Ended::OpenPanicked)? {
                        Ok(archive) => {
                            self.shared.health.clear(Area::Archive);
                            self.start(archive).await?;
                        }
                        Err(error) if self.shared.args.strict => return Err(error.into()),
                        Err(error) => {
                            self.shared.health.report(
                                Area::Archive, error.to_string(), remedy(&error),
                            );
                            if self.session.is_none() {
                                self.start(None).await?;
                            }
                            open_at = Some(Instant::now() + pause);
                            pause = (pause * 2).min(LONGEST_PAUSE);
                        }
                    }
                }
                _ = look.tick() => {
                    self.fill_back();
                    self.look()?;
                }
            }
        }
    }

    /// Opens the archive on a thread that may wait. The old writer of a session that panicked may
    /// still hold it.
    fn open(&self) -> Opening {
        let (shared, place) = (self.home.shared.clone(), self.home.place.clone());
        tokio::task::spawn_blocking(move || place.map(|place| place.open(&shared.args)).transpose())
    }

    /// Starts the pipeline, after the one in memory was ended.
    async fn start(&mut self, archive: Option<Opened>) -> Result<(), Ended> {
        let first = self.session.is_none();
        if let Some(session) = self.session.take() {
            let _ = tokio::task::spawn_blocking(move || session.pipeline.shutdown()).await;
        }
        let config = self.shared.args.pipeline_config();
        let reach = config.max_heal_blocks as u64;
        let ancestor = archive.as_ref().and_then(|(_, reader)| {
            // An archive that cannot be read refuses to start below, and says so.
            common_ancestor(self.host, reader, reach).ok().flatten()
        });
        let (host, shared) = (self.home.host.clone(), self.home.shared.clone());
        let head = BlockRef::new(self.ctx.head.number, self.ctx.head.hash);
        let started =
            tokio::task::spawn_blocking(move || Session::start(&host, archive, &shared.args, head));
        let session = started.await.map_err(|_| Ended::Pipeline)??;
        if first && let Some(ancestor) = ancestor {
            self.continue_from(ancestor, reach);
        }
        self.shared.started(&session);
        self.shared.health.clear(Area::Pipeline);
        self.session = Some(session);
        Ok(())
    }

    /// Has the node send what it committed while we were away. Only from a block that is on its
    /// chain: from any other its stream fails for good (`Could not find notification …`).
    fn continue_from(&mut self, ancestor: BlockRef, reach: u64) {
        let head = self.ctx.head.number;
        if head.saturating_sub(ancestor.number) > reach {
            return;
        }
        let block = BlockNumHash::new(ancestor.number, ancestor.hash);
        tracing::info!(target: "prestate", from = %ancestor, head, "going on from the archive");
        self.ctx.set_notifications_with_head(ExExHead { block });
    }

    fn told(&mut self, told: &ExExNotification<EthPrimitives>) {
        let dropped: Vec<_> = notify::dropped(told).collect();
        self.host.keep_aside(&dropped);
        self.owe(told);
        if let Some(session) = &self.session
            && let Some(notification) = notify::notification(told)
            && let Err(TrySendError::Full(_)) = session.notifications.try_send(notification)
        {
            // The pipeline asks the node for its head every few seconds in any case.
            metrics::counter!("prestate_notifications_dropped_total").increment(1);
        }
        self.finish();
    }

    /// Notes a run too long to be executed at once, as far as a node keeps states: the
    /// transactions of its blocks are done when the node has synced.
    fn owe(&mut self, told: &ExExNotification<EthPrimitives>) {
        let Some(chain) = told.committed_chain() else { return };
        if chain.len() <= self.shared.args.pipeline_config().max_told_blocks {
            return;
        }
        let (first, last) = chain.range().into_inner();
        let lowest = first.max(last.saturating_sub(MAX_OWED_BLOCKS - 1));
        // Runs follow each other.
        let joined = self.owed.take().filter(|owed| *owed.end() + 1 >= first);
        let lowest = joined.map_or(lowest, |owed| *owed.start());
        self.owed = Some(lowest.max(last.saturating_sub(MAX_OWED_BLOCKS - 1))..=last);
    }

    /// The node goes on sending what is new; what is missing is healed.
    fn stream_failed(&mut self, error: &eyre::Report) {
        let remedy = "missing blocks are executed again; if this is about the WAL, see the README";
        self.shared.health.report(Area::Notifications, format!("{error:#}"), remedy);
        self.ctx.set_notifications_without_head();
    }

    fn acknowledge(&mut self, block: Option<BlockRef>) {
        // Above the node's head or off its chain, the node would prune or skip by a number that
        // means nothing to it.
        if let Some(block) = block
            && self.host.canonical_hash(block.number).is_ok_and(|hash| hash == Some(block.hash))
        {
            self.finished = BlockNumHash::new(block.number, block.hash);
        }
        self.finish();
    }

    /// One event a notification, also of what was said before: events are what makes the node's
    /// manager send the next one.
    fn finish(&self) {
        let _ = self.ctx.events.send(ExExEvent::FinishedHeight(self.finished));
    }

    /// Starts the back-fill asked for, once the chain reaches up to it, then the one that long runs
    /// ask for, once the node has synced: before, it answers about states in between wrongly
    /// (reth #21571).
    fn fill_back(&mut self) {
        let Some(session) = self.session.as_ref().filter(|session| session.durable) else { return };
        let Some(head) = session.pipeline.head() else { return };
        let asked = self.backfill.take_if(|range| *range.start() <= head.number);
        let syncing = self.ctx.network().is_syncing();
        let due = |range: &mut RangeInclusive<u64>| !syncing && *range.end() <= head.number;
        let Some(range) = asked.clone().or_else(|| self.owed.take_if(due)) else { return };
        let (from, to) = (*range.start(), *range.end());
        match session.pipeline.backfill(range.clone()) {
            Ok(_) => tracing::info!(target: "prestate", from, to, "back-fill started"),
            // One at a time.
            Err(BackfillError::Running { .. }) if asked.is_some() => self.backfill = asked,
            Err(BackfillError::Running { .. }) => self.owed = Some(range),
            Err(error) => {
                let remedy = "correct --prestate.backfill and start the node again";
                self.shared.health.report(Area::Backfill, error.to_string(), remedy);
            }
        }
    }

    /// What stands in `prestate_status` beside the pipeline's own figures.
    fn look(&self) -> Result<(), Ended> {
        let Some(session) = &self.session else { return Ok(()) };
        if session.notifications.is_closed() && !self.shared.is_stopping() {
            return Err(Ended::Pipeline);
        }
        let (health, strict) = (&self.shared.health, self.shared.args.strict);
        let status = session.pipeline.status();
        match status.space {
            Some(SpaceState::Low { available_bytes, reserve_bytes }) => {
                let reason = format!(
                    "{available_bytes} bytes are free and {reserve_bytes} stay free: nothing is \
                     written, what is there is served"
                );
                if strict {
                    return Err(Ended::Full(reason));
                }
                let remedy = "make room, move the archive (--prestate.datadir) or keep less \
                              (--prestate.retention); missing blocks are written then";
                health.report(Area::Disk, reason, remedy);
            }
            _ if session.durable && status.unwritten_blocks > 0 && !status.failed.is_empty() => {
                let reason = format!(
                    "{} blocks are not written, the lowest: {}",
                    status.unwritten_blocks, status.failed[0].block
                );
                let remedy = "they are tried again; the log says what stopped them";
                health.report(Area::Disk, reason, remedy);
            }
            _ => health.clear(Area::Disk),
        }
        if status.lag_blocks > MAX_LAG_BLOCKS {
            let reason = "more than 50 blocks behind the node".to_owned();
            let remedy = "give it more threads (--prestate.workers) if this stays";
            health.report(Area::Pipeline, reason, remedy);
        } else {
            health.clear(Area::Pipeline);
        }
        Ok(())
    }
}

fn remedy(error: &OpenError) -> &'static str {
    match error {
        OpenError::OtherChain { .. } => {
            "name another folder with --prestate.datadir, or remove this one; diffs are kept in \
             memory only until then"
        }
        OpenError::Locked { .. } => {
            "stop the other process that writes to it; diffs are kept in memory only until then"
        }
        OpenError::NewerVersion { .. } => {
            "upgrade, or name another folder; diffs are kept in memory only until then"
        }
        _ => {
            "make the folder writable or name another with --prestate.datadir; it is tried again, \
             diffs are kept in memory only until then"
        }
    }
}

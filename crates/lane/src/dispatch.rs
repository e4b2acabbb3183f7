//! Runs the entries of a request and puts their answers into parts.

use crate::{
    LaneConfig,
    balance::Balance,
    coding::Part,
    envelope::{Entry, NULL_ID},
    metrics::{self, CallSeries},
    stats::{Counters, count},
    subscriptions::Opening,
};
use futures_util::{FutureExt, StreamExt, stream::FuturesOrdered};
use prestate_rpc::{
    Answer, Call, Outcome, Piece, Reply, Service, Timing, notifications_unsupported,
};
use prestate_rpc_api::{RpcError, code};
use prestate_wire::{MIN_COMPRESS_BYTES, Rope};
use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// Whether a service turned a call away because too many wait: a limit of this name.
pub(crate) fn is_overload(error: &RpcError) -> bool {
    #[derive(serde::Deserialize)]
    struct Data<'a> {
        limit: &'a str,
    }
    error.code == code::LIMIT_EXCEEDED
        && error.data.as_ref().is_some_and(|data| {
            serde_json::from_str(data.get()).is_ok_and(|data: Data<'_>| data.limit == "queue")
        })
}

/// What closes a response object.
pub(crate) const TAIL: &str = "}";

/// Runs calls against the service, within the limits.
pub(crate) struct Dispatcher {
    service: Arc<dyn Service>,
    /// `None`: all.
    allowed: Option<HashSet<&'static str>>,
    call_timeout: Duration,
    max_response_bytes: u64,
    max_batch_response_bytes: u64,
    batch_concurrency: usize,
    counters: Arc<Counters>,
    series: CallSeries,
}

/// The answer to a whole request.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) body: Answering,
    pub(crate) summary: Summary,
    /// The one call was turned away by the service: see [`is_overload`].
    pub(crate) overload: bool,
}

#[derive(Debug)]
pub(crate) enum Answering {
    /// Notifications only.
    Nothing,
    /// All there.
    Whole(Vec<Part>),
    /// Still being made: what stands before it, what has come of it, and the rest. [`TAIL`]
    /// closes it if there is a head.
    Stream { head: String, begun: Vec<Rope>, pieces: mpsc::Receiver<Piece> },
}

/// What the headers tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) timing: Timing,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Summary {
    fn add(&mut self, other: &Self) {
        self.timing.execute += other.timing.execute;
        self.timing.encode += other.timing.encode;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// A result as the service gave it, or as an error.
type Ran = Result<Answer, RpcError>;

enum Wish {
    Subscribe,
    Unsubscribe,
}

/// Counts a call that is dropped before its end.
struct Running<'a> {
    counters: &'a Counters,
    ended: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            count(&self.counters.cancelled);
        }
    }
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Dispatcher {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        allowed: Option<HashSet<&'static str>>,
        config: &LaneConfig,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            series: CallSeries::new(service.methods()),
            service,
            allowed,
            call_timeout: config.call_timeout,
            max_response_bytes: config.max_response_bytes,
            max_batch_response_bytes: config.max_batch_response_bytes,
            batch_concurrency: config.batch_concurrency,
            counters,
        }
    }

    /// Whether the service has a method, allowed or not.
    pub(crate) fn has(&self, method: &str) -> bool {
        self.service.methods().contains(&method)
    }

    /// Runs one call; a panic or a timeout is an error like any other. `socket` takes what the
    /// call subscribes to, where the transport can notify.
    pub(crate) async fn run(&self, call: Call<'_>, socket: Option<&Opening>) -> Ran {
        count(&self.counters.calls);
        let mut measured = self.series.of(call.method).begin();
        let ran = self.run_allowed(call, socket).await;
        measured.ended(&ran);
        ran
    }

    async fn run_allowed(&self, call: Call<'_>, socket: Option<&Opening>) -> Ran {
        if self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(call.method)) {
            return Err(RpcError::method_not_found(call.method));
        }
        let Some((namespace, wish)) = self.subscription(call.method) else {
            return self.run_unrestricted(call).await;
        };
        let Some(socket) = socket else { return Err(notifications_unsupported()) };
        match wish {
            Wish::Subscribe => {
                socket.check()?;
                let subscribed = self.guarded(call.method, self.service.subscribe(call)).await?;
                let id = socket.add(namespace, subscribed)?;
                Ok(Answer::uncached(format!("\"{id}\"")))
            }
            Wish::Unsubscribe => Ok(Answer::uncached(socket.end(call.params)?.to_string())),
        }
    }

    /// What a method asks of subscriptions.
    fn subscription<'a>(&self, method: &'a str) -> Option<(&'a str, Wish)> {
        let (namespace, wish) = method.rsplit_once('_')?;
        let wish = match wish {
            "subscribe" => Wish::Subscribe,
            "unsubscribe" => Wish::Unsubscribe,
            _ => return None,
        };
        self.service.subscriptions().contains(&namespace).then_some((namespace, wish))
    }

    /// As [`Self::run`], for calls of the lane's own.
    pub(crate) async fn run_unrestricted(&self, call: Call<'_>) -> Ran {
        self.guarded(call.method, self.service.call(call)).await
    }

    async fn guarded<T>(
        &self,
        method: &str,
        call: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        let mut running = Running { counters: &self.counters, ended: false };
        let caught = AssertUnwindSafe(call).catch_unwind();
        let outcome = tokio::time::timeout(self.call_timeout, caught).await;
        running.ended = true;
        match outcome {
            Ok(Ok(ran)) => ran,
            Ok(Err(_)) => {
                count(&self.counters.panics);
                tracing::error!(method, "call panicked");
                Err(RpcError::internal())
            }
            Err(_) => {
                count(&self.counters.timed_out);
                Err(timed_out())
            }
        }
    }

    /// Takes what a stream has, until it is worth compressing, over `limit`, or at its end. The
    /// headers go out after this, so the threshold is decided before them.
    pub(crate) async fn prefetch(
        &self,
        pieces: &mut mpsc::Receiver<Piece>,
        until: u64,
        taken: &AtomicU64,
    ) -> Result<(Vec<Rope>, bool), RpcError> {
        let mut begun = Vec::new();
        let mut balance = Balance::default();
        let mut len = 0;
        while len < until {
            let Ok(piece) = tokio::time::timeout(self.call_timeout, pieces.recv()).await else {
                count(&self.counters.timed_out);
                return Err(timed_out());
            };
            let Some(piece) = piece else {
                if balance.is_whole() {
                    return Ok((begun, true));
                }
                count(&self.counters.broken_streams);
                return Err(RpcError::internal());
            };
            let rope = piece?;
            balance.push_rope(&rope);
            len += rope.len();
            taken.fetch_add(rope.len(), Relaxed);
            begun.push(rope);
        }
        Ok((begun, false))
    }

    /// Answers one entry.
    pub(crate) async fn single(&self, entry: &Entry<'_>, socket: Option<&Opening>) -> Answered {
        let nothing =
            Answered { body: Answering::Nothing, summary: Summary::default(), overload: false };
        let (id, ran) = match entry {
            Entry::Invalid { id, error } => (*id, Err(error.clone())),
            Entry::Call { id, method, params } => {
                let ran = self.run(Call { method, params: *params }, socket).await;
                // Notifications run, and nobody hears how it went.
                let Some(id) = id else { return nothing };
                (*id, ran)
            }
        };
        let summary = self.summary(&ran);
        let overload = ran.as_ref().is_err_and(is_overload);
        let body = match ran {
            Err(error) => self.error(id, &error),
            Ok(Answer { reply: Reply::Whole(rope), .. }) => {
                match self.within(rope.len(), self.max_response_bytes, RESPONSE_LIMIT) {
                    Ok(()) => whole(id, [rope]),
                    Err(error) => self.error(id, &error),
                }
            }
            Ok(Answer { reply: Reply::Stream(mut pieces), .. }) => {
                match self.prefetch(&mut pieces, MIN_COMPRESS_BYTES, &AtomicU64::new(0)).await {
                    Err(error) => self.error(id, &error),
                    Ok((begun, true)) => whole(id, begun),
                    Ok((begun, false)) => {
                        return Answered {
                            body: Answering::Stream { head: head(id), begun, pieces },
                            summary,
                            overload,
                        };
                    }
                }
            }
        };
        Answered { body: Answering::Whole(body), summary, overload }
    }

    /// Answers a batch: entries run side by side, answers stand in the order of the requests.
    /// Streamed results are taken whole, so that one which fails is an error among the others.
    pub(crate) async fn batch(&self, entries: &[Entry<'_>], socket: Option<&Opening>) -> Answered {
        count(&self.counters.batches);
        let held = AtomicU64::new(0);
        let mut waiting = entries.iter();
        let mut running = FuturesOrdered::new();
        let mut parts = vec![Part::text("[")];
        let mut summary = Summary::default();
        let mut bytes = 0;
        let mut answered = 0;
        let push = |parts: &mut Vec<Part>, answer: Vec<Part>| {
            if parts.len() > 1 {
                parts.push(Part::text(","));
            }
            parts.extend(answer);
        };
        loop {
            while running.len() < self.batch_concurrency
                && let Some(entry) = waiting.next()
            {
                running.push_back(self.entry(entry, &held, socket));
            }
            let Some((answer, of)) = running.next().await else { break };
            summary.add(&of);
            let Some(answer) = answer else {
                answered += 1;
                continue;
            };
            bytes += answer.iter().map(Part::len).sum::<u64>();
            if bytes > self.max_batch_response_bytes {
                break;
            }
            answered += 1;
            push(&mut parts, answer);
        }
        // Ends what still runs.
        drop(running);
        for entry in entries.iter().skip(answered) {
            let id = match entry {
                Entry::Call { id: None, .. } => continue,
                Entry::Call { id: Some(id), .. } | Entry::Invalid { id, .. } => *id,
            };
            let error = self.over(bytes, self.max_batch_response_bytes, BATCH_LIMIT);
            push(&mut parts, self.error(id, &error));
        }
        if parts.len() == 1 {
            return Answered { body: Answering::Nothing, summary, overload: false };
        }
        parts.push(Part::text("]"));
        Answered { body: Answering::Whole(parts), summary, overload: false }
    }

    async fn entry(
        &self,
        entry: &Entry<'_>,
        held: &AtomicU64,
        socket: Option<&Opening>,
    ) -> (Option<Vec<Part>>, Summary) {
        let (id, method, params) = match entry {
            Entry::Invalid { id, error } => {
                return (Some(self.error(id, error)), Summary::default());
            }
            Entry::Call { id, method, params } => (id, method, params),
        };
        let ran = self.run(Call { method, params: *params }, socket).await;
        let summary = self.summary(&ran);
        let Some(id) = id else { return (None, summary) };
        let taken = match ran {
            Err(error) => Err(error),
            Ok(Answer { reply: Reply::Whole(rope), .. }) => Ok(vec![rope]),
            Ok(Answer { reply: Reply::Stream(mut pieces), .. }) => {
                let room = self.max_batch_response_bytes.saturating_sub(held.load(Relaxed));
                let limit = room.min(self.max_response_bytes);
                match self.prefetch(&mut pieces, limit.saturating_add(1), held).await {
                    Ok((begun, true)) => Ok(begun),
                    // Left off part-way: which limit it was.
                    Ok((_, false)) if room < self.max_response_bytes => {
                        Err(self.over(limit + 1, self.max_batch_response_bytes, BATCH_LIMIT))
                    }
                    Ok((_, false)) => {
                        Err(self.over(limit + 1, self.max_response_bytes, RESPONSE_LIMIT))
                    }
                    Err(error) => Err(error),
                }
            }
        };
        let answer = taken.and_then(|ropes| {
            let len = ropes.iter().map(Rope::len).sum();
            self.within(len, self.max_response_bytes, RESPONSE_LIMIT)?;
            Ok(whole(id, ropes))
        });
        (Some(answer.unwrap_or_else(|error| self.error(id, &error))), summary)
    }

    pub(crate) fn error(&self, id: &str, error: &RpcError) -> Vec<Part> {
        count(&self.counters.errors);
        vec![Part::text(error_object(id, error))]
    }

    fn within(&self, len: u64, limit: u64, name: &str) -> Result<(), RpcError> {
        if len > limit { Err(self.over(len, limit, name)) } else { Ok(()) }
    }

    /// A result without an envelope.
    pub(crate) async fn resource(&self, call: Call<'_>) -> Result<(Answering, Summary), RpcError> {
        let ran = self.run(call, None).await;
        let summary = self.summary(&ran);
        let body = match ran?.reply {
            Reply::Whole(rope) => {
                self.within(rope.len(), self.max_response_bytes, RESPONSE_LIMIT)?;
                Answering::Whole(vec![Part::Rope(rope)])
            }
            Reply::Stream(mut pieces) => {
                match self.prefetch(&mut pieces, MIN_COMPRESS_BYTES, &AtomicU64::new(0)).await? {
                    (begun, true) => Answering::Whole(begun.into_iter().map(Part::Rope).collect()),
                    (begun, false) => Answering::Stream { head: String::new(), begun, pieces },
                }
            }
        };
        Ok((body, summary))
    }

    fn over(&self, len: u64, limit: u64, name: &str) -> RpcError {
        count(&self.counters.oversized);
        // Geth's text (`rpc/errors.go`, errMsgResponseTooLarge).
        RpcError::limit("response too large", name, limit, len)
    }

    pub(crate) fn summary(&self, ran: &Ran) -> Summary {
        let Ok(answer) = ran else { return Summary::default() };
        let (hits, misses) = match answer.outcome {
            Outcome::Hit => (1, 0),
            Outcome::Miss => (0, 1),
            Outcome::Uncached => (0, 0),
        };
        self.counters.hits.fetch_add(hits, Relaxed);
        self.counters.misses.fetch_add(misses, Relaxed);
        metrics::made(answer.timing.execute, answer.timing.encode);
        Summary { timing: answer.timing, hits, misses }
    }
}

const RESPONSE_LIMIT: &str = "max-response-size";
const BATCH_LIMIT: &str = "batch-response-max-size";

/// Geth's answer of a call that took too long (`rpc/errors.go`, errMsgTimeout).
fn timed_out() -> RpcError {
    RpcError::new(code::TIMEOUT, "request timed out")
}

fn head(id: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":")
}

fn whole(id: &str, ropes: impl IntoIterator<Item = Rope>) -> Vec<Part> {
    let mut parts = vec![Part::text(head(id))];
    parts.extend(ropes.into_iter().map(Part::Rope));
    parts.push(Part::text(TAIL));
    parts
}

/// A response object with an error.
pub(crate) fn error_object(id: &str, error: &RpcError) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", error.to_json())
}

/// A response object for a request that has no usable id.
pub(crate) fn error_without_id(error: &RpcError) -> String {
    error_object(NULL_ID, error)
}

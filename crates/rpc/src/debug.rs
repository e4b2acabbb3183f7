//! `debug_trace*`: Geth's shapes, from a replay of the block.

use crate::{
    args::Args,
    block_param::BlockParam,
    blocks::can_be_traced,
    faults,
    rpc::Shared,
    run::{Cancel, Clock},
    service::{Answer, Outcome, Reply, Timing},
    trace_config::TraceConfig,
    whole::{Want, Whole},
};
use alloy_primitives::B256;
use alloy_rlp::Decodable;
use parking_lot::Mutex;
use prestate_diff::{Execution, ReplayError, TraceError, TraceLimits, replay, trace_block};
use prestate_host::{Block, RecoveredBlock};
use prestate_rpc_api::RpcError;
use prestate_store::ReplyKey;
use prestate_types::{BlockRef, Codes, GethOptions, PrestateOptions, Tracer};
use prestate_wire::{
    KnownCodes, MissingCode, Rope, RopeBuilder, StepText, TraceList, write_geth_diff, write_trace,
};
use serde_json::value::RawValue;
use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// From so many transactions on, a trace that is not kept is sent while it is made.
const STREAMED_TRANSACTIONS: usize = 2_000;
/// Transactions in a piece of it: some 100 KB of JSON.
const PIECE_TRANSACTIONS: usize = 256;
/// Pieces made ahead of a slow reader.
const STREAM_BUFFER: usize = 4;
/// Shortest timeout that is enforced between transactions only: no transaction of a block runs
/// that long without an inspector.
const UNINSPECTED_TIMEOUT: Duration = Duration::from_secs(1);

type Params<'a> = Option<&'a RawValue>;

/// A trace made, with its times.
pub(crate) type Made = (Rope, Timing);

impl Shared {
    pub(crate) async fn trace_block_by_number(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::number(&args, 0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        args.end(2)?;
        self.trace_block(Subject::Known(self.locate(param)?), config).await
    }

    pub(crate) async fn trace_block_by_hash(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        args.end(2)?;
        self.trace_block(Subject::Known(self.locate_hash(hash)?), config).await
    }

    pub(crate) async fn trace_block_rlp(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let rlp = args.bytes(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        args.end(2)?;
        let block = decode_block(&rlp)?;
        self.trace_block(Subject::Given(Arc::new(block)), config).await
    }

    pub(crate) async fn trace_transaction(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        args.end(2)?;
        let place = self.located(hash)?;
        can_be_traced(place.block.number)?;
        let tracer = config.tracer?;
        self.traced(Subject::Known(place.block), tracer, config.timeout, Some(place.index)).await
    }

    async fn trace_block(
        self: &Arc<Self>,
        subject: Subject,
        config: TraceConfig,
    ) -> Result<Answer, RpcError> {
        can_be_traced(subject.number())?;
        let refusal = match config.tracer {
            Ok(tracer) => return self.traced(subject, tracer, config.timeout, None).await,
            Err(refusal) => refusal,
        };
        let block = self.load(subject).await?;
        // Geth builds the tracer transaction by transaction: without any it is never built.
        if block.body().transactions.is_empty() {
            return Ok(Answer::uncached("[]"));
        }
        if !refusal.per_transaction {
            return Err(refusal.into());
        }
        let mut out = RopeBuilder::new();
        let mut list = TraceList::open(&mut out);
        for tx in &block.body().transactions {
            list.error(&mut out, tx.tx_hash());
            out.push(serde_json::Value::from(refusal.message.as_str()).to_string());
            list.end_entry(&mut out);
        }
        list.close(&mut out);
        Ok(Answer::uncached(out.finish()))
    }

    /// The block itself.
    async fn load(self: &Arc<Self>, subject: Subject) -> Result<Arc<RecoveredBlock>, RpcError> {
        match subject {
            Subject::Given(block) => Ok(block),
            Subject::Known(at) => self.read(move |shared| shared.by_hash(at.hash)).await,
        }
    }

    /// Traces a block, or one transaction of it.
    async fn traced(
        self: &Arc<Self>,
        subject: Subject,
        tracer: Tracer,
        timeout: Duration,
        only: Option<u64>,
    ) -> Result<Answer, RpcError> {
        let tracer = self.normalised(tracer);
        let key = ReplyKey {
            block_hash: subject.hash(),
            view: if only.is_none() { "trace block" } else { "trace transaction" },
            options: format!("{only:?} {tracer:?}").into(),
        };
        // A hit does not even load the block.
        if let Some(rope) = self.cache.look(&key) {
            let reply = Reply::Whole(rope);
            return Ok(Answer { reply, outcome: Outcome::Hit, timing: Timing::default() });
        }
        if let (Subject::Known(at), Some(fields)) = (&subject, true_diff(&tracer))
            && let Some(whole) = self.known_whole(*at, Want::Parts).await?
        {
            if only.is_none() && whole.facts().is_some_and(|facts| facts.txs.is_empty()) {
                return Ok(Answer::uncached("[]"));
            }
            let write = move |shared: &Arc<Self>| shared.write_diffs(&whole, fields, only);
            return self.kept(&key, || self.read(write)).await;
        }
        let block = self.load(subject).await?;
        if only.is_none() && block.body().transactions.is_empty() {
            return Ok(Answer::uncached("[]"));
        }
        let work = TraceWork { shared: Arc::clone(self), block, tracer, timeout, only };
        if only.is_none() && work.block.body().transactions.len() >= STREAMED_TRANSACTIONS {
            return work.stream(key).await;
        }
        let made = Mutex::new(Timing::default());
        let (rope, outcome) = self
            .cache
            .get_or_compute(&key, || async {
                let (rope, timing) = self.execute(move |cancel| work.run(cancel, |_| true)).await?;
                *made.lock() = timing;
                Ok(rope)
            })
            .await?;
        let timing = *made.lock();
        Ok(Answer { reply: Reply::Whole(rope), outcome: from_cache(outcome), timing })
    }

    /// The diff mode's result of a block, or of one transaction, from what is known of it.
    fn write_diffs(
        &self,
        whole: &Whole,
        fields: GethOptions,
        only: Option<u64>,
    ) -> Result<Rope, RpcError> {
        let txs = &whole.facts().ok_or_else(RpcError::internal)?.txs;
        let codes = self.codes_of(whole);
        let mut out = RopeBuilder::new();
        if let Some(index) = only {
            let tx = txs.get(index as usize).ok_or_else(RpcError::internal)?;
            write_geth_diff(&mut out, tx, fields, &codes).map_err(faults::code)?;
            return Ok(out.finish());
        }
        let mut list = TraceList::open(&mut out);
        for tx in txs {
            list.result(&mut out, &tx.hash);
            write_geth_diff(&mut out, tx, fields, &codes).map_err(faults::code)?;
            list.end_entry(&mut out);
        }
        list.close(&mut out);
        Ok(out.finish())
    }

    /// The tracer with everything filled in that decides its bytes.
    pub(crate) fn normalised(&self, tracer: Tracer) -> Tracer {
        match tracer {
            Tracer::Prestate(mut options) => {
                // Only the diff mode has artefacts.
                options.exact = options.diff_mode && (options.exact || self.config.geth_exact);
                Tracer::Prestate(options)
            }
            Tracer::Mux(tracers) => Tracer::Mux(
                tracers.into_iter().map(|(name, tracer)| (name, self.normalised(tracer))).collect(),
            ),
            other => other,
        }
    }
}

/// Hit or miss, as a caller is told.
pub(crate) fn from_cache(outcome: prestate_store::Outcome) -> Outcome {
    match outcome {
        prestate_store::Outcome::Hit | prestate_store::Outcome::Shared => Outcome::Hit,
        prestate_store::Outcome::Computed => Outcome::Miss,
    }
}

/// What a tracer prints of transactions' diffs, if it prints those and they are not Geth's
/// artefacts: it then needs no execution where the diffs are known.
fn true_diff(tracer: &Tracer) -> Option<GethOptions> {
    match tracer {
        Tracer::Prestate(PrestateOptions { diff_mode: true, exact: false, fields, .. }) => {
            Some(*fields)
        }
        _ => None,
    }
}

/// A block to be traced.
enum Subject {
    /// One of the chain, which may not have to be loaded.
    Known(BlockRef),
    /// The caller's own.
    Given(Arc<RecoveredBlock>),
}

impl Subject {
    fn hash(&self) -> B256 {
        match self {
            Self::Known(at) => at.hash,
            Self::Given(block) => block.hash(),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Known(at) => at.number,
            Self::Given(block) => block.number,
        }
    }
}

/// One trace to be made.
pub(crate) struct TraceWork {
    shared: Arc<Shared>,
    block: Arc<RecoveredBlock>,
    tracer: Tracer,
    timeout: Duration,
    only: Option<u64>,
}

impl TraceWork {
    /// Makes it. `piece` is handed what is there now and then and says whether to go on.
    fn run(&self, cancel: &Cancel, piece: impl FnMut(&Rope) -> bool) -> Result<Made, RpcError> {
        let Self { shared, block, tracer, timeout, only } = self;
        let execution = Execution { spec: shared.host.spec(), block };
        let parent = shared.host.state_after(block.parent_hash).map_err(faults::state)?;
        let mut clock = Clock::new(*timeout, cancel);
        let mut entries = Entries::new(shared, *only, cancel, piece);
        // What really changed needs no inspector; but without one the EVM cannot be stopped inside
        // a transaction, which a short timeout asks for.
        if let Some(fields) = true_diff(tracer)
            && *timeout >= UNINSPECTED_TIMEOUT
        {
            let ran = replay(execution, parent, &mut clock, |tx, codes| {
                entries.write(tx.index, tx.hash, codes, |out, codes| {
                    write_geth_diff(out, &tx, fields, codes)
                })
            });
            return entries.finish(ran.map(drop).map_err(TraceError::from));
        }
        let limits =
            TraceLimits { only: *only, max_step_bytes: shared.config.max_struct_log_bytes };
        let ran = trace_block(
            execution,
            parent,
            tracer,
            limits,
            clock,
            StepText::default,
            |index, hash, output, codes| {
                entries.write(index, hash, codes, |out, codes| write_trace(out, output, codes))
            },
        );
        entries.finish(ran)
    }

    /// Makes it while the client reads, and keeps it when it is whole. Until the first piece is
    /// there an error is an error like any other; after that it breaks the connection.
    async fn stream(self, key: ReplyKey) -> Result<Answer, RpcError> {
        let shared = Arc::clone(&self.shared);
        if let Some(rope) = shared.cache.get(&key) {
            let reply = Reply::Whole(rope);
            return Ok(Answer { reply, outcome: Outcome::Hit, timing: Timing::default() });
        }
        let (sender, receiver) = mpsc::channel(STREAM_BUFFER);
        let (started, start) = oneshot::channel();
        let permit = shared.permit().await?;
        let cancel = Cancel::default();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut started = Some(started);
            let result = self.run(&cancel, |piece| {
                if let Some(started) = started.take() {
                    let _ = started.send(Ok(()));
                }
                // Without a reader the work ends here.
                sender.blocking_send(Ok(piece.clone())).is_ok()
            });
            match (result, started) {
                (Ok((rope, timing)), _) => {
                    let cost = timing.execute + timing.encode;
                    self.shared.cache.insert(key, rope, cost);
                }
                (Err(error), Some(started)) => drop(started.send(Err(error))),
                (Err(error), None) => drop(sender.blocking_send(Err(error))),
            }
        });
        // The last piece is always sent, so that a start always comes; else the work panicked.
        start.await.map_err(|_| RpcError::internal())??;
        let reply = Reply::Stream(receiver);
        Ok(Answer { reply, outcome: Outcome::Miss, timing: Timing::default() })
    }
}

/// Results of a block's transactions as they come, or that of one.
struct Entries<'a, P> {
    shared: &'a Shared,
    out: RopeBuilder,
    list: Option<TraceList>,
    only: Option<u64>,
    cancel: &'a Cancel,
    piece: P,
    pieces: Vec<Rope>,
    /// Transactions in the piece under way.
    in_piece: usize,
    started: Instant,
    encode: Duration,
    failed: Option<MissingCode>,
}

impl<'a, P: FnMut(&Rope) -> bool> Entries<'a, P> {
    fn new(shared: &'a Shared, only: Option<u64>, cancel: &'a Cancel, piece: P) -> Self {
        let mut out = RopeBuilder::new();
        let list = only.is_none().then(|| TraceList::open(&mut out));
        Self {
            shared,
            out,
            list,
            only,
            cancel,
            piece,
            pieces: Vec::new(),
            in_piece: 0,
            started: Instant::now(),
            encode: Duration::ZERO,
            failed: None,
        }
    }

    /// Writes one transaction's result, unless another one is wanted; says whether to go on.
    fn write(
        &mut self,
        index: u64,
        hash: B256,
        codes: &Codes,
        write: impl FnOnce(&mut RopeBuilder, &KnownCodes<'_>) -> Result<(), MissingCode>,
    ) -> ControlFlow<()> {
        if self.only.is_some_and(|only| only != index) {
            return self.cancel.check();
        }
        let started = Instant::now();
        if let Some(list) = &mut self.list {
            list.result(&mut self.out, &hash);
        }
        let written = write(&mut self.out, &KnownCodes::new(&self.shared.codes, codes));
        if let Some(list) = &mut self.list {
            list.end_entry(&mut self.out);
        }
        self.encode += started.elapsed();
        if let Err(missing) = written {
            self.failed = Some(missing);
            return ControlFlow::Break(());
        }
        if self.only.is_some() {
            // The rest of the block is of no interest to who wants one transaction.
            return ControlFlow::Break(());
        }
        self.in_piece += 1;
        if self.in_piece == PIECE_TRANSACTIONS && !self.cut() {
            return ControlFlow::Break(());
        }
        self.cancel.check()
    }

    /// Ends the piece under way and hands it out; says whether to go on.
    fn cut(&mut self) -> bool {
        self.in_piece = 0;
        let piece = std::mem::take(&mut self.out).finish();
        let go_on = (self.piece)(&piece);
        self.pieces.push(piece);
        go_on
    }

    /// The whole result.
    fn finish(mut self, ran: Result<(), TraceError>) -> Result<Made, RpcError> {
        if let Some(missing) = self.failed {
            return Err(faults::code(missing));
        }
        match ran {
            Err(TraceError::Replay(ReplayError::Stopped)) if self.only.is_some() => {}
            other => other.map_err(faults::trace)?,
        }
        self.cancel_is_not_a_result()?;
        if let Some(list) = self.list.take() {
            list.close(&mut self.out);
        }
        self.cut();
        let execute = self.started.elapsed().saturating_sub(self.encode);
        Ok((Rope::concat(self.pieces), Timing { execute, encode: self.encode }))
    }

    fn cancel_is_not_a_result(&self) -> Result<(), RpcError> {
        // A tracer that was told to stop ends without an error of its own.
        if self.only.is_none() && self.cancel.check().is_break() {
            return Err(RpcError::server("execution aborted"));
        }
        Ok(())
    }
}

/// A block from its RLP, senders recovered by the rules of any time.
fn decode_block(rlp: &[u8]) -> Result<RecoveredBlock, RpcError> {
    let undecodable =
        |reason: String| RpcError::server(format!("could not decode block: {reason}"));
    let mut rest = rlp;
    let block = Block::decode(&mut rest).map_err(|error| undecodable(rlp_reason(rlp, &error)))?;
    if !rest.is_empty() {
        return Err(undecodable("rlp: input contains more than one value".to_owned()));
    }
    RecoveredBlock::try_recover_unchecked(block).map_err(|error| undecodable(error.to_string()))
}

/// Fields that every header has (Yellow Paper 4.3).
const HEADER_FIELDS: usize = 15;

/// Whether the block's header is a list that is whole but has too few elements.
fn header_too_short(rlp: &[u8]) -> bool {
    fn list<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        alloy_rlp::Header::decode_bytes(bytes, true).ok()
    }
    let mut rest = rlp;
    let Some(mut fields) = list(&mut rest).and_then(|mut block| list(&mut block)) else {
        return false;
    };
    let mut count = 0;
    while !fields.is_empty() {
        match alloy_rlp::Header::decode(&mut fields) {
            Ok(item) if item.payload_length <= fields.len() => {
                fields = &fields[item.payload_length..];
            }
            _ => return false,
        }
        count += 1;
    }
    count < HEADER_FIELDS
}

/// Geth's words for what is wrong with the RLP of a block (`rlp/decode.go`).
fn rlp_reason(rlp: &[u8], error: &alloy_rlp::Error) -> String {
    use alloy_rlp::Error;
    match error {
        _ if rlp.is_empty() => "EOF".to_owned(),
        _ if header_too_short(rlp) => "rlp: too few elements for types.Header, decoding into \
             (types.Block)(types.extblock).Header"
            .to_owned(),
        Error::UnexpectedString => "rlp: expected input list for types.extblock".to_owned(),
        Error::InputTooShort if rlp[0] >= 0xc0 && rlp.len() == 1 + usize::from(rlp[0] - 0xc0) => {
            "rlp: too few elements for types.extblock".to_owned()
        }
        Error::InputTooShort => "rlp: value size exceeds available input length".to_owned(),
        other => format!("rlp: {other}"),
    }
}

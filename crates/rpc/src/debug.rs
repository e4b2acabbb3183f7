//! `debug_trace*`: Geth's shapes, from a replay of the block.

use crate::{
    args::Args,
    block_param::BlockParam,
    faults,
    rpc::Shared,
    run::{Cancel, Clock},
    service::{Answer, Outcome, Reply, Timing},
    trace_config::TraceConfig,
};
use alloy_primitives::B256;
use alloy_rlp::Decodable;
use prestate_diff::{Execution, PlainOptions, TxLookups, replay, replay_lookups};
use prestate_host::{Block, RecoveredBlock};
use prestate_rpc_api::RpcError;
use prestate_types::{Codes, PrestateOptions, Tracer};
use prestate_wire::{
    KnownCodes, MissingCode, Rope, RopeBuilder, TraceList, write_geth_diff, write_geth_pair,
    write_geth_state,
};
use serde_json::value::RawValue;
use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

type Params<'a> = Option<&'a RawValue>;

/// A trace made, with its times.
pub(crate) type Made = (Rope, Timing);

impl Shared {
    pub(crate) async fn trace_block_by_number(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params, 2)?;
        let param = BlockParam::number(&args, 0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        self.trace_block(self.block(param)?, config).await
    }

    pub(crate) async fn trace_block_by_hash(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params, 2)?;
        let hash = args.hash(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        self.trace_block(self.by_hash(hash)?, config).await
    }

    pub(crate) async fn trace_block_rlp(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params, 2)?;
        let rlp = args.bytes(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        let block = decode_block(&rlp)?;
        self.trace_block(Arc::new(block), config).await
    }

    pub(crate) async fn trace_transaction(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params, 2)?;
        let hash = args.hash(0)?;
        let config = TraceConfig::parse(args.optional(1), 1)?;
        let (_, block) = self.place(hash)?;
        let block = self.traceable(block)?;
        let tracer = config.tracer.clone()?;
        self.traced(block, tracer, config.timeout, Some(hash)).await
    }

    async fn trace_block(
        self: &Arc<Self>,
        block: Arc<RecoveredBlock>,
        config: TraceConfig,
    ) -> Result<Answer, RpcError> {
        let block = self.traceable(block)?;
        match config.tracer {
            Ok(tracer) => self.traced(block, tracer, config.timeout, None).await,
            // Geth builds the tracer transaction by transaction: without any it is never built.
            Err(_) if block.body().transactions.is_empty() => Ok(Answer::uncached("[]")),
            Err(refusal) if refusal.per_transaction => {
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
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Traces a block, or one transaction of it.
    async fn traced(
        self: &Arc<Self>,
        block: Arc<RecoveredBlock>,
        tracer: Tracer,
        timeout: Duration,
        only: Option<B256>,
    ) -> Result<Answer, RpcError> {
        if only.is_none() && block.body().transactions.is_empty() {
            return Ok(Answer::uncached("[]"));
        }
        let shared = Arc::clone(self);
        let (rope, timing) = self
            .execute(move |cancel| shared.trace_now(&block, &tracer, timeout, only, cancel))
            .await?;
        Ok(Answer { reply: Reply::Whole(rope), outcome: Outcome::Miss, timing })
    }

    fn trace_now(
        &self,
        block: &RecoveredBlock,
        tracer: &Tracer,
        timeout: Duration,
        only: Option<B256>,
        cancel: &Cancel,
    ) -> Result<Made, RpcError> {
        match tracer {
            Tracer::Prestate(options) => self.prestate(block, *options, timeout, only, cancel),
            other => Err(RpcError::server(format!("tracer {other:?} is not available"))),
        }
    }

    fn prestate(
        &self,
        block: &RecoveredBlock,
        options: PrestateOptions,
        timeout: Duration,
        only: Option<B256>,
        cancel: &Cancel,
    ) -> Result<Made, RpcError> {
        let execution = Execution { spec: self.host.spec(), block };
        let parent = self.host.state_after(block.parent_hash).map_err(faults::state)?;
        let mut clock = Clock::new(timeout, cancel);
        let mut entries = Entries::new(self, only, cancel);
        let exact = options.exact || self.config.geth_exact;
        let fields = options.fields;
        let ran = if options.diff_mode && !exact {
            replay(execution, parent, &mut clock, |tx, codes| {
                entries.write(tx.hash, codes, |out, codes| {
                    write_geth_diff(out, &tx, fields, codes)
                })
            })
            .map(drop)
        } else {
            replay_lookups(execution, parent, &mut clock, |hash, lookups: TxLookups, codes| {
                entries.write(hash, codes, |out, codes| {
                    if options.diff_mode {
                        write_geth_pair(out, &lookups.exact_diff(fields), codes)
                    } else {
                        let include_empty = options.include_empty;
                        let plain = lookups.plain(PlainOptions { fields, include_empty });
                        write_geth_state(out, &plain, codes)
                    }
                })
            })
            .map(drop)
        };
        entries.finish(ran)
    }
}

/// Results of a block's transactions as they come, or that of one.
pub(crate) struct Entries<'a> {
    shared: &'a Shared,
    out: RopeBuilder,
    list: Option<TraceList>,
    only: Option<B256>,
    cancel: &'a Cancel,
    started: Instant,
    encode: Duration,
    failed: Option<MissingCode>,
    found: bool,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(shared: &'a Shared, only: Option<B256>, cancel: &'a Cancel) -> Self {
        let mut out = RopeBuilder::new();
        let list = only.is_none().then(|| TraceList::open(&mut out));
        Self {
            shared,
            out,
            list,
            only,
            cancel,
            started: Instant::now(),
            encode: Duration::ZERO,
            failed: None,
            found: false,
        }
    }

    /// Writes one transaction's result, unless another one is wanted; says whether to go on.
    pub(crate) fn write(
        &mut self,
        hash: B256,
        codes: &Codes,
        write: impl FnOnce(&mut RopeBuilder, &KnownCodes<'_>) -> Result<(), MissingCode>,
    ) -> ControlFlow<()> {
        if self.only.is_some_and(|only| only != hash) {
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
        self.found = true;
        if let Err(missing) = written {
            self.failed = Some(missing);
            return ControlFlow::Break(());
        }
        // The rest of the block is of no interest to who wants one transaction.
        if self.only.is_some() { ControlFlow::Break(()) } else { self.cancel.check() }
    }

    /// The whole result.
    pub(crate) fn finish(
        mut self,
        ran: Result<(), prestate_diff::ReplayError>,
    ) -> Result<Made, RpcError> {
        if let Some(missing) = self.failed {
            return Err(faults::code(missing));
        }
        match ran {
            Err(prestate_diff::ReplayError::Stopped) if self.only.is_some() && self.found => {}
            other => other.map_err(faults::replay)?,
        }
        if let Some(list) = self.list {
            list.close(&mut self.out);
        }
        let execute = self.started.elapsed().saturating_sub(self.encode);
        Ok((self.out.finish(), Timing { execute, encode: self.encode }))
    }
}

/// A block from its RLP, senders recovered by the rules of any time.
fn decode_block(rlp: &[u8]) -> Result<RecoveredBlock, RpcError> {
    let undecodable = |reason: String| RpcError::server(format!("could not decode block: {reason}"));
    let mut rest = rlp;
    let block = Block::decode(&mut rest).map_err(|error| undecodable(rlp_reason(rlp, &error)))?;
    if !rest.is_empty() {
        return Err(undecodable("rlp: input contains more than one value".to_owned()));
    }
    RecoveredBlock::try_recover_unchecked(block).map_err(|error| undecodable(error.to_string()))
}

/// Geth's words for what is wrong with the RLP of a block (`rlp/decode.go`).
fn rlp_reason(rlp: &[u8], error: &alloy_rlp::Error) -> String {
    use alloy_rlp::Error;
    match error {
        _ if rlp.is_empty() => "EOF".to_owned(),
        Error::UnexpectedString => "rlp: expected input list for types.extblock".to_owned(),
        Error::InputTooShort if rlp[0] >= 0xc0 && rlp.len() == 1 + usize::from(rlp[0] - 0xc0) => {
            "rlp: too few elements for types.extblock".to_owned()
        }
        Error::InputTooShort => "rlp: value size exceeds available input length".to_owned(),
        other => format!("rlp: {other}"),
    }
}

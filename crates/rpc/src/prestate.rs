//! `prestate_*`: the views of our own.

use crate::{
    args::Args,
    block_param::BlockParam,
    debug::from_cache,
    faults,
    rpc::{METHODS, Shared},
    run::{Cancel, Clock},
    service::{Answer, Outcome, Reply, Timing},
};
use alloy_primitives::B256;
use prestate_diff::{Execution, Replayed, check_invariant, replay};
use prestate_host::RecoveredBlock;
use prestate_rpc_api::{CodeOption, DiffOptions, RpcError};
use prestate_store::ReplyKey;
use prestate_types::{BlockDiff, BlockFacts, BlockRef, DiffFilter, StateDiff, TxDiff};
use prestate_wire::{
    CodeView, KnownCodes, Rope, RopeBuilder, write_block_diff, write_block_summary, write_sides,
    write_transaction_diff,
};
use serde_json::{json, value::RawValue};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::error;

type Params<'a> = Option<&'a RawValue>;

impl Shared {
    pub(crate) async fn block_diff(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let (block, view) = self.block_and_view(params)?;
        let shared = Arc::clone(self);
        self.kept("block diff", block.hash(), view.key(), move |cancel| {
            let whole = shared.replayed(&block, cancel)?;
            let diff = view.filtered(&whole.diff.diff)?;
            let block = BlockDiff { summary: whole.diff.summary, diff };
            let mut out = RopeBuilder::new();
            let codes = KnownCodes::new(&shared.codes, &whole.replayed.codes);
            write_block_diff(&mut out, &block, view.code, &codes).map_err(faults::code)?;
            Ok(out.finish())
        })
        .await
    }

    pub(crate) async fn transaction_diffs(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let (block, view) = self.block_and_view(params)?;
        let shared = Arc::clone(self);
        self.kept("transaction diffs", block.hash(), view.key(), move |cancel| {
            let whole = shared.checked(&block, cancel)?;
            let codes = KnownCodes::new(&shared.codes, &whole.replayed.codes);
            let mut out = RopeBuilder::new();
            out.push("{\"block\":");
            write_block_summary(&mut out, &whole.facts.summary);
            if view.system {
                out.push(",\"preSystem\":{");
                let part = view.filtered(&whole.facts.pre_system)?;
                write_sides(&mut out, &part, view.code, &codes).map_err(faults::code)?;
                out.push("}");
            }
            out.push(",\"transactions\":[");
            for (at, tx) in whole.facts.txs.iter().enumerate() {
                if at > 0 {
                    out.push(",");
                }
                let tx = view.filtered_tx(tx)?;
                write_transaction_diff(&mut out, &tx, view.code, &codes).map_err(faults::code)?;
            }
            out.push("]");
            if view.system {
                out.push(",\"postSystem\":{");
                let part = view.filtered(&whole.facts.post_system)?;
                write_sides(&mut out, &part, view.code, &codes).map_err(faults::code)?;
                out.push("}");
            }
            out.push("}");
            Ok(out.finish())
        })
        .await
    }

    pub(crate) async fn transaction_diff(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        let view = View::of(args.parsed(1)?.unwrap_or_default())?;
        args.end(2)?;
        let (place, block) = self.place(hash)?;
        let shared = Arc::clone(self);
        let key = format!("{} {}", place.index, view.key());
        self.kept("transaction diff", block.hash(), key, move |cancel| {
            let whole = shared.checked(&block, cancel)?;
            let codes = KnownCodes::new(&shared.codes, &whole.replayed.codes);
            let tx = whole.facts.txs.get(place.index as usize).ok_or_else(RpcError::internal)?;
            let mut out = RopeBuilder::new();
            let tx = view.filtered_tx(tx)?;
            write_transaction_diff(&mut out, &tx, view.code, &codes).map_err(faults::code)?;
            Ok(out.finish())
        })
        .await
    }

    pub(crate) fn status(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        let host = &self.host;
        let info = host.info();
        let at = |block: Option<BlockRef>| {
            block.map(
                |block| json!({ "number": format!("0x{:x}", block.number), "hash": block.hash }),
            )
        };
        let (codes, code_bytes) = self.codes.usage();
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "host": { "kind": info.kind, "version": info.version },
            "chainId": format!("0x{:x}", host.spec().chain_id()),
            "head": at(Some(host.head().map_err(faults::host)?)),
            "safe": at(host.safe().map_err(faults::host)?),
            "finalized": at(host.finalized().map_err(faults::host)?),
            "earliest": at(Some(host.earliest().map_err(faults::host)?)),
            "gethExact": self.config.geth_exact,
            "codes": { "count": codes, "bytes": code_bytes },
            "cache": self.cache_json(),
            "executions": { "waiting": self.executions.waiting() },
            "limits": {
                "executions": self.config.max_executions,
                "queue": self.config.max_queue,
                "structLogBytes": self.config.max_struct_log_bytes,
                "filterAddresses": prestate_types::MAX_FILTER_ADDRESSES,
                "filterSlots": prestate_types::MAX_FILTER_SLOTS,
            },
            "methods": METHODS,
        });
        Ok(Answer::uncached(status.to_string()))
    }

    pub(crate) fn cache_status(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        Ok(Answer::uncached(json!({ "responseCache": self.cache_json() }).to_string()))
    }

    fn cache_json(&self) -> serde_json::Value {
        let stats = self.cache.stats();
        let asked = stats.hits + stats.misses + stats.coalesced;
        let hit_rate =
            if asked == 0 { 0.0 } else { (stats.hits + stats.coalesced) as f64 / asked as f64 };
        json!({
            "entryCount": stats.entries,
            "totalBytes": stats.bytes(),
            "ownedBytes": stats.owned_bytes,
            "codes": stats.codes,
            "codeBytes": stats.code_bytes,
            "capacityBytes": stats.capacity_bytes,
            "hits": stats.hits,
            "misses": stats.misses,
            "coalesced": stats.coalesced,
            "failures": stats.failures,
            "evictions": stats.evictions,
            "oversized": stats.oversized,
            "hitRate": hit_rate,
        })
    }

    fn block_and_view(&self, params: Params<'_>) -> Result<(Arc<RecoveredBlock>, View), RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::any(&args, 0)?;
        let view = View::of(args.parsed(1)?.unwrap_or_default())?;
        args.end(2)?;
        let block = self.block(param)?;
        if block.number == 0 {
            return Err(RpcError::server("genesis has no diff: it follows no other state"));
        }
        Ok((block, view))
    }

    /// A kept result, or the one that `work` makes with a permit.
    pub(crate) async fn kept(
        &self,
        view: &'static str,
        block_hash: B256,
        options: String,
        work: impl FnOnce(&Cancel) -> Result<Rope, RpcError> + Send + 'static,
    ) -> Result<Answer, RpcError> {
        let key = ReplyKey { block_hash, view, options: options.into() };
        let started = Instant::now();
        let (rope, outcome) = self.cache.get_or_compute(&key, || self.execute(work)).await?;
        let outcome = from_cache(outcome);
        let execute = match outcome {
            Outcome::Miss => started.elapsed(),
            _ => Duration::ZERO,
        };
        let timing = Timing { execute, encode: Duration::ZERO };
        Ok(Answer { reply: Reply::Whole(rope), outcome, timing })
    }

    /// Replays a block; what it changed as a whole comes from its bundle.
    fn replayed(&self, block: &RecoveredBlock, cancel: &Cancel) -> Result<Whole, RpcError> {
        let parent = || self.host.state_after(block.parent_hash).map_err(faults::state);
        let execution = Execution { spec: self.host.spec(), block };
        let mut txs = Vec::with_capacity(block.body().transactions.len());
        let mut clock = Clock::new(Duration::MAX, cancel);
        let mut replayed = replay(execution, parent()?, &mut clock, |tx, _| {
            txs.push(tx);
            cancel.check()
        })
        .map_err(faults::replay)?;
        let diff = replayed.block_diff(&*parent()?).map_err(faults::replay)?;
        let facts = replayed.facts(txs);
        Ok(Whole { replayed, diff, facts })
    }

    /// As [`Self::replayed`], with the parts held against the whole: transaction diffs that do not
    /// add up are never served.
    fn checked(&self, block: &RecoveredBlock, cancel: &Cancel) -> Result<Whole, RpcError> {
        let whole = self.replayed(block, cancel)?;
        check_invariant(&whole.facts, &whole.diff.diff).map_err(|fault| {
            error!(target: "prestate::rpc", %fault, "invariant broken");
            RpcError::server(format!(
                "transaction diffs of block {} do not add up to its block diff and are not served",
                whole.facts.summary.block
            ))
        })?;
        Ok(whole)
    }
}

struct Whole {
    replayed: Replayed,
    diff: BlockDiff,
    facts: BlockFacts,
}

/// What a caller wants to see.
struct View {
    filter: DiffFilter,
    code: CodeView,
    limit: Option<u64>,
    system: bool,
}

impl View {
    fn of(options: DiffOptions) -> Result<Self, RpcError> {
        let filter = DiffFilter {
            addresses: options.addresses.map(|list| list.into_iter().collect()),
            slots: options
                .slots
                .into_iter()
                .map(|(address, slots)| (address, slots.into_iter().collect()))
                .collect(),
            no_storage: options.storage == Some(false),
        };
        filter.check().map_err(|fault| match fault {
            prestate_types::FilterError::TooManyAddresses { given, limit } => {
                RpcError::limit(fault.to_string(), "filterAddresses", limit as u64, given as u64)
            }
            prestate_types::FilterError::TooManySlots { given, limit } => {
                RpcError::limit(fault.to_string(), "filterSlots", limit as u64, given as u64)
            }
            _ => RpcError::invalid_params(fault.to_string()),
        })?;
        let code = match options.code {
            CodeOption::None => CodeView::None,
            CodeOption::Hash => CodeView::Hash,
            CodeOption::Full => CodeView::Full,
        };
        Ok(Self { filter, code, limit: options.limit, system: options.system })
    }

    /// What decides the bytes, in one way only: the sets are sorted.
    fn key(&self) -> String {
        format!("{:?} {:?} {:?} {}", self.filter, self.code, self.limit, self.system)
    }

    /// What passes the filter, refused if it is more than the caller's limit.
    fn filtered(&self, diff: &StateDiff) -> Result<StateDiff, RpcError> {
        let seen = self.filter.apply(diff);
        let given = (seen.len() + seen.slot_count()) as u64;
        match self.limit {
            Some(limit) if given > limit => Err(RpcError::limit(
                format!("the diff has {given} accounts and slots, the limit given is {limit}"),
                "limit",
                limit,
                given,
            )),
            _ => Ok(seen),
        }
    }

    fn filtered_tx(&self, tx: &TxDiff) -> Result<TxDiff, RpcError> {
        let diff = self.filtered(&tx.diff)?;
        Ok(TxDiff { hash: tx.hash, index: tx.index, diff, zero_reads: Vec::new() })
    }
}

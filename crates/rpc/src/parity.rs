//! `trace_*`: OpenEthereum's shapes, from a replay of the block.

mod filter;
mod pieces;

use crate::{
    args::{Args, invalid},
    block_param::BlockParam,
    faults,
    rpc::Shared,
    run::{Cancel, Clock},
    service::Answer,
};
use alloy_primitives::{B256, map::HashSet};
use alloy_rpc_types_trace::parity::{LocalizedTransactionTrace, TraceResults, TraceType};
use prestate_diff::{Deadline, Execution, localized, reward_traces, trace_block_parity};
use prestate_host::{RecoveredBlock, summary};
use prestate_rpc_api::RpcError;
use prestate_types::{BlockRef, TracePlace};
use prestate_wire::Rope;
use serde::Serialize;
use serde_json::value::RawValue;
use std::{ops::ControlFlow, sync::Arc, time::Duration};

/// How long one transaction may be replayed. These methods have no timeout of the caller's: no
/// transaction of a block takes that long, unless the machine is in trouble.
const TX_TIMEOUT: Duration = Duration::from_secs(60);

type Params<'a> = Option<&'a RawValue>;

impl Shared {
    /// `trace_block(block)`: the calls of its transactions and, before Paris, its rewards; null
    /// for a block that is not known.
    pub(crate) async fn parity_block(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::any(&args, 0)?;
        args.end(1)?;
        let Some(at) = self.if_known(param)? else { return Ok(Answer::uncached("null")) };
        self.kept_executed("parity block", at, String::new(), move |shared, block, cancel| {
            let clock = Clock::new(TX_TIMEOUT, cancel);
            let mut list = List::default();
            shared.calls(block, None, clock, |trace| {
                list.push(&trace)?;
                Ok(cancel.check())
            })?;
            finished(cancel)?;
            Ok(list.close())
        })
        .await
    }

    /// `trace_transaction(hash)`: its calls; null for a transaction that is not known.
    pub(crate) async fn parity_transaction(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        args.end(1)?;
        self.calls_of(hash, None).await
    }

    /// `trace_get(hash, traceAddress)`: the call at that address; null if there is none.
    ///
    /// The address is that of OpenEthereum: the position in each call on the way, `[]` for the
    /// transaction's own. (Some clients count the transaction's traces instead.)
    pub(crate) async fn parity_get(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        args.required(1)?;
        let address: Vec<Index> = args.parsed(1)?.unwrap_or_default();
        args.end(2)?;
        let address = address.into_iter().map(|Index(index)| index).collect();
        self.calls_of(hash, Some(address)).await
    }

    /// The calls of a transaction, or the one at an address.
    async fn calls_of(
        self: &Arc<Self>,
        hash: B256,
        address: Option<Vec<usize>>,
    ) -> Result<Answer, RpcError> {
        let Some(place) = self.host.transaction(hash).map_err(faults::host)? else {
            return Ok(Answer::uncached("null"));
        };
        let options = format!("{} {address:?}", place.index);
        self.kept_executed(
            "parity transaction",
            place.block,
            options,
            move |shared, block, cancel| {
                let clock = Clock::new(TX_TIMEOUT, cancel);
                let mut list = List::default();
                let mut found = None;
                shared.calls(block, Some(place.index), clock, |trace| {
                    match &address {
                        None => list.push(&trace)?,
                        Some(address) if trace.trace.trace_address == *address => {
                            found = Some(json(&trace)?);
                        }
                        Some(_) => {}
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                finished(cancel)?;
                Ok(match address {
                    None => list.close(),
                    Some(_) => found.unwrap_or_else(|| b"null".to_vec()).into(),
                })
            },
        )
        .await
    }

    /// `trace_replayBlockTransactions(block, types)`; null for a block that is not known.
    pub(crate) async fn parity_replay_block(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::any(&args, 0)?;
        let types = Types::parse(&args, 1)?;
        args.end(2)?;
        let Some(at) = self.if_known(param)? else { return Ok(Answer::uncached("null")) };
        if types.opcodes() {
            let (shared, block) = (Arc::clone(self), self.by_hash(at.hash)?);
            // Far more than is worth keeping: sent while it is made.
            return self
                .in_pieces(move |pieces| {
                    let mut first = true;
                    pieces.push(b"[");
                    shared.replayed_parity(
                        &block,
                        &types,
                        None,
                        pieces.deadline(),
                        |hash, results| {
                            if !std::mem::take(&mut first) {
                                pieces.push(b",");
                            }
                            pieces.push(&with_hash(&results, hash)?);
                            Ok(pieces.go_on())
                        },
                    )?;
                    pieces.push(b"]");
                    Ok(())
                })
                .await;
        }
        self.kept_executed("parity replay", at, types.key(), move |shared, block, cancel| {
            let clock = Clock::new(TX_TIMEOUT, cancel);
            let mut list = List::default();
            shared.replayed_parity(block, &types, None, clock, |hash, results| {
                list.push_text(&with_hash(&results, hash)?);
                Ok(cancel.check())
            })?;
            finished(cancel)?;
            Ok(list.close())
        })
        .await
    }

    /// `trace_replayTransaction(hash, types)`.
    pub(crate) async fn parity_replay_transaction(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        let types = Types::parse(&args, 1)?;
        args.end(2)?;
        let place = self.located(hash)?;
        let options = format!("{} {}", place.index, types.key());
        self.kept_executed("parity replay", place.block, options, move |shared, block, cancel| {
            let clock = Clock::new(TX_TIMEOUT, cancel);
            let mut text = None;
            shared.replayed_parity(block, &types, Some(place.index), clock, |_, results| {
                text = Some(json(&results)?);
                Ok(ControlFlow::Continue(()))
            })?;
            finished(cancel)?;
            text.map(Rope::from).ok_or_else(RpcError::internal)
        })
        .await
    }

    /// The block a caller names, `None` if there is none.
    fn if_known(&self, param: BlockParam) -> Result<Option<BlockRef>, RpcError> {
        let missing = match param {
            BlockParam::Number(number) => {
                self.host.canonical_hash(number).map_err(faults::host)?.is_none()
            }
            BlockParam::Hash { hash, .. } => {
                self.known.summary(&hash)?.is_none()
                    && self.host.block(hash).map_err(faults::host)?.is_none()
            }
            _ => false,
        };
        if missing { Ok(None) } else { self.locate(param).map(Some) }
    }

    /// Hands out the calls of a block, its rewards last, or those of one transaction; says whether
    /// all of them were wanted.
    fn calls<D: Deadline + Clone>(
        &self,
        block: &RecoveredBlock,
        only: Option<u64>,
        deadline: D,
        mut each: impl FnMut(LocalizedTransactionTrace) -> Result<ControlFlow<()>, RpcError>,
    ) -> Result<bool, RpcError> {
        let execution = Execution { spec: self.host.spec(), block };
        // First, so that a block whose rewards cannot be told is refused before it is executed.
        let rewards = match only {
            None if block.number > 0 => reward_traces(execution).map_err(faults::replay)?,
            _ => Vec::new(),
        };
        let types = Types::calls();
        let at = summary(block).block;
        let mut index = only.unwrap_or(0);
        let mut flow = ControlFlow::Continue(());
        self.replayed_parity(block, &types, only, deadline, |hash, results| {
            let place = TracePlace {
                block_hash: Some(at.hash),
                block_number: at.number,
                tx_hash: Some(hash),
                tx_index: index,
            };
            index += 1;
            for trace in localized(results.trace, place) {
                flow = each(trace)?;
                if flow.is_break() {
                    break;
                }
            }
            Ok(flow)
        })?;
        for trace in rewards {
            if flow.is_continue() {
                flow = each(trace)?;
            }
        }
        Ok(flow.is_continue())
    }

    /// Executes a block and hands out what was found in its transactions.
    fn replayed_parity<D: Deadline + Clone>(
        &self,
        block: &RecoveredBlock,
        types: &Types,
        only: Option<u64>,
        deadline: D,
        mut each: impl FnMut(B256, TraceResults) -> Result<ControlFlow<()>, RpcError>,
    ) -> Result<(), RpcError> {
        if block.body().transactions.is_empty() {
            return Ok(());
        }
        let execution = Execution { spec: self.host.spec(), block };
        let parent = self.host.state_after(block.parent_hash).map_err(faults::state)?;
        let mut failed = None;
        trace_block_parity(execution, parent, &types.0, only, deadline, |_, hash, results| {
            each(hash, results).unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })
        .map_err(faults::trace)?;
        failed.map_or(Ok(()), Err)
    }
}

/// What of a replay is asked for.
#[derive(Debug, Clone)]
struct Types(HashSet<TraceType>);

impl Types {
    fn calls() -> Self {
        Self(HashSet::from_iter([TraceType::Trace]))
    }

    fn parse(args: &Args<'_>, at: usize) -> Result<Self, RpcError> {
        let raw = args.required(at)?;
        serde_json::from_str(raw.get()).map(Self).map_err(|error| invalid(at, &error.to_string()))
    }

    fn opcodes(&self) -> bool {
        self.0.contains(&TraceType::VmTrace)
    }

    /// The same for the same types, in whatever order they came.
    fn key(&self) -> String {
        let has = |kind| self.0.contains(&kind);
        let (calls, opcodes, state) =
            (has(TraceType::Trace), has(TraceType::VmTrace), has(TraceType::StateDiff));
        format!("{calls} {opcodes} {state}")
    }
}

/// A position, as a number or in hex.
#[derive(Debug, Clone, Copy)]
struct Index(usize);

impl<'de> serde::Deserialize<'de> for Index {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(usize),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(index) => Ok(Self(index)),
            Either::Text(text) => {
                let index = crate::args::quantity(&text).map_err(serde::de::Error::custom)?;
                usize::try_from(index).map(Self).map_err(serde::de::Error::custom)
            }
        }
    }
}

/// A JSON array under way.
#[derive(Debug, Default)]
struct List(Vec<u8>);

impl List {
    fn push(&mut self, item: &impl Serialize) -> Result<(), RpcError> {
        self.push_text(&json(item)?);
        Ok(())
    }

    fn push_text(&mut self, item: &[u8]) {
        self.0.push(if self.0.is_empty() { b'[' } else { b',' });
        self.0.extend_from_slice(item);
    }

    fn close(mut self) -> Rope {
        if self.0.is_empty() {
            self.0.push(b'[');
        }
        self.0.push(b']');
        self.0.into()
    }
}

fn json(item: &impl Serialize) -> Result<Vec<u8>, RpcError> {
    serde_json::to_vec(item).map_err(|error| faults::logged(&error))
}

/// Results with their transaction's hash behind them.
fn with_hash(results: &TraceResults, hash: B256) -> Result<Vec<u8>, RpcError> {
    let mut text = json(results)?;
    text.pop();
    text.extend_from_slice(format!(",\"transactionHash\":\"{hash}\"}}").as_bytes());
    Ok(text)
}

/// A caller that went away gets nothing, and nothing of it is kept.
fn finished(cancel: &Cancel) -> Result<(), RpcError> {
    match cancel.check() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(RpcError::server("execution aborted")),
    }
}

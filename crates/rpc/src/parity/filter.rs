//! `trace_filter`.

use super::json;
use crate::{
    args::{Args, invalid},
    block_param::{self, BlockParam},
    faults,
    rpc::Shared,
    service::Answer,
};
use alloy_primitives::{Address, B256};
use alloy_rpc_types_trace::filter::{TraceFilter, TraceFilterMatcher, TraceFilterMode};
use prestate_rpc_api::RpcError;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{ops::ControlFlow, sync::Arc};

/// Most blocks that a filter may span: all of them are executed. Reth's default.
pub(crate) const MAX_FILTER_BLOCKS: u64 = 100;

/// What a caller filters by; an unknown member is refused.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Filter {
    from_block: Option<Box<RawValue>>,
    to_block: Option<Box<RawValue>>,
    from_address: Option<Vec<Address>>,
    to_address: Option<Vec<Address>>,
    mode: TraceFilterMode,
    after: Option<u64>,
    count: Option<u64>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            from_block: None,
            to_block: None,
            from_address: None,
            to_address: None,
            mode: TraceFilterMode::Union,
            after: None,
            count: None,
        }
    }
}

impl Filter {
    fn matcher(&self) -> TraceFilterMatcher {
        let addresses = |list: &Option<Vec<Address>>| list.clone().unwrap_or_default();
        TraceFilter::default()
            .from_address(addresses(&self.from_address))
            .to_address(addresses(&self.to_address))
            .mode(self.mode)
            .matcher()
    }
}

impl Shared {
    /// `trace_filter(filter)`: the calls and rewards of a range of blocks that match, in order,
    /// sent while they are found. Blocks are the earliest to the latest unless given.
    pub(crate) async fn parity_filter(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        // serde would read a struct from an array as well.
        if !args.required(0)?.get().starts_with('{') {
            return Err(invalid(0, "the filter is not an object"));
        }
        let filter: Filter = args.parsed(0)?.unwrap_or_default();
        args.end(1)?;
        let blocks = self.range(&filter)?;
        let matcher = filter.matcher();
        let mut skip = filter.after.unwrap_or(0);
        let mut left = filter.count.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(Answer::uncached("[]"));
        }
        let shared = Arc::clone(self);
        self.in_pieces(move |pieces| {
            let mut first = true;
            pieces.push(b"[");
            for hash in blocks {
                let block = shared.by_hash(hash)?;
                let all = shared.calls(&block, None, pieces.deadline(), |trace| {
                    if !matcher.matches(&trace.trace) {
                        return Ok(ControlFlow::Continue(()));
                    }
                    if skip > 0 {
                        skip -= 1;
                        return Ok(ControlFlow::Continue(()));
                    }
                    if !std::mem::take(&mut first) {
                        pieces.push(b",");
                    }
                    pieces.push(&json(&trace)?);
                    left -= 1;
                    Ok(if left == 0 { ControlFlow::Break(()) } else { pieces.go_on() })
                })?;
                if !all || pieces.go_on().is_break() {
                    break;
                }
            }
            pieces.push(b"]");
            Ok(())
        })
        .await
    }

    /// The blocks of a range, as they stand now.
    fn range(&self, filter: &Filter) -> Result<Vec<B256>, RpcError> {
        let from = self.number(filter.from_block.as_deref(), BlockParam::Earliest)?;
        let to = self.number(filter.to_block.as_deref(), BlockParam::Latest)?;
        if from > to {
            return Err(invalid(0, &format!("fromBlock {from} is after toBlock {to}")));
        }
        let given = (to - from).saturating_add(1);
        if given > MAX_FILTER_BLOCKS {
            return Err(RpcError::limit(
                format!("trace_filter spans {given} blocks, the limit is {MAX_FILTER_BLOCKS}"),
                "filterBlocks",
                MAX_FILTER_BLOCKS,
                given,
            ));
        }
        let hash = |number| {
            let hash = self.host.canonical_hash(number).map_err(faults::host)?;
            hash.ok_or_else(|| RpcError::server(format!("block #{number} not found")))
        };
        (from..=to).map(hash).collect()
    }

    fn number(&self, raw: Option<&RawValue>, default: BlockParam) -> Result<u64, RpcError> {
        let param = match raw.filter(|raw| raw.get() != "null") {
            Some(raw) => block_param::number(raw).map_err(|text| invalid(0, &text))?,
            None => default,
        };
        match param {
            BlockParam::Number(number) => Ok(number),
            BlockParam::Earliest => Ok(self.host.earliest().map_err(faults::host)?.number),
            BlockParam::Latest => Ok(self.host.head().map_err(faults::host)?.number),
            other => self.block(other).map(|block| block.number),
        }
    }
}

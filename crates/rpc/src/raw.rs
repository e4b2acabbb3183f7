//! `debug_getRaw*`: consensus encodings in hex (`internal/ethapi/api_debug.go`).

use crate::{
    args::Args, block_param::BlockParam, faults, rpc::Shared, run::Clock, service::Answer,
};
use alloy_consensus::TxReceipt;
use alloy_eips::Encodable2718;
use prestate_diff::{Driver, Execution, LookupInspector};
use prestate_host::RecoveredBlock;
use prestate_rpc_api::RpcError;
use prestate_wire::RopeBuilder;
use serde_json::value::RawValue;
use std::{ops::ControlFlow, sync::Arc, time::Duration};

type Params<'a> = Option<&'a RawValue>;

/// What a block parameter names.
enum Named {
    /// A block.
    Block(Arc<RecoveredBlock>),
    /// A number that is not there.
    NoNumber,
    /// A hash that is not there, with the error most methods give.
    NoHash(RpcError),
}

impl Shared {
    pub(crate) fn raw_block(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        self.raw(params, |block| alloy_rlp::encode(block.clone_block()))
    }

    pub(crate) fn raw_header(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        self.raw(params, |block| alloy_rlp::encode(block.header()))
    }

    fn raw(
        &self,
        params: Params<'_>,
        encode: impl FnOnce(&RecoveredBlock) -> Vec<u8>,
    ) -> Result<Answer, RpcError> {
        match self.named(params)? {
            Named::Block(block) => Ok(hex(&encode(&block))),
            // Geth answers an unknown number with nothing, not with an error.
            Named::NoNumber => Ok(Answer::uncached("\"0x\"")),
            Named::NoHash(fault) => Err(fault),
        }
    }

    /// The block named.
    fn named(&self, params: Params<'_>) -> Result<Named, RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::any(&args, 0)?;
        args.end(1)?;
        if let BlockParam::Number(number) = param
            && self.host.canonical_hash(number).map_err(faults::host)?.is_none()
        {
            return Ok(Named::NoNumber);
        }
        if let BlockParam::Hash { hash, .. } = param
            && self.host.block(hash).map_err(faults::host)?.is_none()
        {
            return Ok(Named::NoHash(RpcError::server(format!("block {hash} not found"))));
        }
        self.block(param).map(Named::Block)
    }

    pub(crate) async fn raw_receipts(
        self: &Arc<Self>,
        params: Params<'_>,
    ) -> Result<Answer, RpcError> {
        let block = match self.named(params)? {
            Named::Block(block) => block,
            Named::NoNumber => return Ok(Answer::uncached("null")),
            Named::NoHash(_) => return Ok(Answer::uncached("[]")),
        };
        if block.body().transactions.is_empty() {
            return Ok(Answer::uncached("[]"));
        }
        let shared = Arc::clone(self);
        self.execute(move |cancel| {
            let execution = Execution { spec: shared.host.spec(), block: &block };
            let parent = shared.host.state_after(block.parent_hash).map_err(faults::state)?;
            let mut clock = Clock::new(Duration::MAX, cancel);
            let finished = Driver::new(execution, parent)
                .run(LookupInspector::default(), false, &mut clock, |_| {
                    Ok(ControlFlow::Continue(()))
                })
                .map_err(faults::replay)?;
            let mut out = RopeBuilder::new();
            for (index, receipt) in finished.receipts.iter().enumerate() {
                out.push(if index == 0 { "[\"" } else { ",\"" });
                out.push_hex(&receipt.with_bloom_ref().encoded_2718());
                out.push("\"");
            }
            out.push("]");
            Ok(Answer::uncached(out.finish()))
        })
        .await
    }

    pub(crate) fn raw_transaction(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        args.end(1)?;
        let Some(place) = self.host.transaction(hash).map_err(faults::host)? else {
            return Ok(Answer::uncached("\"0x\""));
        };
        let block = self.by_hash(place.block.hash)?;
        let tx = block.body().transactions.get(place.index as usize);
        Ok(hex(&tx.map(Encodable2718::encoded_2718).unwrap_or_default()))
    }
}

fn hex(bytes: &[u8]) -> Answer {
    let mut out = RopeBuilder::with_capacity(bytes.len() * 2 + 4);
    out.push("\"");
    out.push_hex(bytes);
    out.push("\"");
    Answer::uncached(out.finish())
}

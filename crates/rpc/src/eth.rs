//! What a client asks of any node before it asks for diffs: `eth_chainId`, `eth_blockNumber`,
//! blocks, `net_version`, `web3_clientVersion`.

use crate::{
    args::Args,
    block_param::BlockParam,
    faults,
    rpc::Shared,
    service::{Answer, Outcome, Reply, Timing},
};
use alloy_consensus::Sealed;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{Block, BlockTransactionsKind, Header, Transaction};
use prestate_host::RecoveredBlock;
use prestate_rpc_api::RpcError;
use prestate_store::ReplyKey;
use prestate_wire::Rope;
use serde_json::value::RawValue;
use std::convert::Infallible;

type Params<'a> = Option<&'a RawValue>;

impl Shared {
    pub(crate) fn chain_id(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        Ok(Answer::uncached(format!("\"0x{:x}\"", self.host.spec().chain_id())))
    }

    pub(crate) fn net_version(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        Ok(Answer::uncached(format!("\"{}\"", self.host.spec().chain_id())))
    }

    pub(crate) fn client_version(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        let version = env!("CARGO_PKG_VERSION");
        Ok(Answer::uncached(format!("\"prestate/v{version}/{}\"", self.host.info().kind)))
    }

    pub(crate) fn block_number(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        let head = self.host.head().map_err(faults::host)?;
        Ok(Answer::uncached(format!("\"0x{:x}\"", head.number)))
    }

    pub(crate) async fn block_by_number(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let param = BlockParam::number(&args, 0)?;
        args.required(1)?;
        let full = args.flag(1)?;
        args.end(2)?;
        if let BlockParam::Number(number) = param
            && self.host.canonical_hash(number).map_err(faults::host)?.is_none()
        {
            return Ok(Answer::uncached("null"));
        }
        let hash = self.locate(param)?.hash;
        self.kept(&key(hash, full), || async { block_json(&*self.by_hash(hash)?, full) }).await
    }

    pub(crate) async fn block_by_hash(&self, params: Params<'_>) -> Result<Answer, RpcError> {
        let args = Args::cut(params)?;
        let hash = args.hash(0)?;
        args.required(1)?;
        let full = args.flag(1)?;
        args.end(2)?;
        let key = key(hash, full);
        // A hit does not load the block.
        if let Some(rope) = self.cache.look(&key) {
            let reply = Reply::Whole(rope);
            return Ok(Answer { reply, outcome: Outcome::Hit, timing: Timing::default() });
        }
        match self.host.block(hash).map_err(faults::host)? {
            Some(block) => self.kept(&key, || async { block_json(&block, full) }).await,
            None => Ok(Answer::uncached("null")),
        }
    }
}

fn key(block_hash: B256, full: bool) -> ReplyKey {
    let view = if full { "eth block, full" } else { "eth block" };
    ReplyKey { block_hash, view, options: "".into() }
}

/// A block as `eth_getBlockBy*` shows it. `uncles` lists the uncles whose headers the host holds.
fn block_json(block: &RecoveredBlock, full: bool) -> Result<Rope, RpcError> {
    let rpc: Result<Block<Transaction<_>>, Infallible> = block.clone_into_rpc_block(
        BlockTransactionsKind::from(full),
        |tx, info| Ok(Transaction::from_transaction(tx, info)),
        |header, rlp_bytes| {
            let sealed = Sealed::new_unchecked(header.clone_header(), header.hash());
            Ok(Header::from_consensus(sealed, None, Some(U256::from(rlp_bytes))))
        },
    );
    let Ok(rpc) = rpc;
    let json = serde_json::to_string(&rpc).map_err(|error| faults::logged(&error))?;
    Ok(json.into())
}

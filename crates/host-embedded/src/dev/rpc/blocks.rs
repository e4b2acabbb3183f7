//! Blocks and the transactions in them.

use super::{Answer, DevRpc, fault};
use crate::dev::build::Tx;
use alloy_consensus::{Sealed, transaction::Recovered};
use alloy_eips::{BlockNumberOrTag, eip2718::Encodable2718};
use alloy_primitives::{B256, Bytes, U64, U256};
use alloy_rpc_types_eth::{Block, BlockTransactionsKind, Header, Transaction, TransactionInfo};
use jsonrpsee::types::Params;
use prestate_host::{Host, RecoveredBlock};
use std::{convert::Infallible, sync::Arc};

pub(super) type RpcTransaction = Transaction<Tx>;
type RpcBlock = Block<RpcTransaction>;

impl DevRpc {
    fn named(&self, tag: BlockNumberOrTag) -> Answer<Option<Arc<RecoveredBlock>>> {
        match self.number(tag)? {
            Some(number) => self.canonical(number),
            None => Ok(Some(self.pending()?.block)),
        }
    }

    pub(super) fn block_by_number(&self, params: &Params<'_>) -> Answer<Option<serde_json::Value>> {
        let mut params = params.sequence();
        let tag = params.next()?;
        let full = params.optional_next()?.unwrap_or(false);
        let Some(block) = self.named(tag)? else { return Ok(None) };
        let mut json = json(&rpc_block(&block, full))?;
        if tag.is_pending() {
            // What does not exist yet has no hash (`internal/ethapi/api.go`, `GetBlockByNumber`).
            for field in ["hash", "nonce", "miner"] {
                json[field] = serde_json::Value::Null;
            }
        }
        Ok(Some(json))
    }

    pub(super) fn block_by_hash(&self, params: &Params<'_>) -> Answer<Option<RpcBlock>> {
        let mut params = params.sequence();
        let hash = params.next()?;
        let full = params.optional_next()?.unwrap_or(false);
        Ok(self.by_hash(hash)?.map(|block| rpc_block(&block, full)))
    }

    pub(super) fn transaction_count_by_hash(&self, params: &Params<'_>) -> Answer<Option<U64>> {
        Ok(self.by_hash(params.one()?)?.map(|block| count(&block)))
    }

    pub(super) fn transaction_count_by_number(&self, params: &Params<'_>) -> Answer<Option<U64>> {
        Ok(self.named(params.one()?)?.map(|block| count(&block)))
    }

    pub(super) fn uncle_count_by_hash(&self, params: &Params<'_>) -> Answer<Option<U64>> {
        Ok(self.by_hash(params.one()?)?.map(|_| U64::ZERO))
    }

    pub(super) fn uncle_count_by_number(&self, params: &Params<'_>) -> Answer<Option<U64>> {
        Ok(self.named(params.one()?)?.map(|_| U64::ZERO))
    }

    pub(super) fn transaction(&self, params: &Params<'_>) -> Answer<Option<RpcTransaction>> {
        let hash: B256 = params.one()?;
        if let Some((block, index)) = self.place(hash)? {
            return Ok(transaction_at(&block, index));
        }
        let waiting = self.chain.with_pool(|pool| pool.get(&hash));
        Ok(waiting.map(|tx| pending_transaction(&tx)))
    }

    pub(super) fn raw_transaction(&self, params: &Params<'_>) -> Answer<Option<Bytes>> {
        let hash: B256 = params.one()?;
        if let Some((block, index)) = self.place(hash)? {
            let tx = block.body().transactions.get(index);
            return Ok(tx.map(|tx| tx.encoded_2718().into()));
        }
        let waiting = self.chain.with_pool(|pool| pool.get(&hash));
        Ok(waiting.map(|tx| tx.inner().encoded_2718().into()))
    }

    pub(super) fn transaction_by_block_hash(
        &self,
        params: &Params<'_>,
    ) -> Answer<Option<RpcTransaction>> {
        let (hash, index): (B256, U64) = params.parse()?;
        let block = self.by_hash(hash)?;
        Ok(block.and_then(|block| transaction_at(&block, index.to())))
    }

    pub(super) fn transaction_by_block_number(
        &self,
        params: &Params<'_>,
    ) -> Answer<Option<RpcTransaction>> {
        let (tag, index): (BlockNumberOrTag, U64) = params.parse()?;
        let block = self.named(tag)?;
        Ok(block.and_then(|block| transaction_at(&block, index.to())))
    }

    /// The block of a transaction and its index there.
    pub(super) fn place(&self, hash: B256) -> Answer<Option<(Arc<RecoveredBlock>, usize)>> {
        let place =
            self.chain.transaction(hash).map_err(|error| fault::server(error.to_string()))?;
        let Some(place) = place else { return Ok(None) };
        Ok(self.by_hash(place.block.hash)?.map(|block| (block, place.index as usize)))
    }
}

fn count(block: &RecoveredBlock) -> U64 {
    U64::from(block.body().transactions.len())
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Answer<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| {
        tracing::error!(%error, "an answer is no JSON");
        jsonrpsee::types::ErrorObject::owned(-32603, "internal error", None::<()>)
    })
}

/// A block as `eth_getBlockBy*` shows it.
pub(super) fn rpc_block(block: &RecoveredBlock, full: bool) -> RpcBlock {
    let rpc: Result<RpcBlock, Infallible> = block.clone_into_rpc_block(
        BlockTransactionsKind::from(full),
        |tx, info| Ok(Transaction::from_transaction(tx, info)),
        |header, bytes| {
            let sealed = Sealed::new_unchecked(header.clone_header(), header.hash());
            Ok(Header::from_consensus(sealed, None, Some(U256::from(bytes))))
        },
    );
    let Ok(rpc) = rpc;
    rpc
}

/// A header as the `newHeads` subscription shows it.
pub(super) fn rpc_header(block: &RecoveredBlock) -> Header {
    let sealed = Sealed::new_unchecked(block.header().clone(), block.hash());
    Header::from_consensus(sealed, None, None)
}

pub(super) fn transaction_at(block: &RecoveredBlock, index: usize) -> Option<RpcTransaction> {
    let tx = block.transactions_recovered().nth(index)?.cloned();
    let info = TransactionInfo {
        hash: Some(*tx.tx_hash()),
        index: Some(index as u64),
        block_hash: Some(block.hash()),
        block_number: Some(block.number),
        base_fee: block.base_fee_per_gas,
        block_timestamp: Some(block.timestamp),
    };
    Some(Transaction::from_transaction(tx, info))
}

/// A transaction that waits: without a block.
pub(super) fn pending_transaction(tx: &Recovered<Tx>) -> RpcTransaction {
    Transaction::from_transaction(
        tx.clone(),
        TransactionInfo { hash: Some(*tx.tx_hash()), ..TransactionInfo::default() },
    )
}

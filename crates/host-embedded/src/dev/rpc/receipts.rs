//! Receipts.

use super::{Answer, DevRpc};
use alloy_consensus::{
    Receipt as PlainReceipt, ReceiptEnvelope, ReceiptWithBloom, Transaction, TxReceipt, TxType,
};
use alloy_eips::BlockId;
use alloy_primitives::B256;
use alloy_rpc_types_eth::{Log, TransactionReceipt};
use jsonrpsee::types::Params;
use prestate_host::{Host, Receipt, RecoveredBlock};
use std::sync::Arc;

impl DevRpc {
    pub(super) fn receipt(&self, params: &Params<'_>) -> Answer<Option<TransactionReceipt>> {
        let hash: B256 = params.one()?;
        let Some((block, index)) = self.place(hash)? else { return Ok(None) };
        let receipts = self.receipts_of(&block);
        Ok(self.rpc_receipt(&block, &receipts, index))
    }

    pub(super) fn block_receipts(
        &self,
        params: &Params<'_>,
    ) -> Answer<Option<Vec<TransactionReceipt>>> {
        let id: BlockId = params.one()?;
        let (block, receipts) = match id {
            BlockId::Number(tag) => match self.number(tag)? {
                Some(number) => {
                    let Some(block) = self.canonical(number)? else { return Ok(None) };
                    let receipts = self.receipts_of(&block);
                    (block, receipts)
                }
                None => {
                    let pending = self.pending()?;
                    (pending.block, pending.receipts)
                }
            },
            BlockId::Hash(named) => {
                let Some(block) = self.by_hash(named.block_hash)? else { return Ok(None) };
                let receipts = self.receipts_of(&block);
                (block, receipts)
            }
        };
        let mut all = Vec::with_capacity(receipts.len());
        let mut logs_before = 0;
        for index in 0..receipts.len() {
            all.extend(self.build(&block, &receipts, index, logs_before));
            logs_before += receipts[index].logs.len() as u64;
        }
        Ok(Some(all))
    }

    pub(super) fn receipts_of(&self, block: &RecoveredBlock) -> Arc<Vec<Receipt>> {
        self.chain.receipts(block.hash()).unwrap_or_default()
    }

    fn rpc_receipt(
        &self,
        block: &RecoveredBlock,
        receipts: &[Receipt],
        index: usize,
    ) -> Option<TransactionReceipt> {
        let before = receipts.get(..index)?;
        let logs_before = before.iter().map(|receipt| receipt.logs.len() as u64).sum();
        self.build(block, receipts, index, logs_before)
    }

    fn build(
        &self,
        block: &RecoveredBlock,
        receipts: &[Receipt],
        index: usize,
        logs_before: u64,
    ) -> Option<TransactionReceipt> {
        let receipt = receipts.get(index)?;
        let tx = block.transactions_recovered().nth(index)?;
        let used_before = match index.checked_sub(1) {
            Some(before) => receipts.get(before)?.cumulative_gas_used,
            None => 0,
        };
        let from = tx.signer();
        let blob_gas_used = tx.blob_gas_used();
        let price = || {
            let params = self.chain.spec().blob_params_at(block.timestamp)?;
            Some(params.calc_blob_fee(block.excess_blob_gas.unwrap_or_default()))
        };
        Some(TransactionReceipt {
            inner: envelope(receipt, block_logs(block, index, receipt, logs_before)),
            transaction_hash: *tx.tx_hash(),
            transaction_index: Some(index as u64),
            block_hash: Some(block.hash()),
            block_number: Some(block.number),
            gas_used: receipt.cumulative_gas_used - used_before,
            effective_gas_price: tx.effective_gas_price(block.base_fee_per_gas),
            blob_gas_used,
            blob_gas_price: blob_gas_used.and_then(|_| price()),
            from,
            to: tx.to(),
            contract_address: tx.is_create().then(|| from.create(tx.nonce())),
        })
    }
}

/// The logs of one transaction, with their places.
pub(super) fn block_logs(
    block: &RecoveredBlock,
    index: usize,
    receipt: &Receipt,
    logs_before: u64,
) -> Vec<Log> {
    let transaction_hash = block.body().transactions.get(index).map(|tx| *tx.tx_hash());
    (logs_before..)
        .zip(&receipt.logs)
        .map(|(log_index, log)| Log {
            inner: log.clone(),
            block_hash: Some(block.hash()),
            block_number: Some(block.number),
            block_timestamp: Some(block.timestamp),
            transaction_hash,
            transaction_index: Some(index as u64),
            log_index: Some(log_index),
            removed: false,
        })
        .collect()
}

fn envelope(receipt: &Receipt, logs: Vec<Log>) -> ReceiptEnvelope<Log> {
    let logs_bloom = receipt.bloom();
    let with_bloom = ReceiptWithBloom {
        receipt: PlainReceipt {
            status: receipt.success.into(),
            cumulative_gas_used: receipt.cumulative_gas_used,
            logs,
        },
        logs_bloom,
    };
    match receipt.tx_type {
        TxType::Legacy => ReceiptEnvelope::Legacy(with_bloom),
        TxType::Eip2930 => ReceiptEnvelope::Eip2930(with_bloom),
        TxType::Eip1559 => ReceiptEnvelope::Eip1559(with_bloom),
        TxType::Eip4844 => ReceiptEnvelope::Eip4844(with_bloom),
        TxType::Eip7702 => ReceiptEnvelope::Eip7702(with_bloom),
    }
}

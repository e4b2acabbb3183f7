use crate::{ChainSpec, RecoveredBlock, block::summary};
use alloy_consensus::{EthereumReceipt, EthereumTxEnvelope, TxEip4844, TxReceipt, TxType, proofs};
use alloy_eips::eip7685::Requests;
use alloy_evm::{
    Evm,
    eth::receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
};
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Bloom, keccak256};
use prestate_types::BlockRef;

/// A receipt as reth holds it: the bloom is computed when asked for.
pub type Receipt = EthereumReceipt;

/// Builds [`Receipt`]s in a block executor.
#[derive(Debug, Clone, Copy)]
pub struct Receipts;

impl ReceiptBuilder for Receipts {
    type Transaction = EthereumTxEnvelope<TxEip4844>;
    type Receipt = Receipt;

    fn build_receipt<E: Evm>(&self, ctx: ReceiptBuilderCtx<'_, TxType, E>) -> Receipt {
        Receipt {
            tx_type: ctx.tx_type,
            success: ctx.result.is_success(),
            cumulative_gas_used: ctx.cumulative_gas_used,
            logs: ctx.result.into_logs(),
        }
    }
}

/// What executing a block gave, as far as its header states it.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// Receipts in order.
    pub receipts: &'a [Receipt],
    /// Gas used by the transactions.
    pub gas_used: u64,
    /// Blob gas used; zero before Cancun.
    pub blob_gas_used: u64,
    /// Requests of EIP-7685; empty before Prague.
    pub requests: &'a Requests,
}

/// A field of the header that is not what executing the block gave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("block {block}: {field} is {computed}, the header says {stated}")]
pub struct HeaderMismatch {
    /// The block.
    pub block: BlockRef,
    /// Which field.
    pub field: &'static str,
    /// As executed.
    pub computed: String,
    /// As stated.
    pub stated: String,
}

/// Holds an outcome against the header: gas used, logs bloom, receipts root (from Byzantium on,
/// before that receipts hold state roots), blob gas used (Cancun), requests hash (Prague).
pub fn check_header(
    spec: &ChainSpec,
    block: &RecoveredBlock,
    outcome: Outcome<'_>,
) -> Result<(), HeaderMismatch> {
    let at = summary(block).block;
    same(at, "gas used", outcome.gas_used, block.gas_used)?;
    let with_bloom: Vec<_> = outcome.receipts.iter().map(TxReceipt::with_bloom_ref).collect();
    let bloom = with_bloom.iter().fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.logs_bloom);
    // A bloom is too long to read; its hash tells as much.
    same(at, "logs bloom (hashed)", keccak256(bloom), keccak256(block.logs_bloom))?;
    if spec.is_byzantium_active_at_block(at.number) {
        let root = proofs::calculate_receipt_root(&with_bloom);
        same(at, "receipts root", root, block.receipts_root)?;
    }
    if let Some(stated) = block.blob_gas_used {
        same(at, "blob gas used", outcome.blob_gas_used, stated)?;
    }
    if let Some(stated) = block.requests_hash {
        same(at, "requests hash", outcome.requests.requests_hash(), stated)?;
    }
    Ok(())
}

/// Compares one field.
pub fn same<T: PartialEq + ToString>(
    block: BlockRef,
    field: &'static str,
    computed: T,
    stated: T,
) -> Result<(), HeaderMismatch> {
    if computed == stated {
        return Ok(());
    }
    let (computed, stated) = (computed.to_string(), stated.to_string());
    Err(HeaderMismatch { block, field, computed, stated })
}

use alloy_consensus::{EthereumReceipt, EthereumTxEnvelope, TxEip4844, TxReceipt, TxType, proofs};
use alloy_evm::{
    Evm,
    eth::receipt_builder::{ReceiptBuilder, ReceiptBuilderCtx},
};
use alloy_primitives::B256;

/// A receipt as reth holds it: the bloom is computed when asked for.
pub type Receipt = EthereumReceipt;

/// Builds [`Receipt`]s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receipts;

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

/// The root of the receipts trie as the header holds it from Byzantium on (EIP-658).
pub fn receipts_root(receipts: &[Receipt]) -> B256 {
    let with_bloom: Vec<_> = receipts.iter().map(TxReceipt::with_bloom_ref).collect();
    proofs::calculate_receipt_root(&with_bloom)
}

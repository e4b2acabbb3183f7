use crate::{ChainSpec, RecoveredBlock};
use alloy_consensus::BlockHeader;
use alloy_evm::{EvmEnv, eth::EthBlockExecutionCtx};
use std::borrow::Cow;

/// Rules and block environment of a header.
pub fn evm_env(spec: &ChainSpec, header: &impl BlockHeader) -> EvmEnv {
    let blobs = spec.blob_params_at(header.timestamp());
    EvmEnv::for_eth_block(header, spec, spec.chain_id(), blobs)
}

/// What a block executor is told of a block beside its environment.
pub fn execution_context(block: &RecoveredBlock) -> EthBlockExecutionCtx<'_> {
    let body = block.body();
    EthBlockExecutionCtx {
        parent_hash: block.parent_hash,
        parent_beacon_block_root: block.parent_beacon_block_root,
        ommers: &body.ommers,
        withdrawals: body.withdrawals.as_ref().map(|w| Cow::Borrowed(w.as_slice())),
        extra_data: block.extra_data.clone(),
        tx_count_hint: Some(body.transactions.len()),
        slot_number: BlockHeader::slot_number(block.header()),
    }
}

//! What transactions should offer.

use super::{Answer, DevRpc, fault};
use crate::dev::build::next_base_fee;
use alloy_consensus::{BlockHeader, Transaction};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::FeeHistory;
use jsonrpsee::types::Params;
use prestate_host::{Host, RecoveredBlock};
use serde_json::Value;

/// The tip that is suggested, in wei: 1 gwei, as Geth does on a quiet chain at most.
const SUGGESTED_TIP_WEI: u64 = 1_000_000_000;
/// Blocks of one fee history (Geth `maxBlockFetchers` and `MaxHeaderHistory`).
const MAX_HISTORY: u64 = 1024;
/// Percentiles of one fee history (Geth `maxQueryLimit`).
const MAX_PERCENTILES: usize = 100;

impl DevRpc {
    pub(super) fn gas_price(&self, _params: &Params<'_>) -> Answer<U256> {
        let head = self.chain.head_block().map_err(fault::state)?;
        Ok(U256::from(next_base_fee(head.header())) + U256::from(SUGGESTED_TIP_WEI))
    }

    pub(super) fn max_priority_fee(&self, _params: &Params<'_>) -> Answer<U64> {
        Ok(U64::from(SUGGESTED_TIP_WEI))
    }

    pub(super) fn blob_base_fee(&self, _params: &Params<'_>) -> Answer<U256> {
        let head = self.chain.head_block().map_err(fault::state)?;
        Ok(U256::from(self.next_blob_fee(&head)))
    }

    pub(super) fn next_blob_fee(&self, block: &RecoveredBlock) -> u128 {
        let params = self.chain.spec().blob_params_at(block.timestamp + 1);
        params.and_then(|params| block.header().next_block_blob_fee(params)).unwrap_or(1)
    }

    pub(super) fn fee_history(&self, params: &Params<'_>) -> Answer<FeeHistory> {
        let mut params = params.sequence();
        let count = count(&params.next::<Value>()?)?.min(MAX_HISTORY);
        let newest: BlockNumberOrTag = params.next()?;
        let percentiles: Vec<f64> = params.optional_next()?.unwrap_or_default();
        if percentiles.len() > MAX_PERCENTILES {
            return Err(fault::limit(
                "percentiles",
                MAX_PERCENTILES as u64,
                percentiles.len() as u64,
            ));
        }
        let mut last = -1.0;
        for (at, percentile) in percentiles.iter().enumerate() {
            if !(0.0..=100.0).contains(percentile) {
                return Err(fault::server(format!("invalid reward percentile: {percentile:.6}")));
            }
            if *percentile <= last {
                let before = at.saturating_sub(1);
                return Err(fault::server(format!(
                    "invalid reward percentile: #{before}:{last:.6} >= #{at}:{percentile:.6}"
                )));
            }
            last = *percentile;
        }
        let head = self.chain.head_block().map_err(fault::state)?.number;
        // The pending block counts as the newest.
        let newest = self.number(newest)?.unwrap_or(head);
        if newest > head {
            return Err(fault::server(format!(
                "request beyond head block: requested {newest}, head {head}"
            )));
        }
        let count = count.min(newest + 1);
        let mut history = FeeHistory {
            oldest_block: newest + 1 - count,
            reward: (!percentiles.is_empty()).then(Vec::new),
            ..FeeHistory::default()
        };
        let mut next = None;
        for number in newest + 1 - count..=newest {
            let Some(block) = self.canonical(number)? else { continue };
            self.add(&mut history, &block, &percentiles);
            next = Some(block);
        }
        if let Some(block) = next {
            history.base_fee_per_gas.push(next_base_fee(block.header()).into());
            history.base_fee_per_blob_gas.push(self.next_blob_fee(&block));
        }
        Ok(history)
    }

    fn add(&self, history: &mut FeeHistory, block: &RecoveredBlock, percentiles: &[f64]) {
        let base_fee = block.base_fee_per_gas.unwrap_or_default();
        history.base_fee_per_gas.push(base_fee.into());
        history.gas_used_ratio.push(block.gas_used as f64 / block.gas_limit as f64);
        let blobs = self.chain.spec().blob_params_at(block.timestamp);
        let excess = block.excess_blob_gas().unwrap_or_default();
        history.base_fee_per_blob_gas.push(blobs.map_or(0, |blobs| blobs.calc_blob_fee(excess)));
        let used = block.blob_gas_used.unwrap_or_default() as f64;
        let ratio = blobs.map_or(0.0, |blobs| used / blobs.max_blob_gas_per_block() as f64);
        history.blob_gas_used_ratio.push(ratio);
        if let Some(rewards) = &mut history.reward {
            rewards.push(self.rewards(block, base_fee, percentiles));
        }
    }

    /// Tips at percentiles of the gas used (`eth/gasprice/feehistory.go`).
    fn rewards(&self, block: &RecoveredBlock, base_fee: u64, percentiles: &[f64]) -> Vec<u128> {
        let receipts = self.receipts_of(block);
        let mut before = 0;
        let mut tips: Vec<(u128, u64)> = block
            .body()
            .transactions
            .iter()
            .zip(receipts.iter())
            .map(|(tx, receipt)| {
                let gas = receipt.cumulative_gas_used - before;
                before = receipt.cumulative_gas_used;
                (tx.effective_tip_per_gas(base_fee).unwrap_or_default(), gas)
            })
            .collect();
        tips.sort_unstable();
        let mut next = tips.iter();
        let mut at = next.next();
        let mut sum = at.map_or(0, |(_, gas)| *gas);
        percentiles
            .iter()
            .map(|percentile| {
                let threshold = (block.gas_used as f64 * percentile / 100.0) as u64;
                while sum < threshold
                    && let Some(later) = next.next()
                {
                    at = Some(later);
                    sum += later.1;
                }
                at.map_or(0, |(tip, _)| *tip)
            })
            .collect()
    }
}

/// A hex quantity or a JSON number.
fn count(value: &Value) -> Answer<u64> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
        _ => None,
    };
    number.ok_or_else(|| fault::invalid("blockCount is no number"))
}

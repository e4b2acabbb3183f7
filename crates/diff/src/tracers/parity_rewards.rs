use crate::{Execution, ReplayError};
use alloy_consensus::{BlockHeader, EMPTY_OMMER_ROOT_HASH};
use alloy_evm::block::calc::{base_block_reward, block_reward, ommer_reward};
use alloy_primitives::{Address, U256};
use alloy_rpc_types_trace::parity::{
    Action, LocalizedTransactionTrace, RewardAction, RewardType, TransactionTrace,
};
use prestate_host::summary;

/// The rewards of a block as `trace_block` and `trace_filter` show them after its transactions:
/// the miner's with its share for uncles, then each uncle's. None since Paris.
///
/// # Errors
/// [`ReplayError::MissingUncles`] if the block has uncles whose headers are not in the data.
pub fn reward_traces(
    execution: Execution<'_>,
) -> Result<Vec<LocalizedTransactionTrace>, ReplayError> {
    let Execution { spec, block } = execution;
    let (header, ommers) = (block.header(), &block.body().ommers);
    let Some(base) = base_block_reward(spec, header.number()) else { return Ok(Vec::new()) };
    let block_ref = summary(block).block;
    if ommers.is_empty() && header.ommers_hash() != EMPTY_OMMER_ROOT_HASH {
        return Err(ReplayError::MissingUncles(block_ref));
    }
    let reward = |author: Address, reward_type, wei: u128| LocalizedTransactionTrace {
        trace: TransactionTrace {
            action: Action::Reward(RewardAction { author, reward_type, value: U256::from(wei) }),
            error: None,
            result: None,
            subtraces: 0,
            trace_address: Vec::new(),
        },
        block_hash: Some(block_ref.hash),
        block_number: Some(header.number()),
        transaction_hash: None,
        transaction_position: None,
    };
    let miner = block_reward(base, ommers.len());
    let mut traces = vec![reward(header.beneficiary(), RewardType::Block, miner)];
    traces.extend(ommers.iter().map(|ommer| {
        let wei = ommer_reward(base, header.number(), ommer.number);
        reward(ommer.beneficiary, RewardType::Uncle, wei)
    }));
    Ok(traces)
}

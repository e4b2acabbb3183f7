use crate::host::RethProvider;
use alloy_primitives::{Address, B256, U256};
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountInfo, BlockRef, KECCAK_EMPTY};
use reth_ethereum::storage::StateProviderBox;
use reth_ethereum::storage::errors::provider::ProviderError;
use reth_prune_types::PruneSegment;
use revm::bytecode::Bytecode;
use std::fmt;

/// The state after one block of the node. Holds a transaction of the node's database.
pub(crate) struct RethState<P> {
    state: StateProviderBox,
    at: BlockRef,
    provider: P,
}

impl<P> fmt::Debug for RethState<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RethState").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<P: RethProvider> RethState<P> {
    pub(crate) fn open(provider: &P, at: BlockRef) -> Result<Self, StateError> {
        let state = provider.history_by_block_hash(at.hash);
        let state = state.map_err(|error| state_error(provider, at, error))?;
        Ok(Self { state, at, provider: provider.clone() })
    }

    fn failed(&self, error: ProviderError) -> StateError {
        state_error(&self.provider, self.at, error)
    }
}

impl<P: RethProvider> StateReader for RethState<P> {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let account = self.state.basic_account(&address).map_err(|error| self.failed(error))?;
        Ok(account.map(|account| AccountInfo {
            nonce: account.nonce,
            balance: account.balance,
            code_hash: account.bytecode_hash.unwrap_or(KECCAK_EMPTY),
        }))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        let value = self.state.storage(address, slot).map_err(|error| self.failed(error))?;
        Ok(value.unwrap_or(U256::ZERO).into())
    }

    /// In the order of the keys: neighbours lie on the same pages.
    fn storage_many(&self, address: Address, slots: &[B256]) -> Result<Vec<B256>, StateError> {
        let mut order: Vec<_> = (0..slots.len()).collect();
        order.sort_unstable_by_key(|index| slots[*index]);
        let mut values = vec![B256::ZERO; slots.len()];
        for index in order {
            values[index] = self.storage(address, slots[index])?;
        }
        Ok(values)
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        let code = self.state.bytecode_by_hash(&hash).map_err(|error| self.failed(error))?;
        code.map(|code| code.0).ok_or(StateError::MissingCode(hash))
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        let hash = self.state.block_hash(number).map_err(|error| self.failed(error))?;
        hash.ok_or(StateError::MissingBlockHash(number))
    }
}

/// An error of opening or reading a state. The node finds out about pruning at the first read.
fn state_error<P: RethProvider>(provider: &P, at: BlockRef, error: ProviderError) -> StateError {
    match error {
        ProviderError::BlockHashNotFound(_)
        | ProviderError::UnknownBlockHash(_)
        | ProviderError::StateForHashNotFound(_)
        | ProviderError::HeaderNotFound(_) => StateError::UnknownBlock(at.hash),
        ProviderError::StateAtBlockPruned(_) | ProviderError::BlockExpired { .. } => {
            StateError::Pruned { requested: at.number, earliest: earliest_state(provider, at) }
        }
        ProviderError::BlockNotExecuted { .. } => StateError::NotHeld(at),
        other => StateError::Backend(other.to_string()),
    }
}

/// The lowest block whose state the node can still give, as its pruner noted.
fn earliest_state<P: RethProvider>(provider: &P, refused: BlockRef) -> u64 {
    let histories = [PruneSegment::AccountHistory, PruneSegment::StorageHistory];
    let pruned = histories
        .into_iter()
        .filter_map(|segment| provider.get_prune_checkpoint(segment).ok().flatten()?.block_number);
    // The state after the highest block pruned is what the next block's changes start from.
    pruned.max().unwrap_or(0).max(refused.number + 1)
}

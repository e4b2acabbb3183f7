use crate::{
    Execution, ReplayError,
    driver::{executor, system_error, tx_error},
};
use alloy_evm::block::BlockExecutor;
use alloy_primitives::{Address, B256};
use prestate_host::{ReaderDb, StateError, StateReader, apply_pre_block, summary};
use prestate_types::AccountInfo;
use revm::{
    bytecode::Bytecode,
    database::{CacheState, State},
    inspector::NoOpInspector,
};

/// Why there is no state before a transaction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// The block has fewer transactions.
    #[error("transaction index {index} out of range for block {block}")]
    OutOfRange {
        /// The index asked for.
        index: u64,
        /// The block's hash.
        block: B256,
    },
    /// Running the transactions before it failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A place inside a block.
#[derive(Debug)]
pub struct Before {
    /// The state there.
    pub state: Box<dyn StateReader>,
    /// Logs that the block's transactions have written so far.
    pub logs: u64,
}

/// The state before a transaction of a block: after the system calls and the transactions before
/// it. Of a block without transactions there is the one after its system calls.
///
/// `go_on` is asked between transactions.
///
/// # Errors
/// See [`PrefixError`]; [`ReplayError::Stopped`] when told to stop.
pub fn state_before(
    execution: Execution<'_>,
    parent_state: Box<dyn StateReader>,
    index: u64,
    go_on: impl Fn() -> bool,
) -> Result<Before, PrefixError> {
    let Execution { spec, block } = execution;
    let block_ref = summary(block).block;
    let count = block.body().transactions.len() as u64;
    if index >= count && !(index == 0 && count == 0) {
        return Err(PrefixError::OutOfRange { index, block: block.hash() });
    }
    let mut state =
        State::builder().with_database(ReaderDb(parent_state)).with_bundle_update().build();
    let mut executor = executor(spec, block, &mut state, NoOpInspector, false);
    apply_pre_block(spec, block, &mut executor).map_err(|error| system_error(block_ref, error))?;
    for (at, tx) in block.transactions_recovered().take(index as usize).enumerate() {
        if !go_on() {
            return Err(ReplayError::Stopped.into());
        }
        let hash = *tx.tx_hash();
        executor
            .execute_transaction(tx)
            .map_err(|error| tx_error(block_ref, at as u64, hash, error))?;
    }
    let logs = executor.receipts().iter().map(|receipt| receipt.logs.len() as u64).sum();
    drop(executor);
    let state = Box::new(Midway { cache: state.cache, parent: state.database.0 });
    Ok(Before { state, logs })
}

/// A state inside a block.
#[derive(Debug)]
struct Midway {
    cache: CacheState,
    parent: Box<dyn StateReader>,
}

impl Midway {
    /// A code that the block gave an account.
    fn made(&self, hash: B256) -> Option<Bytecode> {
        let accounts = self.cache.accounts.values().filter_map(|cached| cached.account.as_ref());
        let mut given = accounts.filter(|account| account.info.code_hash == hash);
        given.find_map(|account| account.info.code.clone().filter(|code| !code.is_empty()))
    }
}

impl StateReader for Midway {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self.cache.accounts.get(&address) {
            Some(cached) => {
                Ok(cached.account.as_ref().map(|account| crate::changes::info(&account.info)))
            }
            None => self.parent.account(address),
        }
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        let Some(cached) = self.cache.accounts.get(&address) else {
            return self.parent.storage(address, slot);
        };
        let Some(account) = &cached.account else { return Ok(B256::ZERO) };
        match account.storage.get(&slot.into()) {
            Some(value) => Ok((*value).into()),
            None if cached.status.is_storage_known() => Ok(B256::ZERO),
            None => self.parent.storage(address, slot),
        }
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        match self.cache.contracts.get(&hash) {
            Some(code) => Ok(code.clone()),
            // Delegations made in the block stand with their accounts only.
            None => match self.parent.code(hash) {
                Err(StateError::MissingCode(_)) => {
                    self.made(hash).ok_or(StateError::MissingCode(hash))
                }
                found => found,
            },
        }
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        self.parent.block_hash(number)
    }
}

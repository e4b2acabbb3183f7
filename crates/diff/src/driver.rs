//! Runs a block transaction by transaction and hands each result out before it is committed.

use crate::ReplayError;
use alloy_eips::eip7685::Requests;
use alloy_evm::{
    Evm,
    block::{BlockExecutionError, BlockExecutor, InternalBlockExecutionError, TxResult},
    eth::{EthBlockExecutor, EthEvm, EthEvmBuilder, EthEvmContext},
    precompiles::PrecompilesMap,
};
use alloy_primitives::B256;
use prestate_host::{
    ChainSpec, Outcome, ReaderDb, ReaderDbError, Receipt, Receipts, RecoveredBlock, StateError,
    StateReader, apply_pre_block, evm_env, execution_context, summary,
};
use revm::{
    Inspector,
    context_interface::result::{ExecutionResult, ResultAndState},
    database::{BundleState, State, states::bundle_state::BundleRetention},
    database_interface::bal::EvmDatabaseError,
    state::EvmState,
};
use std::{
    error::Error,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};

/// The database a block runs on: the parent's state with the block's own changes over it.
pub type BlockState<R> = State<ReaderDb<R>>;

/// The EVM a block runs in.
pub type BlockEvm<'s, R, I> = EthEvm<&'s mut BlockState<R>, I, PrecompilesMap>;

type Executor<'s, R, I> =
    EthBlockExecutor<'s, BlockEvm<'s, R, I>, &'s ChainSpec, &'static Receipts>;

/// Decides when to give up; asked between transactions and, where an inspector runs, inside them.
pub trait Deadline: Send {
    /// Whether time is up for the transaction that runs.
    fn passed(&self) -> bool;
    /// A new transaction starts.
    fn start_tx(&mut self) {}
}

/// No deadline.
impl Deadline for () {
    fn passed(&self) -> bool {
        false
    }
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Execution<'a> {
    /// The chain's rules.
    pub spec: &'a ChainSpec,
    /// The block.
    pub block: &'a RecoveredBlock,
}

/// One transaction that ran and is not committed yet.
pub struct TxStep<'e, 's, R: StateReader, I> {
    /// Its index.
    pub index: u64,
    /// Its hash.
    pub hash: B256,
    /// Gas, logs, output.
    pub result: &'e ExecutionResult,
    /// What it read and changed.
    pub changes: &'e EvmState,
    /// Both together, as the EVM returned them.
    pub outcome: &'e ResultAndState,
    /// The EVM: state before the transaction, inspector.
    pub evm: &'e mut BlockEvm<'s, R, I>,
}

impl<R: StateReader, I> std::fmt::Debug for TxStep<'_, '_, R, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxStep").field("index", &self.index).field("hash", &self.hash).finish()
    }
}

/// What is known when all transactions ran.
#[derive(Debug)]
pub struct Finished {
    /// Receipts in order.
    pub receipts: Vec<Receipt>,
    /// Requests of EIP-7685; empty before Prague.
    pub requests: Requests,
    /// Gas used by the transactions.
    pub gas_used: u64,
    /// Blob gas used; zero before Cancun.
    pub blob_gas_used: u64,
    /// State changes of the system calls before the first transaction, in order.
    pub pre_system: Vec<EvmState>,
    /// State changes after the last transaction, in order.
    pub post_system: Vec<EvmState>,
    /// The whole block's changes with reverts, as the node commits them.
    pub bundle: BundleState,
}

impl Finished {
    /// What the header states of it.
    pub fn outcome(&self) -> Outcome<'_> {
        Outcome {
            receipts: &self.receipts,
            gas_used: self.gas_used,
            blob_gas_used: self.blob_gas_used,
            requests: &self.requests,
        }
    }
}

/// A block on its way.
pub struct Driver<'a, R: StateReader> {
    execution: Execution<'a>,
    state: BlockState<R>,
}

impl<R: StateReader> std::fmt::Debug for Driver<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("block", &summary(self.execution.block)).finish()
    }
}

impl<'a, R: StateReader + 'static> Driver<'a, R> {
    /// A block on the state after its parent.
    pub fn new(execution: Execution<'a>, parent_state: R) -> Self {
        let state =
            State::builder().with_database(ReaderDb(parent_state)).with_bundle_update().build();
        Self { execution, state }
    }

    /// Runs the block. `each` sees every transaction before it is committed and may stop the run,
    /// which then ends with [`ReplayError::Stopped`]. With `inspect` the inspector's hooks are
    /// called; without it the EVM runs at full speed.
    pub fn run<I>(
        mut self,
        inspector: I,
        inspect: bool,
        deadline: &mut dyn Deadline,
        mut each: impl FnMut(TxStep<'_, '_, R, I>) -> Result<ControlFlow<()>, ReplayError>,
    ) -> Result<Finished, ReplayError>
    where
        I: for<'s> Inspector<EthEvmContext<&'s mut BlockState<R>>>,
    {
        let Execution { spec, block } = self.execution;
        let block_ref = summary(block).block;
        let system = |error| system_error(block_ref, error);
        let heard = Heard::default();

        let mut executor = executor(spec, block, &mut self.state, inspector, inspect);
        heard.listen(executor.evm_mut().db_mut());
        apply_pre_block(spec, block, &mut executor).map_err(system)?;
        let pre_system = heard.stop(executor.evm_mut().db_mut());

        for (index, tx) in block.transactions_recovered().enumerate() {
            let index = index as u64;
            let hash = *tx.tx_hash();
            deadline.start_tx();
            let output = executor
                .execute_transaction_without_commit(tx)
                .map_err(|error| tx_error(block_ref, index, hash, error))?;
            if deadline.passed() {
                return Err(ReplayError::Timeout { index });
            }
            let outcome = output.result();
            let ResultAndState { result, state: changes } = outcome;
            let step = TxStep { index, hash, result, changes, outcome, evm: executor.evm_mut() };
            if each(step)?.is_break() {
                return Err(ReplayError::Stopped);
            }
            executor.commit_transaction(output);
        }

        heard.listen(executor.evm_mut().db_mut());
        let (mut evm, finished) = executor.finish().map_err(system)?;
        let post_system = heard.stop(evm.db_mut());
        drop(evm);

        self.state.merge_transitions(BundleRetention::Reverts);
        Ok(Finished {
            receipts: finished.receipts,
            requests: finished.requests,
            gas_used: finished.gas_used,
            blob_gas_used: finished.blob_gas_used,
            pre_system,
            post_system,
            bundle: self.state.take_bundle(),
        })
    }
}

pub(crate) fn executor<'s, R: StateReader, I>(
    spec: &'s ChainSpec,
    block: &'s RecoveredBlock,
    state: &'s mut BlockState<R>,
    inspector: I,
    inspect: bool,
) -> Executor<'s, R, I>
where
    I: Inspector<EthEvmContext<&'s mut BlockState<R>>>,
{
    let context = execution_context(block);
    let env = evm_env(spec, block.header());
    let evm = EthEvmBuilder::new(state, env).inspector(inspector).set_inspect(inspect).build();
    EthBlockExecutor::new(evm, context, spec, &Receipts)
}

/// State changes committed outside transactions, caught by the state's own hook.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<EvmState>>>);

impl Heard {
    fn listen<R>(&self, state: &mut BlockState<R>)
    where
        R: StateReader,
    {
        let heard = self.clone();
        state.set_state_hook(Some(Box::new(move |changes: EvmState| {
            heard.0.lock().unwrap_or_else(PoisonError::into_inner).push(changes);
        })));
    }

    fn stop<R>(&self, state: &mut BlockState<R>) -> Vec<EvmState>
    where
        R: StateReader,
    {
        state.set_state_hook(None);
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state error at the bottom of an executor's error, if that is what it is.
pub(crate) fn state_error(error: &(dyn Error + 'static)) -> Option<StateError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<ReaderDbError>() {
            return Some(found.0.clone());
        }
        if let Some(found) = error.downcast_ref::<StateError>() {
            return Some(found.clone());
        }
        // These name no source of their own.
        if let Some(BlockExecutionError::Internal(InternalBlockExecutionError::EVM {
            error, ..
        })) = error.downcast_ref()
        {
            cause = Some(&**error);
            continue;
        }
        if let Some(EvmDatabaseError::Database(found)) =
            error.downcast_ref::<EvmDatabaseError<ReaderDbError>>()
        {
            return Some(found.0.clone());
        }
        cause = error.source();
    }
    None
}

pub(crate) fn tx_error(
    block: prestate_types::BlockRef,
    index: u64,
    hash: B256,
    error: BlockExecutionError,
) -> ReplayError {
    match state_error(&error) {
        Some(source) => ReplayError::TxState { block, index, hash, source },
        None => ReplayError::InvalidTx { block, index, hash, reason: error.to_string() },
    }
}

pub(crate) fn system_error(
    block: prestate_types::BlockRef,
    error: BlockExecutionError,
) -> ReplayError {
    match state_error(&error) {
        Some(source) => ReplayError::State { block, source },
        None => ReplayError::System { block, reason: error.to_string() },
    }
}

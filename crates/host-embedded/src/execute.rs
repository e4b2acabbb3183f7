use crate::{ChainState, ImportError};
use alloy_evm::eth::{EthBlockExecutor, EthEvmBuilder};
use prestate_host::{
    ChainSpec, Outcome, ReaderDb, Receipt, Receipts, RecoveredBlock, check_header, evm_env,
    execute_block, execution_context, same, summary,
};
use revm::database::{BundleState, State, states::bundle_state::BundleRetention};
use std::sync::Arc;

/// A block with what executing it gave.
#[derive(Debug, Clone)]
pub(crate) struct Executed {
    pub(crate) block: Arc<RecoveredBlock>,
    /// After it.
    pub(crate) state: ChainState,
    /// Its changes; `None` for a genesis block.
    pub(crate) bundle: Option<Arc<BundleState>>,
    pub(crate) receipts: Arc<Vec<Receipt>>,
}

/// Executes a block and holds the outcome against its header, state root included.
pub(crate) fn execute(
    spec: &ChainSpec,
    block: RecoveredBlock,
    mut state: ChainState,
) -> Result<Executed, ImportError> {
    let at = summary(&block).block;
    let mut db = State::builder()
        .with_database(ReaderDb(Arc::new(state.clone())))
        .with_bundle_update()
        .build();
    let env = evm_env(spec, block.header());
    let context = execution_context(&block);
    let evm = EthEvmBuilder::new(&mut db, env).build();
    let executor = EthBlockExecutor::new(evm, context, spec, &Receipts);
    let outcome = execute_block(spec, &block, executor)
        .map_err(|error| ImportError::Execution { block: at, reason: error.to_string() })?;
    let stated = Outcome {
        receipts: &outcome.receipts,
        gas_used: outcome.gas_used,
        blob_gas_used: outcome.blob_gas_used,
        requests: &outcome.requests,
    };
    check_header(spec, &block, stated)?;
    db.merge_transitions(BundleRetention::Reverts);
    let bundle = db.take_bundle();
    state.apply(&bundle);
    same(at, "state root", state.root(), block.state_root)?;
    state.note_hash(at.number, at.hash);
    Ok(Executed {
        block: Arc::new(block),
        state,
        bundle: Some(Arc::new(bundle)),
        receipts: Arc::new(outcome.receipts),
    })
}

use crate::{
    Execution, ReplayError, TxStep,
    bundle::block_diff,
    changes::{original_bytes, state_diff},
    driver::{BlockState, Deadline, Driver, Finished},
    exact::TxLookups,
    lookups::LookupInspector,
};
use alloy_consensus::proofs::calculate_ommers_root;
use alloy_evm::{Evm, FromRecoveredTx};
use alloy_primitives::B256;
use prestate_host::{StateError, StateReader, summary};
use prestate_types::{BlockDiff, BlockFacts, BlockSummary, Codes, StateDiff, TxDiff, ZeroReads};
use revm::{Database, context::TxEnv, state::EvmState};
use std::ops::ControlFlow;

/// What a replayed block changed.
#[derive(Debug)]
pub struct Replayed {
    /// Receipts, requests, gas and the committed bundle.
    pub finished: Finished,
    /// The block.
    pub summary: BlockSummary,
    /// System calls before the first transaction.
    pub pre_system: StateDiff,
    /// What follows the last transaction.
    pub post_system: StateDiff,
    /// Whether `post_system` is all of it: false if uncle headers are missing.
    pub complete: bool,
    /// The codes that the diffs' accounts had before and after.
    pub codes: Codes,
}

impl Replayed {
    /// The parts as one, given the transactions' diffs.
    pub fn facts(&self, txs: Vec<TxDiff>) -> BlockFacts {
        BlockFacts {
            summary: self.summary,
            pre_system: self.pre_system.clone(),
            txs,
            post_system: self.post_system.clone(),
        }
    }

    /// What the block as a whole changed, from its bundle; `parent` as in [`block_diff`].
    pub fn block_diff(&mut self, parent: &dyn StateReader) -> Result<BlockDiff, ReplayError> {
        if !self.complete {
            return Err(ReplayError::MissingUncles(self.summary.block));
        }
        self.bundle_diff(parent)
    }

    /// As [`Self::block_diff`], uncle rewards left out where their headers are missing.
    pub fn bundle_diff(&mut self, parent: &dyn StateReader) -> Result<BlockDiff, ReplayError> {
        let diff = block_diff(&self.finished.bundle, 0, parent, &mut self.codes)
            .map_err(|source| ReplayError::State { block: self.summary.block, source })?;
        for (_, delta) in &diff {
            for info in [delta.pre, delta.post].into_iter().flatten() {
                if !self.codes.covers(&info) {
                    let code = parent.code(info.code_hash).map_err(|source| {
                        ReplayError::State { block: self.summary.block, source }
                    })?;
                    self.codes.insert(info.code_hash, original_bytes(&code));
                }
            }
        }
        Ok(BlockDiff { summary: self.summary, diff })
    }
}

/// Runs a block on its parent's state, without an inspector, and hands out each transaction's diff
/// with the codes known so far.
pub fn replay<R: StateReader + 'static>(
    execution: Execution<'_>,
    parent_state: R,
    deadline: &mut dyn Deadline,
    mut each: impl FnMut(TxDiff, &Codes) -> ControlFlow<()>,
) -> Result<Replayed, ReplayError> {
    let block = summary(execution.block).block;
    let mut codes = Codes::default();
    let driver = Driver::new(execution, parent_state);
    let finished = driver.run(LookupInspector::default(), false, deadline, |step| {
        let (index, hash) = (step.index, step.hash);
        let tx_state = |source| ReplayError::TxState { block, index, hash, source };
        let mut missing = Vec::new();
        let (diff, mut zero_reads) = state_diff(step.changes, &mut codes, &mut missing);
        fetch(&mut codes, &missing, step.evm.db_mut()).map_err(tx_state)?;
        if !zero_reads.is_empty() {
            zero_reads = looked_up(execution, step, zero_reads)?;
        }
        Ok(each(TxDiff { hash, index, diff, zero_reads }, &codes))
    })?;
    let pre_system = system_diff(&finished.pre_system, &mut codes);
    let post_system = system_diff(&finished.post_system, &mut codes);
    let header = execution.block.header();
    let ommers = &execution.block.body().ommers;
    let complete = !ommers.is_empty()
        || header.ommers_hash == alloy_consensus::EMPTY_OMMER_ROOT_HASH
        || header.ommers_hash == calculate_ommers_root(ommers);
    Ok(Replayed {
        finished,
        summary: summary(execution.block),
        pre_system,
        post_system,
        complete,
        codes,
    })
}

/// Runs a block on its parent's state with an inspector that follows Geth's look-ups, and hands
/// out what each transaction looked up.
pub fn replay_lookups<R: StateReader + 'static>(
    execution: Execution<'_>,
    parent_state: R,
    deadline: &mut dyn Deadline,
    mut each: impl FnMut(B256, TxLookups, &Codes) -> ControlFlow<()>,
) -> Result<Finished, ReplayError> {
    let block = summary(execution.block).block;
    let mut codes = Codes::default();
    Driver::new(execution, parent_state).run(
        LookupInspector::default(),
        true,
        deadline,
        |mut step| {
            let (index, hash) = (step.index, step.hash);
            let tx = recovered(execution, index);
            let lookups = TxLookups::take(&mut step, tx, &mut codes)
                .map_err(|source| ReplayError::TxState { block, index, hash, source })?;
            Ok(each(hash, lookups, &codes))
        },
    )
}

type RecoveredTx<'a> = alloy_consensus::transaction::Recovered<
    &'a alloy_consensus::EthereumTxEnvelope<alloy_consensus::TxEip4844>,
>;

fn recovered(execution: Execution<'_>, index: u64) -> RecoveredTx<'_> {
    let at = index as usize;
    let tx = &execution.block.body().transactions[at];
    RecoveredTx::new_unchecked(tx, execution.block.senders()[at])
}

/// Of the zero slots that the journal holds for destroyed accounts, those Geth looks up. It takes
/// a second run of the transaction, with the inspector; few transactions destroy anything.
fn looked_up<R: StateReader>(
    execution: Execution<'_>,
    step: TxStep<'_, '_, R, LookupInspector>,
    candidates: ZeroReads,
) -> Result<ZeroReads, ReplayError> {
    let tx = recovered(execution, step.index);
    let env = TxEnv::from_recovered_tx(tx.inner(), tx.signer());
    step.evm.inspector_mut().reset();
    step.evm.set_inspector_enabled(true);
    let rerun = step.evm.transact(env);
    step.evm.set_inspector_enabled(false);
    rerun.map_err(|error| ReplayError::InvalidTx {
        block: summary(execution.block).block,
        index: step.index,
        hash: step.hash,
        reason: error.to_string(),
    })?;
    let seen = step.evm.inspector();
    let kept = candidates.into_iter().filter_map(|(address, mut slots)| {
        slots.retain(|slot| seen.looked_up_slot(&address, slot));
        (!slots.is_empty()).then_some((address, slots))
    });
    Ok(kept.collect())
}

fn system_diff(changes: &[EvmState], codes: &mut Codes) -> StateDiff {
    let mut missing = Vec::new();
    let parts: Vec<_> =
        changes.iter().map(|changes| state_diff(changes, codes, &mut missing).0).collect();
    StateDiff::fold(&parts)
}

/// Reads codes that the journal did not load: accounts that changed without running.
pub(crate) fn fetch<R: StateReader>(
    codes: &mut Codes,
    missing: &[B256],
    state: &mut BlockState<R>,
) -> Result<(), StateError> {
    for hash in missing {
        let code = state.code_by_hash(*hash).map_err(|error| {
            crate::driver::state_error(&error)
                .unwrap_or_else(|| StateError::Backend(error.to_string()))
        })?;
        codes.insert(*hash, original_bytes(&code));
    }
    Ok(())
}

use super::{
    any::{TraceInspector, TxContext},
    deadline::Watched,
};
use crate::{Deadline, Driver, Execution, ReplayError};
use alloy_consensus::{BlockHeader, transaction::Recovered};
use alloy_evm::Evm;
use alloy_primitives::B256;
use prestate_host::{StateReader, summary};
use prestate_types::{Codes, StepSink, TraceOutput, TracePlace, Tracer};
use std::ops::ControlFlow;

/// What to trace of a block, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Only the transaction with this index; those before it run untraced and without a deadline,
    /// those after it do not run.
    pub only: Option<u64>,
    /// The most text in bytes that a struct logger may make of one transaction.
    pub max_step_bytes: u64,
}

/// Why a block could not be traced. Nothing of the transaction that failed was handed out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Running it failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Too much would be recorded of a transaction; the EVM was stopped.
    #[error("trace of transaction {index} exceeds {limit} bytes")]
    TooManySteps {
        /// The transaction's index.
        index: u64,
        /// Bytes allowed.
        limit: u64,
        /// Bytes when it was stopped.
        bytes: u64,
    },
}

/// Runs a block on its parent's state with a tracer, and hands out what it finds in each
/// transaction, with the codes known so far, until `each` breaks.
///
/// `deadline` is asked inside and after each traced transaction: clones must share their clock.
/// `sink` makes the place that a struct logger's steps go to, one for each transaction.
///
/// # Errors
/// See [`TraceError`]; a deadline that passed is [`ReplayError::Timeout`].
pub fn trace_block<R, D, S>(
    execution: Execution<'_>,
    parent_state: R,
    tracer: &Tracer,
    limits: TraceLimits,
    deadline: D,
    mut sink: impl FnMut() -> S,
    mut each: impl FnMut(u64, B256, TraceOutput<S>, &Codes) -> ControlFlow<()>,
) -> Result<(), TraceError>
where
    R: StateReader + 'static,
    D: Deadline + Clone,
    S: StepSink,
{
    let block = execution.block;
    let block_ref = summary(block).block;
    let first = limits.only.unwrap_or(0);
    let inspector = TraceInspector::new(tracer, limits.max_step_bytes, &mut sink);
    let watched = Watched::new(inspector, deadline.clone());
    let mut from_first = FromFirst::new(deadline, first);
    let mut codes = Codes::default();
    let mut too_many = None;
    let run = Driver::new(execution, parent_state).run(
        watched,
        first == 0,
        &mut from_first,
        |mut step| {
            let (index, hash) = (step.index, step.hash);
            if index < first {
                step.evm.inspector_mut().inner_mut().skip(step.result);
                step.evm.set_inspector_enabled(index + 1 == first);
                return Ok(ControlFlow::Continue(()));
            }
            let place = TracePlace {
                block_hash: Some(block_ref.hash),
                block_number: block.header().number(),
                tx_hash: Some(hash),
                tx_index: index,
            };
            let at = index as usize;
            let sender = block.senders()[at];
            let tx = Recovered::new_unchecked(&block.body().transactions[at], sender);
            let mut tracer =
                std::mem::replace(step.evm.inspector_mut().inner_mut(), TraceInspector::noop());
            if let Some(bytes) = tracer.too_many_step_bytes() {
                let limit = limits.max_step_bytes;
                too_many = Some(TraceError::TooManySteps { index, limit, bytes });
                return Ok(ControlFlow::Break(()));
            }
            let output =
                tracer.finish(&mut step, TxContext { tx, place }, &mut codes, &mut sink).map_err(
                    |source| ReplayError::TxState { block: block_ref, index, hash, source },
                )?;
            *step.evm.inspector_mut().inner_mut() = tracer;
            let flow = each(index, hash, output, &codes);
            let last = limits.only == Some(index);
            Ok(if last { ControlFlow::Break(()) } else { flow })
        },
    );
    match (run, too_many) {
        (_, Some(error)) => Err(error),
        (Ok(_) | Err(ReplayError::Stopped), None) => Ok(()),
        (Err(error), None) => Err(error.into()),
    }
}

/// A deadline that counts from the first traced transaction on.
pub(super) struct FromFirst<D> {
    deadline: D,
    first: u64,
    /// Transactions started.
    next: u64,
}

impl<D> FromFirst<D> {
    pub(super) const fn new(deadline: D, first: u64) -> Self {
        Self { deadline, first, next: 0 }
    }
}

impl<D: Deadline> Deadline for FromFirst<D> {
    fn passed(&self) -> bool {
        self.next > self.first && self.deadline.passed()
    }

    fn start_tx(&mut self) {
        if self.next >= self.first {
            self.deadline.start_tx();
        }
        self.next += 1;
    }
}

//! A message that no block holds, executed on any state and traced: `debug_traceCall`
//! (Geth `eth/tracers/api.go`, `TraceCall`).

mod environment;
mod message;
mod overrides;
mod prefix;

pub use environment::{BlockOverrides, CallEnvironment};
pub use message::Message;
pub use overrides::{AccountOverride, CallState, OverrideError, StateOverrides};
pub use prefix::{Before, PrefixError, state_before};

use crate::{
    BlockState, Deadline, TraceInspector, TxContext, TxStep, Watched, driver::state_error,
};
use alloy_evm::{Evm, eth::EthEvmBuilder};
use alloy_primitives::B256;
use prestate_host::{ReaderDb, StateError};
use prestate_types::{Codes, StepSink, TraceOutput, TracePlace, Tracer};
use revm::{
    context_interface::{
        JournalTr,
        result::{EVMError, InvalidTransaction, ResultAndState},
    },
    database::State,
};

/// Why a message could not be traced.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The rules of the chain refuse the message; in Geth's words.
    #[error("{0}")]
    Refused(String),
    /// Reading state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The deadline passed; the EVM was stopped.
    #[error("execution timeout")]
    Timeout,
    /// Too much would be recorded; the EVM was stopped.
    #[error("trace exceeds {limit} bytes")]
    TooManySteps {
        /// Bytes allowed.
        limit: u64,
        /// Bytes when it was stopped.
        bytes: u64,
    },
}

/// How a message is traced.
#[derive(Debug)]
pub struct CallTrace<'a, D> {
    /// The tracer.
    pub tracer: &'a Tracer,
    /// The most in bytes that may be recorded; see [`TraceInspector::new`].
    pub max_step_bytes: u64,
    /// Asked inside the message and after it.
    pub deadline: D,
    /// Logs of the block that stand before the message's own.
    pub logs_before: u64,
}

/// Executes a message and hands out what the tracer found, with the codes of the accounts in it.
///
/// Nonce and code of the sender are not checked and no fee is asked for if the message offers
/// none, as Geth does for calls; everything else is as in a block.
///
/// # Errors
/// See [`CallError`]. The no-op tracer has no result to withhold: it never reports a timeout.
pub fn trace_call<D, S>(
    message: &Message,
    mut environment: CallEnvironment,
    state: CallState,
    trace: CallTrace<'_, D>,
    mut sink: impl FnMut() -> S,
) -> Result<(TraceOutput<S>, Codes), CallError>
where
    D: Deadline + Clone,
    S: StepSink,
{
    let CallState { reader, precompiles } = state;
    environment.lower_fees(message);
    let balance =
        prestate_host::StateReader::account(&reader, message.from)?.unwrap_or_default().balance;
    message.check(&environment, balance).map_err(CallError::Refused)?;
    let tx = message.tx_env(&environment)?;
    let seen = message.seen();

    let warm = precompiles.as_ref().map(|_| environment.precompile_addresses());
    let mut database: BlockState<_> = State::builder().with_database(ReaderDb(reader)).build();
    let mut inspector = TraceInspector::new(trace.tracer, trace.max_step_bytes, &mut sink);
    inspector.skip_logs(trace.logs_before);
    let watched = Watched::new(inspector, trace.deadline.clone());
    let mut builder =
        EthEvmBuilder::new(&mut database, environment.env).activate_inspector(watched);
    if let Some(precompiles) = precompiles {
        builder = builder.precompiles(precompiles);
    }
    let mut evm = builder.build();
    if let Some(warm) = &warm {
        // EIP-2929: the addresses of the rules are warm, wherever their contracts went.
        evm.ctx_mut().journaled_state.warm_precompiles(warm);
    }

    let outcome = evm.transact(tx).map_err(refused)?;
    let ResultAndState { result, state: changes } = &outcome;
    let noop = TraceInspector::new(&Tracer::Noop, 0, &mut sink);
    let mut tracer = std::mem::replace(evm.inspector_mut().inner_mut(), noop);
    if let Some(bytes) = tracer.too_many_step_bytes() {
        return Err(CallError::TooManySteps { limit: trace.max_step_bytes, bytes });
    }
    if trace.deadline.passed() && !never_times_out(trace.tracer) {
        return Err(CallError::Timeout);
    }
    let mut codes = Codes::default();
    let mut step =
        TxStep { index: 0, hash: B256::ZERO, result, changes, outcome: &outcome, evm: &mut evm };
    let context = TxContext { tx: seen.as_recovered_ref(), place: TracePlace::default() };
    let output = tracer.finish(&mut step, context, &mut codes, &mut sink)?;
    Ok((output, codes))
}

/// Tracers that have nothing to report an interruption with.
fn never_times_out(tracer: &Tracer) -> bool {
    match tracer {
        Tracer::Noop => true,
        Tracer::Mux(tracers) => tracers.iter().all(|(_, tracer)| never_times_out(tracer)),
        _ => false,
    }
}

/// What the EVM says where the message's own checks do not: intrinsic gas.
fn refused<E: std::error::Error + 'static>(error: EVMError<E>) -> CallError {
    if let Some(source) = state_error(&error) {
        return CallError::State(source);
    }
    CallError::Refused(match error {
        EVMError::Transaction(InvalidTransaction::CallGasCostMoreThanGasLimit {
            initial_gas,
            gas_limit,
        }) => format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}"),
        EVMError::Transaction(InvalidTransaction::GasFloorMoreThanGasLimit {
            gas_floor,
            gas_limit,
        }) => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        other => other.to_string(),
    })
}

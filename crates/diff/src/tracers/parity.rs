//! `trace_*`: the shapes of OpenEthereum, over revm-inspectors' recorder.

use super::{
    block::FromFirst,
    deadline::{StopsItself, Watched},
    parity_state::parity_state_diff,
    recorded::call_bytes,
    vm_trace::VmTracer,
};
use crate::{
    Deadline, Driver, Execution, ReplayError, TraceError, changes::state_diff, replay::fetch,
};
use alloy_evm::Evm;
use alloy_primitives::{Address, B256, U256, map::HashSet};
use alloy_rpc_types_trace::parity::{
    LocalizedTransactionTrace, TraceResults, TraceType, TransactionTrace,
};
use prestate_host::{StateError, StateReader, summary};
use prestate_types::{Codes, TracePlace};
use revm::{
    Inspector,
    bytecode::opcode,
    context_interface::{ContextTr, JournalTr, result::ExecutionResult},
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, Jumps, LoopControl},
    },
};
use revm_inspectors::tracing::{TracingInspector, TracingInspectorConfig};
use std::ops::ControlFlow;

/// Most that is recorded of one transaction before the EVM is stopped: every opcode for `vmTrace`,
/// every call with its data.
const MAX_RECORDED_BYTES: u64 = 512 * 1024 * 1024;
/// A recorded opcode with some words it pushed or stored.
const STEP_BYTES: u64 = 512;

/// Runs a block on its parent's state and hands out each transaction's traces of the kinds asked
/// for, until `each` breaks. With `only` a single transaction is traced and nothing runs after it.
///
/// `deadline` as in [`trace_block`](crate::trace_block).
///
/// # Errors
/// See [`TraceError`].
pub fn trace_block_parity<R, D>(
    execution: Execution<'_>,
    parent_state: R,
    types: &HashSet<TraceType>,
    only: Option<u64>,
    deadline: D,
    mut each: impl FnMut(u64, B256, TraceResults) -> ControlFlow<()>,
) -> Result<(), TraceError>
where
    R: StateReader + 'static,
    D: Deadline + Clone,
{
    let block_ref = summary(execution.block).block;
    let first = only.unwrap_or(0);
    let inspector = ParityInspector::new(types);
    let mut from_first = FromFirst::new(deadline.clone(), first);
    let mut codes = Codes::default();
    let mut too_many = None;
    let run = Driver::new(execution, parent_state).run(
        Watched::new(inspector, deadline),
        first == 0,
        &mut from_first,
        |step| {
            let (index, hash) = (step.index, step.hash);
            if index < first {
                step.evm.set_inspector_enabled(index + 1 == first);
                return Ok(ControlFlow::Continue(()));
            }
            let inspector = step.evm.inspector_mut().inner_mut();
            if inspector.is_full() {
                let (limit, bytes) = (MAX_RECORDED_BYTES, inspector.recorded_bytes);
                too_many = Some(TraceError::TooManySteps { index, limit, bytes });
                return Ok(ControlFlow::Break(()));
            }
            let mut results = inspector.finish(step.result, types);
            if types.contains(&TraceType::StateDiff) {
                let mut missing = Vec::new();
                let (diff, _) = state_diff(step.changes, &mut codes, &mut missing);
                let tx_state = |source: StateError| ReplayError::TxState {
                    block: block_ref,
                    index,
                    hash,
                    source,
                };
                fetch(&mut codes, &missing, step.evm.db_mut()).map_err(tx_state)?;
                results.state_diff = Some(parity_state_diff(&diff, &codes));
            }
            let flow = each(index, hash, results);
            Ok(if only == Some(index) { ControlFlow::Break(()) } else { flow })
        },
    );
    match (run, too_many) {
        (_, Some(error)) => Err(error),
        (Ok(_) | Err(ReplayError::Stopped), None) => Ok(()),
        (Err(error), None) => Err(error.into()),
    }
}

/// Traces of one transaction with where it stands, as `trace_block`, `trace_transaction`,
/// `trace_get` and `trace_filter` show them.
pub fn localized(
    traces: Vec<TransactionTrace>,
    place: TracePlace,
) -> Vec<LocalizedTransactionTrace> {
    let localize = |trace| LocalizedTransactionTrace {
        trace,
        block_hash: place.block_hash,
        block_number: Some(place.block_number),
        transaction_hash: place.tx_hash,
        transaction_position: Some(place.tx_index),
    };
    traces.into_iter().map(localize).collect()
}

/// Records calls, and opcodes for `vmTrace`.
#[derive(Debug)]
pub struct ParityInspector {
    inner: TracingInspector,
    /// For `vmTrace`; revm-inspectors' puts inner traces under the wrong opcodes.
    vm: Option<VmTracer>,
    /// Balance about to be sent by SELFDESTRUCT.
    destroying: U256,
    beneficiary: Address,
    at_selfdestruct: bool,
    /// What the transaction's record takes, roughly.
    recorded_bytes: u64,
}

impl ParityInspector {
    /// Records what these kinds of traces need.
    pub fn new(types: &HashSet<TraceType>) -> Self {
        Self {
            inner: TracingInspector::new(TracingInspectorConfig::default_parity()),
            vm: types.contains(&TraceType::VmTrace).then(VmTracer::default),
            destroying: U256::ZERO,
            beneficiary: Address::ZERO,
            at_selfdestruct: false,
            recorded_bytes: 0,
        }
    }

    /// The traces of the transaction that ended but for the state diff, and a fresh start.
    pub fn finish(&mut self, result: &ExecutionResult, types: &HashSet<TraceType>) -> TraceResults {
        let recorded = std::mem::take(&mut self.inner);
        let config = *recorded.config();
        self.inner = TracingInspector::new(config);
        self.recorded_bytes = 0;
        let calls = types.iter().copied().filter(|kind| *kind == TraceType::Trace).collect();
        let mut results = recorded.into_parity_builder().into_trace_results(result, &calls);
        results.vm_trace = self.vm.as_mut().map(VmTracer::finish);
        results
    }
}

impl StopsItself for ParityInspector {
    fn is_full(&self) -> bool {
        self.recorded_bytes > MAX_RECORDED_BYTES
    }
}

impl<CTX> Inspector<CTX, EthInterpreter> for ParityInspector
where
    CTX: ContextTr<Journal: JournalExt>,
{
    fn initialize_interp(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        if let Some(vm) = &mut self.vm {
            vm.initialize_interp(interp, context);
        }
        self.inner.initialize_interp(interp, context);
    }

    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        if self.vm.is_some() {
            self.recorded_bytes += STEP_BYTES;
        }
        self.at_selfdestruct = interp.bytecode.opcode() == opcode::SELFDESTRUCT;
        if self.at_selfdestruct {
            let state = context.journal().evm_state();
            let executing = state.get(&interp.input.target_address());
            self.destroying = executing.map_or(U256::ZERO, |account| account.info.balance);
            let top = interp.stack.data().last().copied().unwrap_or_default();
            self.beneficiary = Address::from_word(top.into());
        }
        self.inner.step(interp, context);
        if let Some(vm) = &mut self.vm {
            vm.step(interp, context);
        }
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.inner.step_end(interp, context);
        if let Some(vm) = &mut self.vm {
            vm.step_end(interp, context);
        }
        let result = interp.bytecode.instruction_result();
        if self.at_selfdestruct && result == Some(InstructionResult::SelfDestruct) {
            // revm's own hook reads the journal's last entry, which is another one when nothing
            // moved (revm#3656), so that it is not passed on.
            let (contract, balance) = (interp.input.target_address(), self.destroying);
            let inner: &mut dyn Inspector<CTX, EthInterpreter> = &mut self.inner;
            inner.selfdestruct(contract, self.beneficiary, balance);
        }
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.recorded_bytes += call_bytes(inputs);
        if let Some(vm) = &mut self.vm {
            vm.call(context, inputs);
        }
        self.inner.call(context, inputs)
    }

    fn call_end(&mut self, context: &mut CTX, inputs: &CallInputs, outcome: &mut CallOutcome) {
        if let Some(vm) = &mut self.vm {
            vm.call_end(context, inputs, outcome);
        }
        self.inner.call_end(context, inputs, outcome);
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        if let Some(vm) = &mut self.vm {
            vm.create(context, inputs);
        }
        self.inner.create(context, inputs)
    }

    fn create_end(
        &mut self,
        context: &mut CTX,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        if let Some(vm) = &mut self.vm {
            vm.create_end(context, inputs, outcome);
        }
        self.inner.create_end(context, inputs, outcome);
    }
}

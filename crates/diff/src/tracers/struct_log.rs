//! The struct logger (`eth/tracers/logger/logger.go`).

use super::{authorizations::refund_of_authorizations, watch::Watch};
use alloy_primitives::{B256, Bytes, U256, map::AddressMap};
use prestate_types::{Step, StepSink, StructLogOptions, StructLogs};
use revm::{
    Inspector,
    bytecode::opcode,
    context_interface::{Cfg, ContextTr, result::ExecutionResult},
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, Interpreter,
        InterpreterAction,
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, Jumps, LegacyBytecode, LoopControl, MemoryTr, ReturnData},
    },
    primitives::hardfork::SpecId,
};
use std::collections::BTreeMap;

/// Hands every opcode of one transaction after the other to a sink.
#[derive(Debug)]
pub struct StructLogger<S> {
    options: StructLogOptions,
    /// Bytes of text the steps may have altogether.
    max_bytes: u64,
    bytes: u64,
    sink: S,
    watch: Watch,
    pending: Option<Pending>,
    stack: Vec<U256>,
    memory: Vec<u8>,
    return_data: Bytes,
    storage: AddressMap<BTreeMap<B256, B256>>,
    /// For each open frame the refund counter when it started.
    refunds: Vec<i64>,
    /// The refund counter now.
    refund: i64,
    /// Before Homestead: the code that the transaction's own creation returned.
    code: Bytes,
    /// It could not be paid for. Geth calls that a failure, though the contract is there.
    code_lost: bool,
}

/// What is known of a step before it runs, the larger parts apart.
#[derive(Debug, Clone, Copy)]
struct Pending {
    pc: u64,
    opcode: u8,
    gas: u64,
    depth: usize,
    refund: i64,
}

impl<S: StepSink> StructLogger<S> {
    /// A logger that stops the EVM once the steps' text is longer than `max_bytes`.
    pub fn new(options: StructLogOptions, max_bytes: u64, sink: S) -> Self {
        Self {
            options,
            max_bytes,
            bytes: 0,
            sink,
            watch: Watch::new(true),
            pending: None,
            stack: Vec::new(),
            memory: Vec::new(),
            return_data: Bytes::new(),
            storage: AddressMap::default(),
            refunds: Vec::new(),
            refund: 0,
            code: Bytes::new(),
            code_lost: false,
        }
    }

    /// Bytes of text so far, if they are more than there may be.
    pub fn too_many_bytes(&self) -> Option<u64> {
        (self.bytes > self.max_bytes).then_some(self.bytes)
    }

    /// The result of the transaction that ended, and a fresh start for the next, with `next`.
    pub fn finish(&mut self, result: &ExecutionResult, next: S) -> StructLogs<S> {
        let (failed, return_value) = match result {
            ExecutionResult::Success { output, .. } => (false, output.data().clone()),
            ExecutionResult::Revert { output, .. } => (true, output.clone()),
            ExecutionResult::Halt { .. } => (true, Bytes::new()),
        };
        let failed = std::mem::take(&mut self.code_lost) || failed;
        self.bytes = 0;
        self.storage.clear();
        self.refunds.clear();
        let steps = std::mem::replace(&mut self.sink, next);
        StructLogs { gas: result.tx_gas_used(), failed, return_value, steps }
    }

    fn has_room(&self) -> bool {
        let limit = self.options.limit;
        limit == 0 || i64::try_from(self.bytes).unwrap_or(i64::MAX) <= limit
    }

    fn enter<CTX: ContextTr<Journal: JournalExt>>(&mut self, context: &mut CTX) {
        if self.refunds.is_empty() {
            self.storage.clear();
            self.refund = refund_of_authorizations(context);
        }
        self.refunds.push(self.refund);
    }

    fn exit(&mut self) {
        self.refunds.pop();
    }

    /// Slots of the contract known after SLOAD or SSTORE; nothing after other opcodes.
    fn note_slot(&mut self, interp: &Interpreter<EthInterpreter>, opcode: u8) -> Vec<(B256, B256)> {
        let [slot, value, ..] = self.watch.attempt().operands;
        let value = match opcode {
            opcode::SSTORE if !self.options.disable_storage => value,
            opcode::SLOAD if !self.options.disable_storage => {
                interp.stack.data().last().copied().unwrap_or_default()
            }
            _ => return Vec::new(),
        };
        let slots = self.storage.entry(interp.input.target_address()).or_default();
        slots.insert(slot.into(), value.into());
        slots.iter().map(|(slot, value)| (*slot, *value)).collect()
    }

    /// The refund counter before what the open frame counts itself.
    fn refund_around(&self) -> i64 {
        self.refunds.last().copied().unwrap_or_default()
    }
}

/// Gas that CREATE hands to the new frame: it is part of revm's price, not of Geth's.
fn handed_on(interp: &mut Interpreter<EthInterpreter>) -> u64 {
    match interp.bytecode.action() {
        Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => inputs.gas_limit(),
        _ => 0,
    }
}

impl<CTX, S> Inspector<CTX, EthInterpreter> for StructLogger<S>
where
    CTX: ContextTr<Journal: JournalExt>,
    S: StepSink,
{
    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        // revm runs a STOP where init code is empty; Geth runs nothing.
        let runs = interp.bytecode.bytecode_len() > 0;
        self.pending = (runs && self.has_room()).then(|| Pending {
            pc: interp.bytecode.pc() as u64,
            opcode: interp.bytecode.opcode(),
            gas: interp.gas.remaining(),
            depth: self.refunds.len(),
            refund: self.refund_around() + interp.gas.refunded(),
        });
        if self.pending.is_none() {
            return;
        }
        self.watch.step(interp, context);
        if !self.options.disable_stack {
            self.stack.clear();
            self.stack.extend_from_slice(interp.stack.data());
        }
        if self.options.enable_memory {
            self.memory.clear();
            self.memory.extend_from_slice(&interp.memory.slice(0..interp.memory.size()));
        }
        if self.options.enable_return_data {
            self.return_data = interp.return_data.buffer().clone();
        }
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.refund = self.refund_around() + interp.gas.refunded();
        if self.refunds.len() == 1
            && let Some(InterpreterAction::Return(result)) = interp.bytecode.action()
            && !context.cfg().spec().into().is_enabled_in(SpecId::HOMESTEAD)
        {
            self.code = result.output.clone();
        }
        let Some(pending) = self.pending.take() else { return };
        let checked = self.watch.step_end(interp, context);
        let mut storage = Vec::new();
        let gas_cost = match &checked {
            Some(checked) => {
                self.refund = pending.refund + checked.refund;
                checked.cost
            }
            None => {
                let paid = pending.gas.saturating_sub(interp.gas.remaining());
                storage = self.note_slot(interp, pending.opcode);
                paid.saturating_sub(handed_on(interp))
            }
        };
        let step = Step {
            pc: pending.pc,
            opcode: pending.opcode,
            gas: pending.gas,
            gas_cost,
            depth: pending.depth,
            error: checked.as_ref().and_then(|checked| checked.fault.as_ref()),
            stack: (!self.options.disable_stack).then_some(&self.stack),
            return_data: &self.return_data,
            memory: &self.memory,
            storage: &storage,
            refund: u64::try_from(self.refund).unwrap_or_default(),
        };
        self.bytes += self.sink.step(&step) as u64;
    }

    fn call(&mut self, context: &mut CTX, _: &mut CallInputs) -> Option<CallOutcome> {
        self.enter(context);
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, _: &mut CallOutcome) {
        self.exit();
    }

    fn create(&mut self, context: &mut CTX, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.enter(context);
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        if self.refunds.len() == 1 {
            let code = std::mem::take(&mut self.code);
            let result = &outcome.result;
            self.code_lost = result.is_ok() && result.output.is_empty() && !code.is_empty();
        }
        self.exit();
    }
}

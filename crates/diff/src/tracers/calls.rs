//! `callTracer` and what `flatCallTracer` makes of it (`eth/tracers/native/call.go`,
//! `call_flat.go`).

use super::{
    precompile::{precompiles, refusal},
    recorded::call_bytes,
    revert_reason::revert_reason,
    watch::Watch,
};
use alloy_primitives::{Address, Bytes, Log, U256};
use prestate_types::{CallFrame, CallLog, CallOptions, FlatCallOptions, FrameKind, VmError};
use revm::{
    Inspector,
    bytecode::opcode,
    context_interface::{
        Cfg, ContextTr, CreateScheme, JournalTr, Transaction, result::ExecutionResult,
    },
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, InstructionResult,
        Interpreter, InterpreterAction, InterpreterResult,
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, LoopControl},
    },
    precompile::Precompiles,
    primitives::hardfork::SpecId,
};

/// Gas per byte of new code.
const CODE_BYTE_GAS: u64 = 200;

/// Records the calls of one transaction after the other.
#[derive(Debug, Default)]
pub struct CallTracer {
    options: CallOptions,
    /// Leave out calls to precompiles, as `flatCallTracer` does.
    hidden: Option<&'static Precompiles>,
    hide_precompiles: bool,
    frames: Vec<CallFrame>,
    /// Frames open, those not recorded included.
    depth: usize,
    watch: Watch,
    /// Balance about to be sent by SELFDESTRUCT.
    destroying: U256,
    /// What the last frame returned, kept where the EVM forgets it.
    returned: Bytes,
    /// Logs of the block's earlier transactions.
    logs_before: u64,
    /// What the transaction's frames take, roughly, and the most that they may.
    held_bytes: u64,
    max_bytes: Option<u64>,
}

impl CallTracer {
    /// `callTracer`.
    pub fn new(options: CallOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// What `flatCallTracer` builds on. Calls have values throughout, which the writer takes for
    /// granted.
    pub fn flat(options: FlatCallOptions) -> Self {
        Self { hide_precompiles: !options.include_precompiles, ..Self::default() }
    }

    /// Keeps at most so many bytes of frames and call data of a transaction.
    pub fn limited(self, max_bytes: u64) -> Self {
        Self { max_bytes: Some(max_bytes), ..self }
    }

    /// Bytes held of the transaction, if they are more than allowed.
    pub fn too_many_bytes(&self) -> Option<u64> {
        self.max_bytes.filter(|most| self.held_bytes > *most).map(|_| self.held_bytes)
    }

    /// The calls of the transaction that ended, and a fresh start for the next one of the block.
    ///
    /// `None` if no call was made: it ran without this inspector.
    pub fn finish(&mut self, result: &ExecutionResult) -> Option<CallFrame> {
        self.depth = 0;
        self.held_bytes = 0;
        let mut root = self.frames.drain(..).next()?;
        root.gas_used = result.tx_gas_used();
        if self.options.with_log {
            clear_failed_logs(&mut root, false);
        }
        self.logs_before += result.logs().len() as u64;
        Some(root)
    }

    /// Passes over a transaction of the block that ran without this inspector.
    pub fn skip(&mut self, result: &ExecutionResult) {
        self.logs_before += result.logs().len() as u64;
    }

    /// Passes over logs of the block that stand before.
    pub(super) fn skip_logs(&mut self, logs: u64) {
        self.logs_before += logs;
    }

    fn enter(&mut self, mut frame: CallFrame, context: &impl ContextTr) {
        let depth = self.depth;
        self.depth += 1;
        if depth == 0 {
            // What a transaction that never ended left behind.
            self.frames.clear();
            self.watch.take_fault();
            frame.gas = context.tx().gas_limit();
            let spec: SpecId = context.cfg().spec().into();
            self.hidden = self.hide_precompiles.then(|| precompiles(spec));
        }
        if depth == 0 || !self.options.only_top_call {
            self.frames.push(frame);
        }
    }

    fn exit(&mut self, gas_used: u64, output: Bytes, error: Option<VmError>) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 && self.options.only_top_call {
            return;
        }
        let Some(frame) = self.frames.last_mut() else { return };
        frame.gas_used = gas_used;
        match error {
            None => frame.output = output,
            Some(error) => {
                if frame.kind.is_create() {
                    frame.to = None;
                }
                if error == VmError::Reverted {
                    frame.revert_reason = revert_reason(&output).unwrap_or_default();
                    frame.output = output;
                }
                frame.error = Some(error);
            }
        }
        if self.depth > 0 {
            self.nest();
        }
    }

    /// Puts the last frame into the one around it.
    fn nest(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let Some(parent) = self.frames.last_mut() else {
            self.frames.push(frame);
            return;
        };
        let hidden = matches!(frame.kind, FrameKind::Call | FrameKind::StaticCall)
            && self.hidden.zip(frame.to).is_some_and(|(precompiles, to)| precompiles.contains(&to));
        if !hidden {
            parent.calls.push(frame);
        }
    }
}

fn clear_failed_logs(frame: &mut CallFrame, parent_failed: bool) {
    let failed = parent_failed || frame.error.is_some();
    if failed {
        frame.logs.clear();
    }
    for call in &mut frame.calls {
        clear_failed_logs(call, failed);
    }
}

impl<CTX> Inspector<CTX, EthInterpreter> for CallTracer
where
    CTX: ContextTr<Journal: JournalExt>,
{
    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.watch.step(interp, context);
        if self.watch.attempt().opcode == opcode::SELFDESTRUCT {
            let state = context.journal().evm_state();
            let executing = state.get(&interp.input.target_address());
            self.destroying = executing.map_or(U256::ZERO, |account| account.info.balance);
        }
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.watch.step_end(interp, context);
        match self.watch.attempt().opcode {
            opcode::SELFDESTRUCT => {
                let result = interp.bytecode.instruction_result();
                if result == Some(InstructionResult::SelfDestruct) && !self.options.only_top_call {
                    let beneficiary = self.watch.attempt().operands[0];
                    self.frames.push(CallFrame {
                        kind: FrameKind::SelfDestruct,
                        from: interp.input.target_address(),
                        to: Some(Address::from_word(beneficiary.into())),
                        value: Some(self.destroying),
                        ..CallFrame::default()
                    });
                    self.nest();
                }
            }
            _ => {
                if let Some(InterpreterAction::Return(result)) = interp.bytecode.action()
                    && !context.cfg().spec().into().is_enabled_in(SpecId::HOMESTEAD)
                {
                    self.returned = result.output.clone();
                }
            }
        }
    }

    fn log(&mut self, context: &mut CTX, log: Log) {
        if !self.options.with_log || (self.options.only_top_call && self.depth > 1) {
            return;
        }
        let Some(frame) = self.frames.last_mut() else { return };
        // The log is the journal's last.
        let in_tx = context.journal().logs().len().saturating_sub(1) as u64;
        let Log { address, data } = log;
        let (topics, data) = data.split();
        frame.logs.push(CallLog {
            address,
            topics,
            data,
            index: self.logs_before + in_tx,
            position: frame.calls.len() as u64,
        });
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let (kind, from, value) = match inputs.scheme {
            CallScheme::Call => (FrameKind::Call, inputs.caller, Some(inputs.call_value())),
            CallScheme::CallCode => (FrameKind::CallCode, inputs.caller, Some(inputs.call_value())),
            CallScheme::DelegateCall => {
                (FrameKind::DelegateCall, inputs.target_address, Some(inputs.call_value()))
            }
            CallScheme::StaticCall => (FrameKind::StaticCall, inputs.caller, None),
        };
        let input = if self.depth > 0 && self.options.only_top_call {
            Bytes::new()
        } else {
            self.held_bytes += call_bytes(inputs);
            inputs.input.bytes(context)
        };
        let frame = CallFrame {
            kind,
            from,
            to: Some(inputs.bytecode_address),
            gas: inputs.gas_limit,
            input,
            value,
            ..CallFrame::default()
        };
        self.enter(frame, context);
        None
    }

    fn call_end(&mut self, context: &mut CTX, inputs: &CallInputs, outcome: &mut CallOutcome) {
        let fault = self.watch.take_fault();
        let result = &outcome.result;
        let error = match result.result {
            // Of a hidden call the input is not at hand, nor is its reason needed.
            InstructionResult::PrecompileError => {
                let input = self.frames.last().map(|frame| frame.input.clone());
                let spec = context.cfg().spec().into();
                Some(refusal(
                    &inputs.bytecode_address,
                    &input.unwrap_or_default(),
                    inputs.gas_limit,
                    spec,
                ))
            }
            other => failure(other, fault),
        };
        self.exit(gas_used(result, inputs.gas_limit), result.output.clone(), error);
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        let kind = match inputs.scheme() {
            CreateScheme::Create2 { .. } => FrameKind::Create2,
            _ => FrameKind::Create,
        };
        let frame = CallFrame {
            kind,
            from: inputs.caller(),
            gas: inputs.gas_limit(),
            input: inputs.init_code().clone(),
            value: Some(inputs.value()),
            ..CallFrame::default()
        };
        self.enter(frame, context);
        self.returned = Bytes::new();
        None
    }

    fn create_end(
        &mut self,
        context: &mut CTX,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        let fault = self.watch.take_fault();
        let error = creation_failure(context, outcome, fault);
        let recorded = self.depth == 1 || !self.options.only_top_call;
        if let Some(frame) = self.frames.last_mut().filter(|_| recorded) {
            frame.to = outcome.address;
        }
        let result = &outcome.result;
        let mut output = result.output.clone();
        // Before Homestead a contract whose code cannot be paid for is there without code; Geth
        // shows the code all the same.
        if output.is_empty() && error.is_none() {
            output = std::mem::take(&mut self.returned);
        }
        self.exit(gas_used(result, inputs.gas_limit()), output, error);
    }
}

/// What an exceptional halt left is taken away only after the inspector has seen it.
fn gas_used(result: &InterpreterResult, given: u64) -> u64 {
    if result.result.is_halt() { given } else { given.saturating_sub(result.gas.remaining()) }
}

/// Why a frame failed; `fault` is why its last opcode did.
fn failure(result: InstructionResult, fault: Option<VmError>) -> Option<VmError> {
    Some(match result {
        ok if ok.is_ok() => return None,
        InstructionResult::Revert => VmError::Reverted,
        InstructionResult::CallTooDeep => VmError::Depth,
        InstructionResult::OutOfFunds => VmError::InsufficientBalance,
        InstructionResult::CreateCollision => VmError::AddressCollision,
        InstructionResult::NonceOverflow => VmError::NonceUintOverflow,
        _ => fault.unwrap_or(VmError::OutOfGas),
    })
}

fn creation_failure(
    context: &impl ContextTr,
    outcome: &CreateOutcome,
    fault: Option<VmError>,
) -> Option<VmError> {
    let result = &outcome.result;
    let size = result.output.len() as u64;
    match result.result {
        // The frame did not start: the creator's nonce cannot grow.
        InstructionResult::Return if outcome.address.is_none() => Some(VmError::NonceUintOverflow),
        InstructionResult::CreateContractStartingWithEF => Some(VmError::InvalidCode),
        InstructionResult::CreateContractSizeLimit => {
            // Geth looks at the first byte, then charges, then looks at the size; Amsterdam looks
            // at the size before it charges.
            let spec: SpecId = context.cfg().spec().into();
            let code_byte = result.output.first();
            if spec.is_enabled_in(SpecId::LONDON) && code_byte == Some(&0xef) {
                Some(VmError::InvalidCode)
            } else if !spec.is_enabled_in(SpecId::AMSTERDAM)
                && result.gas.remaining() < size.saturating_mul(CODE_BYTE_GAS)
            {
                Some(VmError::CodeStoreOutOfGas)
            } else {
                let limit = context.cfg().max_code_size() as u64;
                Some(VmError::MaxCodeSize { size, limit })
            }
        }
        // The init code went through, so that it is its code that could not be paid for.
        InstructionResult::OutOfGas if fault.is_none() => Some(VmError::CodeStoreOutOfGas),
        other => failure(other, fault),
    }
}

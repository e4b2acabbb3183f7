//! `vmTrace`: every opcode with what it did, in OpenEthereum's form
//! (`ethcore/trace/src/types/trace.rs`, `executive_tracer.rs`).

use alloy_primitives::{Bytes, U256};
use alloy_rpc_types_trace::parity::{
    MemoryDelta, StorageDelta, VmExecutedOperation, VmInstruction, VmTrace,
};
use revm::{
    Inspector,
    bytecode::opcode::{self, OpCode},
    context_interface::ContextTr,
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, Interpreter,
        InterpreterAction,
        interpreter::EthInterpreter,
        interpreter_types::{Jumps, LegacyBytecode, LoopControl, MemoryTr},
    },
};
use std::ops::Range;

/// Records the opcodes of one transaction after the other.
#[derive(Debug, Default)]
pub(super) struct VmTracer {
    open: Vec<Frame>,
    root: Option<VmTrace>,
}

#[derive(Debug, Default)]
struct Frame {
    trace: VmTrace,
    pending: Option<Pending>,
    /// The last opcode opened a frame, whose end completes it.
    waits: Option<Pending>,
}

/// An opcode before it is known what it did.
#[derive(Debug, Clone)]
struct Pending {
    pc: usize,
    opcode: u8,
    gas: u64,
    store: Option<StorageDelta>,
    /// Memory it writes.
    memory: Range<usize>,
}

impl VmTracer {
    /// The opcodes of the transaction that ended, and a fresh start.
    pub(super) fn finish(&mut self) -> VmTrace {
        self.open.clear();
        self.root.take().unwrap_or_default()
    }

    fn enter(&mut self) {
        self.open.push(Frame::default());
    }

    fn exit(&mut self) {
        let Some(mut frame) = self.open.pop() else { return };
        // A frame cut off after an opcode that called never saw what came of it.
        frame.waits = None;
        match self.open.last_mut() {
            None => self.root = Some(frame.trace),
            Some(parent) => {
                if let Some(call) = parent.trace.ops.last_mut().filter(|_| parent.waits.is_some()) {
                    call.sub = Some(frame.trace);
                }
            }
        }
    }
}

fn as_usize(word: U256) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

/// Memory that an opcode writes, from its operands; a call's is what its caller set aside.
fn written(opcode: u8, peek: impl Fn(usize) -> U256) -> Range<usize> {
    let range = |offset: usize, size: usize| {
        if size == 0 { 0..0 } else { offset..offset.saturating_add(size) }
    };
    let operands = |offset: usize, size: usize| range(as_usize(peek(offset)), as_usize(peek(size)));
    match opcode {
        opcode::MSTORE | opcode::MLOAD => range(as_usize(peek(0)), 32),
        opcode::MSTORE8 => range(as_usize(peek(0)), 1),
        opcode::CALLDATACOPY | opcode::CODECOPY | opcode::RETURNDATACOPY | opcode::MCOPY => {
            operands(0, 2)
        }
        opcode::EXTCODECOPY => operands(1, 3),
        opcode::CALL | opcode::CALLCODE => operands(5, 6),
        opcode::DELEGATECALL | opcode::STATICCALL => operands(4, 5),
        _ => 0..0,
    }
}

/// Items an opcode leaves on the stack; of DUP and SWAP all that it moved.
fn pushed(opcode: u8) -> usize {
    match opcode {
        opcode::SWAP1..=opcode::SWAP16 => usize::from(opcode - opcode::SWAP1) + 2,
        opcode::DUP1..=opcode::DUP16 => usize::from(opcode - opcode::DUP1) + 2,
        _ => OpCode::new(opcode).map_or(0, |opcode| usize::from(opcode.outputs())),
    }
}

/// What is seen of an opcode once it is done.
fn executed(interp: &Interpreter<EthInterpreter>, pending: &Pending) -> VmExecutedOperation {
    let stack = interp.stack.data();
    let push = stack[stack.len().saturating_sub(pushed(pending.opcode))..].to_vec();
    let memory = &pending.memory;
    let mem = (!memory.is_empty() && memory.end <= interp.memory.size()).then(|| MemoryDelta {
        off: memory.start,
        data: Bytes::copy_from_slice(&interp.memory.slice(memory.clone())),
    });
    VmExecutedOperation { used: interp.gas.remaining(), push, mem, store: pending.store }
}

impl<CTX> Inspector<CTX, EthInterpreter> for VmTracer
where
    CTX: ContextTr<Journal: JournalExt>,
{
    fn initialize_interp(&mut self, interp: &mut Interpreter<EthInterpreter>, _: &mut CTX) {
        if let Some(frame) = self.open.last_mut() {
            frame.trace.code = Bytes::copy_from_slice(interp.bytecode.bytecode_slice());
        }
    }

    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, _: &mut CTX) {
        let Some(frame) = self.open.last_mut() else { return };
        // The call made before this opcode is over, and its outcome on the stack.
        if let Some(waiting) = frame.waits.take()
            && let Some(call) = frame.trace.ops.last_mut()
        {
            call.ex = Some(executed(interp, &waiting));
        }
        if interp.bytecode.bytecode_len() == 0 {
            return;
        }
        let opcode = interp.bytecode.opcode();
        let stack = interp.stack.data();
        let peek =
            |depth: usize| stack.len().checked_sub(depth + 1).map_or(U256::ZERO, |at| stack[at]);
        let store = (opcode == opcode::SSTORE).then(|| StorageDelta { key: peek(0), val: peek(1) });
        frame.pending = Some(Pending {
            pc: interp.bytecode.pc(),
            opcode,
            gas: interp.gas.remaining(),
            store,
            memory: written(opcode, peek),
        });
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, _: &mut CTX) {
        let Some(frame) = self.open.last_mut() else { return };
        let Some(pending) = frame.pending.take() else { return };
        let handed_on = match interp.bytecode.action() {
            Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => {
                Some(inputs.gas_limit())
            }
            Some(InterpreterAction::NewFrame(_)) => Some(0),
            _ => None,
        };
        let failed = interp.bytecode.instruction_result().is_some_and(|result| result.is_halt());
        let paid = pending.gas.saturating_sub(interp.gas.remaining());
        frame.trace.ops.push(VmInstruction {
            pc: pending.pc,
            cost: paid.saturating_sub(handed_on.unwrap_or_default()),
            // Of an opcode that failed there is nothing to see.
            ex: (handed_on.is_none() && !failed).then(|| executed(interp, &pending)),
            sub: None,
            op: OpCode::new(pending.opcode).map(|opcode| opcode.to_string()),
            idx: None,
        });
        frame.waits = handed_on.map(|_| pending);
    }

    fn call(&mut self, _: &mut CTX, _: &mut CallInputs) -> Option<CallOutcome> {
        self.enter();
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, _: &mut CallOutcome) {
        self.exit();
    }

    fn create(&mut self, _: &mut CTX, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.enter();
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, _: &mut CreateOutcome) {
        self.exit();
    }
}

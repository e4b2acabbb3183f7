use crate::Deadline;
use alloy_primitives::{Address, Log, U256};
use revm::{
    Inspector,
    context_interface::ContextTr,
    handler::FrameResult,
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult,
        Interpreter, interpreter::EthInterpreter,
    },
};

/// Opcodes between two looks at the deadline: about 20 microseconds.
const OPCODES_PER_LOOK: u32 = 1024;

/// Stops the EVM inside a transaction once a deadline has passed: every frame then ends at its
/// next opcode. What the inspector inside saw of that transaction is of no use.
///
/// The driver asks its own [`Deadline`] when the transaction is over; give both the same one.
#[derive(Debug)]
pub struct Watched<I, D> {
    inner: I,
    deadline: D,
    opcodes: u32,
    stopped: bool,
}

impl<I, D: Deadline> Watched<I, D> {
    /// Watches over an inspector.
    pub fn new(inner: I, deadline: D) -> Self {
        Self { inner, deadline, opcodes: 0, stopped: false }
    }

    /// The inspector inside.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// The inspector inside.
    pub fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// Whether the EVM was stopped; call it between transactions, it starts anew.
    pub fn take_stopped(&mut self) -> bool {
        self.opcodes = 0;
        std::mem::take(&mut self.stopped)
    }

    fn look(&mut self) -> bool {
        self.stopped = self.stopped || self.deadline.passed();
        self.stopped
    }
}

impl<CTX, I, D> Inspector<CTX, EthInterpreter> for Watched<I, D>
where
    CTX: ContextTr<Journal: JournalExt>,
    I: Inspector<CTX, EthInterpreter> + StopsItself,
    D: Deadline,
{
    fn initialize_interp(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.look();
        self.inner.initialize_interp(interp, context);
    }

    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.opcodes = self.opcodes.wrapping_add(1);
        let look = self.opcodes.is_multiple_of(OPCODES_PER_LOOK);
        if self.stopped || self.inner.is_full() || (look && self.look()) {
            interp.halt(InstructionResult::OutOfGas);
            return;
        }
        self.inner.step(interp, context);
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        if !self.stopped {
            self.inner.step_end(interp, context);
        }
    }

    fn log(&mut self, context: &mut CTX, log: Log) {
        self.inner.log(context, log);
    }

    fn log_full(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX, log: Log) {
        self.inner.log_full(interp, context, log);
    }

    fn frame_start(&mut self, context: &mut CTX, input: &mut FrameInput) -> Option<FrameResult> {
        self.inner.frame_start(context, input)
    }

    fn frame_end(&mut self, context: &mut CTX, input: &FrameInput, result: &mut FrameResult) {
        self.inner.frame_end(context, input, result);
    }

    fn call(&mut self, context: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.inner.call(context, inputs)
    }

    fn call_end(&mut self, context: &mut CTX, inputs: &CallInputs, outcome: &mut CallOutcome) {
        self.inner.call_end(context, inputs, outcome);
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.inner.create(context, inputs)
    }

    fn create_end(
        &mut self,
        context: &mut CTX,
        inputs: &CreateInputs,
        outcome: &mut CreateOutcome,
    ) {
        self.inner.create_end(context, inputs, outcome);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.inner.selfdestruct(contract, target, value);
    }
}

/// An inspector that may have enough before the transaction ends.
pub trait StopsItself {
    /// Whether it holds all that it may.
    fn is_full(&self) -> bool {
        false
    }
}

impl StopsItself for crate::LookupInspector {}

//! Notes each opcode before it runs and says, when it failed, what Geth would say.

use super::{
    metering::{Attempt, Checked, Facts, OPERANDS, check},
    operation::operation,
};
use alloy_primitives::{Address, U256};
use prestate_types::VmError;
use revm::{
    Database,
    bytecode::opcode,
    context_interface::{Cfg, ContextTr, JournalTr},
    inspector::JournalExt,
    interpreter::{
        InstructionResult, Interpreter,
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr, RuntimeFlag},
    },
    primitives::hardfork::SpecId,
    state::Account,
};

/// Watches one transaction.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Note what prices depend on, too, not only reasons.
    prices: bool,
    attempt: Attempt,
    seen: Seen,
    fault: Option<VmError>,
}

/// State around the opcode, before it.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// Value before the transaction and now, if the slot was loaded.
    slot: Option<(U256, U256)>,
    /// Whether the named account is empty and whether it exists, if it was loaded.
    named: Option<(bool, bool)>,
    has_balance: bool,
    is_destroyed: bool,
}

impl Watch {
    pub(super) fn new(prices: bool) -> Self {
        Self { prices, ..Self::default() }
    }

    /// The opcode noted last.
    pub(super) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// The reason why the frame's last opcode failed; `None` if it did not.
    pub(super) fn take_fault(&mut self) -> Option<VmError> {
        self.fault.take()
    }

    /// Before an opcode.
    pub(super) fn step<CTX>(&mut self, interp: &Interpreter<EthInterpreter>, context: &mut CTX)
    where
        CTX: ContextTr<Journal: JournalExt>,
    {
        let opcode = interp.bytecode.opcode();
        let stack = interp.stack.data();
        let attempt = &mut self.attempt;
        attempt.opcode = opcode;
        attempt.gas = interp.gas.remaining();
        attempt.stack_len = stack.len();
        attempt.is_static = interp.runtime_flag.is_static();
        if !takes_operands(opcode) {
            return;
        }
        attempt.memory_len = interp.memory.size() as u64;
        attempt.executing = interp.input.target_address();
        attempt.operands = [U256::ZERO; OPERANDS];
        for (operand, item) in attempt.operands.iter_mut().zip(stack.iter().rev()) {
            *operand = *item;
        }
        match opcode {
            opcode::CREATE | opcode::CREATE2 => {
                attempt.max_init_code = context.cfg().max_initcode_size() as u64;
            }
            opcode::SSTORE => {
                let account = context.journal().evm_state().get(&attempt.executing);
                let slot = account.and_then(|account| account.storage.get(&attempt.operands[0]));
                self.seen.slot = slot.map(|slot| (slot.original_value(), slot.present_value()));
                if self.prices {
                    attempt.warm = is_slot_warm(context, attempt);
                }
            }
            opcode::SLOAD if self.prices => attempt.warm = is_slot_warm(context, attempt),
            opcode::BALANCE | opcode::EXTCODESIZE | opcode::EXTCODEHASH | opcode::EXTCODECOPY
                if self.prices =>
            {
                attempt.warm = is_account_warm(context, named(attempt));
            }
            opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => {
                attempt.warm = is_account_warm(context, named(attempt));
                self.seen = Seen::of(context, attempt);
            }
            opcode::SELFDESTRUCT => {
                attempt.warm = is_account_warm(context, named(attempt));
                self.seen = Seen::of(context, attempt);
            }
            _ => {}
        }
    }

    /// After an opcode: what Geth's checks say, if it failed.
    pub(super) fn step_end<CTX>(
        &mut self,
        interp: &mut Interpreter<EthInterpreter>,
        context: &mut CTX,
    ) -> Option<Checked>
    where
        CTX: ContextTr<Journal: JournalExt>,
    {
        let result = interp.bytecode.instruction_result().filter(|result| result.is_halt())?;
        let spec: SpecId = context.cfg().spec().into();
        let mut facts = Around { seen: &self.seen, attempt: &self.attempt, context };
        let checked = check(&self.attempt, spec, &mut facts);
        let opcode = self.attempt.opcode;
        self.fault = Some(match &checked.fault {
            Some(fault) => fault.clone(),
            // revm looks at other things before it finds that there is no such opcode.
            None if operation(opcode, spec).is_none() => VmError::InvalidOpcode(opcode),
            None => running(result, opcode),
        });
        Some(checked)
    }
}

/// What goes wrong while an opcode runs.
fn running(result: InstructionResult, opcode: u8) -> VmError {
    match result {
        InstructionResult::InvalidJump => VmError::InvalidJump,
        InstructionResult::StateChangeDuringStaticCall
        | InstructionResult::CallNotAllowedInsideStatic => VmError::WriteProtection,
        InstructionResult::OutOfOffset => VmError::ReturnDataOutOfBounds,
        InstructionResult::OpcodeNotFound
        | InstructionResult::InvalidFEOpcode
        | InstructionResult::NotActivated => VmError::InvalidOpcode(opcode),
        _ => VmError::OutOfGas,
    }
}

/// Whether the checks look at more than the number of items.
const fn takes_operands(opcode: u8) -> bool {
    !matches!(
        opcode,
        0x00..=0x09
            | 0x0b..=0x1f
            | 0x30
            | 0x32..=0x36
            | 0x38
            | 0x3a
            | 0x3d
            | 0x40..=0x50
            | 0x56..=0x5d
            | 0x5f..=0x9f
    )
}

/// The account an opcode names.
fn named(attempt: &Attempt) -> Address {
    let at = match attempt.opcode {
        opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => 1,
        _ => 0,
    };
    Address::from_word(attempt.operands[at].into())
}

fn is_account_warm<CTX: ContextTr>(context: &mut CTX, address: Address) -> bool {
    // A cold account is not loaded but refused; that leaves no mark.
    context.journal_mut().load_account_info_skip_cold_load(address, false, true).is_ok()
}

fn is_slot_warm<CTX: ContextTr>(context: &mut CTX, attempt: &Attempt) -> bool {
    let slot = attempt.operands[0];
    context.journal_mut().sload_skip_cold_load(attempt.executing, slot, true).is_ok()
}

fn empty_and_exists(account: &Account) -> (bool, bool) {
    (account.info.is_empty(), !account.is_loaded_as_not_existing_not_touched())
}

impl Seen {
    fn of<CTX: ContextTr<Journal: JournalExt>>(context: &CTX, attempt: &Attempt) -> Self {
        let state = context.journal().evm_state();
        let executing = state.get(&attempt.executing);
        Self {
            slot: None,
            named: state.get(&named(attempt)).map(empty_and_exists),
            has_balance: executing.is_some_and(|account| !account.info.balance.is_zero()),
            is_destroyed: executing.is_some_and(Account::is_selfdestructed),
        }
    }
}

struct Around<'a, CTX> {
    seen: &'a Seen,
    attempt: &'a Attempt,
    context: &'a mut CTX,
}

impl<CTX: ContextTr<Journal: JournalExt>> Around<'_, CTX> {
    /// Not loaded before the opcode: as it was before the block's transaction.
    fn named_in_db(&mut self) -> (bool, bool) {
        let info = self.context.db_mut().basic(named(self.attempt)).ok().flatten();
        info.map_or((true, false), |info| (info.is_empty(), true))
    }
}

impl<CTX: ContextTr<Journal: JournalExt>> Facts for Around<'_, CTX> {
    fn slot(&mut self) -> (U256, U256) {
        if let Some(slot) = self.seen.slot {
            return slot;
        }
        let Attempt { executing, operands, .. } = self.attempt;
        let account = self.context.journal().evm_state().get(executing);
        if account.is_some_and(Account::is_created) {
            return (U256::ZERO, U256::ZERO);
        }
        let value = self.context.db_mut().storage(*executing, operands[0]).unwrap_or_default();
        (value, value)
    }

    fn is_empty(&mut self) -> bool {
        self.seen.named.unwrap_or_else(|| self.named_in_db()).0
    }

    fn exists(&mut self) -> bool {
        self.seen.named.unwrap_or_else(|| self.named_in_db()).1
    }

    fn has_balance(&mut self) -> bool {
        self.seen.has_balance
    }

    fn is_destroyed(&mut self) -> bool {
        self.seen.is_destroyed
    }
}

//! Geth's look-ups (`eth/tracers/native/prestate.go`, `OnOpcode`), seen from revm.
//!
//! Geth calls its hook when the opcode's stack and gas are checked and before it executes, with an
//! error if the check failed; the tracer then looks nothing up (rules B3, B4). revm calls `step`
//! before the check and `step_end` after execution, so operands are noted at `step` and counted at
//! `step_end`, unless the instruction halted. What fails later, inside the operation (call depth,
//! balance, collision), shows only when the frame starts, after `step_end`: it counts (rule B5).

use crate::{changes::info, tracers::operation};
use alloy_primitives::{
    Address, B256, U256, keccak256, map::AddressMap, map::AddressSet, map::B256Set,
};
use prestate_types::AccountInfo;
use revm::{
    Database, Inspector,
    bytecode::opcode,
    context_interface::{Cfg, ContextTr, JournalTr},
    inspector::JournalExt,
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter,
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr},
    },
    primitives::hardfork::SpecId,
};

/// Geth pads at most this much memory when it copies CREATE2 init code
/// (`eth/tracers/internal/util.go`, `memoryPadLimit`).
const MEMORY_PAD_LIMIT: i64 = 1024 * 1024;

/// An operand that counts if the instruction passes its checks.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Slot(Address, B256),
    Account(Address),
    SelfDestruct { executing: Address, beneficiary: Address },
    Call(Address),
    Create(Address),
}

/// Notes what Geth's prestate tracer would look up in one transaction.
#[derive(Debug, Default)]
pub struct LookupInspector {
    pending: Option<Pending>,
    undefined: bool,
    accounts: AddressSet,
    slots: AddressMap<B256Set>,
    created: AddressSet,
    deleted: AddressSet,
    /// Accounts as they were at their first look-up, where that is not how the transaction found
    /// them: made in it by a CREATE2 that the tracer passed over (rule B11).
    midway: AddressMap<AccountInfo>,
    /// The pending operand's account as it is now, if it was made in this transaction.
    pending_made: Option<AccountInfo>,
    /// The transaction's own frame has begun.
    begun: bool,
}

impl LookupInspector {
    /// Forgets everything; call it before each transaction.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks an account up that is as the transaction found it.
    pub fn account(&mut self, address: Address) {
        self.accounts.insert(address);
        self.midway.remove(&address);
    }

    /// Looks up the account of an operand.
    fn operand_account(&mut self, address: Address) {
        if self.accounts.insert(address)
            && let Some(made) = self.pending_made
        {
            self.midway.insert(address, made);
        }
    }

    /// An account as it was at its first look-up, if the transaction did not find it so.
    pub fn made_before_look_up(&self, address: &Address) -> Option<AccountInfo> {
        self.midway.get(address).copied()
    }

    /// Whether the slot was looked up.
    pub fn looked_up_slot(&self, address: &Address, slot: &B256) -> bool {
        self.slots.get(address).is_some_and(|slots| slots.contains(slot))
    }

    /// Accounts looked up, in no order.
    pub fn accounts(&self) -> impl Iterator<Item = &Address> {
        self.accounts.iter()
    }

    /// Slots of an account looked up, in no order.
    pub fn slots(&self, address: &Address) -> impl Iterator<Item = &B256> {
        self.slots.get(address).into_iter().flatten()
    }

    /// Whether Geth takes the account for deleted (rules E1 to E3: never rolled back).
    pub fn is_deleted(&self, address: &Address) -> bool {
        self.deleted.contains(address)
    }
}

impl<CTX> Inspector<CTX, EthInterpreter> for LookupInspector
where
    CTX: ContextTr<Journal: JournalExt>,
{
    fn call(&mut self, _context: &mut CTX, _inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.begun = true;
        None
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        if !std::mem::replace(&mut self.begun, true) {
            // Rule B10 for a creating transaction, whose sender's nonce goes up after this hook.
            let sender = inputs.caller();
            if let Some(account) = context.journal().evm_state().get(&sender) {
                self.created.insert(sender.create(account.info.nonce));
            }
        }
        None
    }

    fn step(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        self.pending = operand(interp, context);
        self.pending_made = self.pending.and_then(|pending| made(context, pending));
        // An opcode that the fork does not have passes Geth's checks and fails when it runs.
        self.undefined = self.pending.is_some()
            && operation(interp.bytecode.opcode(), context.cfg().spec().into()).is_none();
    }

    fn step_end(&mut self, interp: &mut Interpreter<EthInterpreter>, context: &mut CTX) {
        let Some(pending) = self.pending.take() else { return };
        let halted = interp.bytecode.instruction_result().is_some_and(|result| result.is_halt());
        if halted && !self.undefined {
            return;
        }
        match pending {
            Pending::Slot(address, slot) => {
                self.slots.entry(address).or_default().insert(slot);
            }
            Pending::Account(address) => self.operand_account(address),
            Pending::SelfDestruct { executing, beneficiary } => {
                self.operand_account(beneficiary);
                let cancun = context.cfg().spec().into().is_enabled_in(SpecId::CANCUN);
                if !cancun || self.created.contains(&executing) {
                    self.deleted.insert(executing);
                }
            }
            Pending::Call(address) => {
                self.operand_account(address);
                if context.cfg().spec().into().is_enabled_in(SpecId::PRAGUE)
                    && let Some(target) = delegation(context, address)
                {
                    self.accounts.insert(target);
                }
            }
            Pending::Create(address) => {
                self.operand_account(address);
                self.created.insert(address);
            }
        }
    }
}

/// The operand's account as it is now, if this transaction made it. Whatever else changes an
/// account looks it up first.
fn made<CTX: ContextTr<Journal: JournalExt>>(
    context: &CTX,
    pending: Pending,
) -> Option<AccountInfo> {
    let address = match pending {
        Pending::Slot(..) => return None,
        Pending::SelfDestruct { beneficiary, .. } => beneficiary,
        Pending::Account(address) | Pending::Call(address) | Pending::Create(address) => address,
    };
    let account = context.journal().evm_state().get(&address)?;
    account.is_created().then(|| info(&account.info))
}

/// The target that an account's code delegates to now (EIP-7702), if it does.
fn delegation<CTX: ContextTr<Journal: JournalExt>>(
    context: &mut CTX,
    address: Address,
) -> Option<Address> {
    // The call's own gas charge has loaded the account and its code.
    if let Some(code) =
        context.journal().evm_state().get(&address).and_then(|account| account.info.code.as_ref())
    {
        return code.eip7702_address();
    }
    let info = context.db_mut().basic(address).ok().flatten()?;
    let code = match info.code {
        Some(code) => code,
        None => context.db_mut().code_by_hash(info.code_hash).ok()?,
    };
    code.eip7702_address()
}

fn operand<CTX: ContextTr<Journal: JournalExt>>(
    interp: &Interpreter<EthInterpreter>,
    context: &CTX,
) -> Option<Pending> {
    let stack = interp.stack.data();
    let peek = |depth: usize| stack.len().checked_sub(depth + 1).map(|at| stack[at]);
    let address = |depth: usize| peek(depth).map(|word| Address::from_word(word.into()));
    let executing = interp.input.target_address();
    match interp.bytecode.opcode() {
        opcode::SLOAD | opcode::SSTORE => Some(Pending::Slot(executing, peek(0)?.into())),
        opcode::EXTCODECOPY | opcode::EXTCODEHASH | opcode::EXTCODESIZE | opcode::BALANCE => {
            Some(Pending::Account(address(0)?))
        }
        opcode::SELFDESTRUCT => Some(Pending::SelfDestruct { executing, beneficiary: address(0)? }),
        opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL
            if stack.len() >= 5 =>
        {
            Some(Pending::Call(address(1)?))
        }
        opcode::CREATE => {
            let nonce = context.journal().evm_state().get(&executing)?.info.nonce;
            Some(Pending::Create(executing.create(nonce)))
        }
        opcode::CREATE2 if stack.len() >= 4 => {
            let init_code = init_code(interp, peek(1)?, peek(2)?)?;
            let salt = B256::from(peek(3)?);
            Some(Pending::Create(executing.create2(salt, keccak256(init_code))))
        }
        _ => None,
    }
}

/// CREATE2's init code as Geth copies it: memory as it is before the opcode expands it, padded
/// with zeros; `None` where Geth gives up (rule B11).
fn init_code(interp: &Interpreter<EthInterpreter>, offset: U256, size: U256) -> Option<Vec<u8>> {
    // Geth takes the low 64 bits as a signed number.
    let low = |word: U256| i64::try_from(word.as_limbs()[0]).ok();
    let (offset, size) = (low(offset)?, low(size)?);
    let length = interp.memory.size() as i64;
    let end = offset.wrapping_add(size);
    if end < 0 || end.saturating_sub(length) > MEMORY_PAD_LIMIT {
        return None;
    }
    let mut code = vec![0; usize::try_from(size).ok()?];
    let held = (length - offset).clamp(0, size) as usize;
    if held > 0 {
        code[..held].copy_from_slice(&interp.memory.slice_len(offset as usize, held));
    }
    Some(code)
}

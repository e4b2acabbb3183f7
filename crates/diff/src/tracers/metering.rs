//! Why an opcode could not start, in Geth's order of checks: stack, constant gas, size of memory,
//! dynamic gas (`core/vm/interpreter.go`, `gas_table.go`, `operations_acl.go`).
//!
//! revm checks in another order and with fewer words. What it decided stands (both end the frame
//! and take its gas); only the reason and the price shown are worked out here, after the fact and
//! for failed opcodes alone.

use super::operation::operation;
use alloy_primitives::{Address, U256};
use prestate_types::VmError;
use revm::{bytecode::opcode, primitives::hardfork::SpecId};

/// Operands looked at, from the top.
pub(super) const OPERANDS: usize = 7;

/// An opcode and all that its checks look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempt {
    pub(super) opcode: u8,
    pub(super) gas: u64,
    pub(super) stack_len: usize,
    /// From the top; zero where the stack has none.
    pub(super) operands: [U256; OPERANDS],
    pub(super) memory_len: u64,
    pub(super) is_static: bool,
    pub(super) executing: Address,
    /// Whether the account or slot that the opcode names was accessed before (EIP-2929).
    pub(super) warm: bool,
    /// Most bytes of init code (EIP-3860, EIP-7954).
    pub(super) max_init_code: u64,
}

/// What the checks look up in the state, as it was before the opcode.
pub(super) trait Facts {
    /// The slot's value before the transaction and now.
    fn slot(&mut self) -> (U256, U256);
    /// The named account is empty (EIP-161).
    fn is_empty(&mut self) -> bool;
    /// The named account is in the state, empty or not.
    fn exists(&mut self) -> bool;
    /// The executing account has a balance.
    fn has_balance(&mut self) -> bool;
    /// The executing account has destroyed itself in this transaction.
    fn is_destroyed(&mut self) -> bool;
}

/// The price Geth shows, the refund it counts before it charges, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Checked {
    pub(super) cost: u64,
    pub(super) refund: i64,
    /// `None` if the opcode may start: then it failed while it ran.
    pub(super) fault: Option<VmError>,
}

/// Runs the checks.
pub(super) fn check(attempt: &Attempt, spec: SpecId, facts: &mut impl Facts) -> Checked {
    // An undefined opcode passes and fails when it runs.
    let Some(operation) = operation(attempt.opcode, spec) else { return Checked::default() };
    let refused = |fault| Checked { cost: operation.constant, refund: 0, fault: Some(fault) };
    let len = attempt.stack_len;
    if len < operation.min {
        return refused(VmError::StackUnderflow { len, required: operation.min });
    }
    if len > operation.max {
        return refused(VmError::StackOverflow { len, limit: operation.max });
    }
    let Some(gas) = attempt.gas.checked_sub(operation.constant) else {
        return refused(VmError::OutOfGas);
    };
    let Some(memory_size) = attempt.memory_size() else {
        return refused(VmError::GasUintOverflow);
    };
    let meter = Meter { attempt, spec, gas, memory_size };
    match meter.dynamic(facts) {
        Err(cause) => refused(VmError::DynamicGas(Box::new(cause))),
        Ok((cost, refund)) => Checked {
            cost: operation.constant.wrapping_add(cost),
            refund,
            fault: (cost > gas).then_some(VmError::OutOfGas),
        },
    }
}

/// A price and the refund that comes with it.
type Charge = Result<(u64, i64), VmError>;

struct Meter<'a> {
    attempt: &'a Attempt,
    spec: SpecId,
    /// Left after the constant part.
    gas: u64,
    /// Bytes of memory the opcode needs, whole words.
    memory_size: u64,
}

impl Attempt {
    fn operand(&self, at: usize) -> U256 {
        self.operands[at]
    }

    /// Bytes of memory needed, rounded up to words; `None` if they do not fit into 64 bits.
    fn memory_size(&self) -> Option<u64> {
        let range = |offset: usize, size: usize| end(self.operand(offset), self.operand(size));
        let fixed = |size: u64| end(self.operand(0), U256::from(size));
        let larger = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
        let end = match self.opcode {
            opcode::KECCAK256 | opcode::RETURN | opcode::REVERT => range(0, 1),
            opcode::LOG0..=opcode::LOG4 => range(0, 1),
            opcode::CALLDATACOPY | opcode::CODECOPY | opcode::RETURNDATACOPY => range(0, 2),
            opcode::EXTCODECOPY => range(1, 3),
            opcode::MLOAD | opcode::MSTORE => fixed(32),
            opcode::MSTORE8 => fixed(1),
            opcode::MCOPY => end(self.operand(0).max(self.operand(1)), self.operand(2)),
            opcode::CREATE | opcode::CREATE2 => range(1, 2),
            opcode::CALL | opcode::CALLCODE => larger(range(3, 4), range(5, 6)),
            opcode::DELEGATECALL | opcode::STATICCALL => larger(range(2, 3), range(4, 5)),
            _ => Some(0),
        }?;
        words(end).checked_mul(32)
    }
}

fn end(offset: U256, size: U256) -> Option<u64> {
    let size = u64::try_from(size).ok()?;
    if size == 0 {
        return Some(0);
    }
    u64::try_from(offset).ok()?.checked_add(size)
}

const fn words(bytes: u64) -> u64 {
    bytes.div_ceil(32)
}

impl Meter<'_> {
    fn has(&self, fork: SpecId) -> bool {
        self.spec.is_enabled_in(fork)
    }

    fn operand(&self, at: usize) -> U256 {
        self.attempt.operand(at)
    }

    fn no_static(&self) -> Result<(), VmError> {
        if self.attempt.is_static { Err(VmError::WriteProtection) } else { Ok(()) }
    }

    fn dynamic(&self, facts: &mut impl Facts) -> Charge {
        let cold_account = if self.has(SpecId::BERLIN) && !self.attempt.warm { 2_500 } else { 0 };
        let plain = |gas: u64| Ok((gas, 0));
        match self.attempt.opcode {
            opcode::KECCAK256 => plain(add(self.memory()?, self.per_word(1, 6)?)?),
            opcode::CALLDATACOPY | opcode::CODECOPY | opcode::RETURNDATACOPY | opcode::MCOPY => {
                plain(add(self.memory()?, self.per_word(2, 3)?)?)
            }
            opcode::EXTCODECOPY => {
                plain(add(add(self.memory()?, self.per_word(3, 3)?)?, cold_account)?)
            }
            opcode::MLOAD | opcode::MSTORE | opcode::MSTORE8 | opcode::RETURN | opcode::REVERT => {
                plain(self.memory()?)
            }
            opcode::BALANCE | opcode::EXTCODESIZE | opcode::EXTCODEHASH => plain(cold_account),
            opcode::LOG0..=opcode::LOG4 => self.log(),
            opcode::EXP => {
                let bytes = self.operand(1).byte_len() as u64;
                let price = if self.has(SpecId::SPURIOUS_DRAGON) { 50 } else { 10 };
                plain(10 + bytes * price)
            }
            opcode::CREATE | opcode::CREATE2 => self.create(),
            opcode::SLOAD if self.has(SpecId::BERLIN) => {
                plain(if self.attempt.warm { 100 } else { 2_100 })
            }
            opcode::SSTORE => self.sstore(facts),
            opcode::SELFDESTRUCT => self.selfdestruct(facts),
            opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => {
                plain(self.call(facts)?)
            }
            _ => plain(0),
        }
    }

    /// Gas for growing memory.
    fn memory(&self) -> Result<u64, VmError> {
        // Above, the square does not fit into 64 bits.
        if self.memory_size > 0x1f_ffff_ffe0 {
            return Err(VmError::GasUintOverflow);
        }
        let total = |bytes: u64| words(bytes) * 3 + words(bytes) * words(bytes) / 512;
        Ok(total(self.memory_size).saturating_sub(total(self.attempt.memory_len)))
    }

    fn per_word(&self, operand: usize, price: u64) -> Result<u64, VmError> {
        let bytes = u64::try_from(self.operand(operand)).map_err(|_| VmError::GasUintOverflow)?;
        words(bytes).checked_mul(price).ok_or(VmError::GasUintOverflow)
    }

    fn log(&self) -> Charge {
        let topics = u64::from(self.attempt.opcode - opcode::LOG0);
        let size = u64::try_from(self.operand(1)).map_err(|_| VmError::GasUintOverflow)?;
        let data = size.checked_mul(8).ok_or(VmError::GasUintOverflow)?;
        Ok((add(add(self.memory()?, 375 * (1 + topics))?, data)?, 0))
    }

    fn create(&self) -> Charge {
        self.no_static()?;
        let memory = self.memory()?;
        let create2 = self.attempt.opcode == opcode::CREATE2;
        let size = u64::try_from(self.operand(2)).map_err(|_| VmError::GasUintOverflow)?;
        let mut price = if create2 { 6 } else { 0 };
        if self.has(SpecId::SHANGHAI) {
            let limit = self.attempt.max_init_code;
            if size > limit {
                return Err(VmError::MaxInitCodeSize { size, limit });
            }
            price += 2;
        }
        let words = words(size).checked_mul(price).ok_or(VmError::GasUintOverflow)?;
        Ok((add(memory, words)?, 0))
    }

    fn sstore(&self, facts: &mut impl Facts) -> Charge {
        self.no_static()?;
        let net = self.has(SpecId::ISTANBUL);
        if net && self.gas <= 2_300 {
            return Err(VmError::ReentrancySentry);
        }
        let (original, current) = facts.slot();
        let value = self.operand(1);
        if !net {
            return Ok(match (current.is_zero(), value.is_zero()) {
                (true, false) => (20_000, 0),
                (false, true) => (5_000, 15_000),
                _ => (5_000, 0),
            });
        }
        let berlin = self.has(SpecId::BERLIN);
        let (cold, read) = if berlin { (2_100, 100) } else { (0, 800) };
        let access = if berlin && !self.attempt.warm { cold } else { 0 };
        let reset = 5_000 - cold;
        let clearing: i64 = if self.has(SpecId::LONDON) { 4_800 } else { 15_000 };
        if current == value {
            return Ok((access + read, 0));
        }
        if original == current {
            if original.is_zero() {
                return Ok((access + 20_000, 0));
            }
            let refund = if value.is_zero() { clearing } else { 0 };
            return Ok((access + reset, refund));
        }
        let mut refund = 0;
        if !original.is_zero() {
            if current.is_zero() {
                refund -= clearing;
            } else if value.is_zero() {
                refund += clearing;
            }
        }
        if original == value {
            let first = if original.is_zero() { 20_000 } else { reset };
            refund += (first - read) as i64;
        }
        Ok((access + read, refund))
    }

    fn selfdestruct(&self, facts: &mut impl Facts) -> Charge {
        self.no_static()?;
        let mut gas = 0;
        if self.has(SpecId::BERLIN) {
            if !self.attempt.warm {
                gas = 2_600;
                if self.gas < gas {
                    return Err(VmError::OutOfGas);
                }
            }
        } else if self.has(SpecId::TANGERINE) {
            gas = 5_000;
        }
        let creates = if self.has(SpecId::SPURIOUS_DRAGON) {
            facts.is_empty() && facts.has_balance()
        } else {
            self.has(SpecId::TANGERINE) && !facts.exists()
        };
        if creates {
            gas += 25_000;
        }
        let refunds = !self.has(SpecId::LONDON) && !facts.is_destroyed();
        Ok((gas, if refunds { 24_000 } else { 0 }))
    }

    fn call(&self, facts: &mut impl Facts) -> Result<u64, VmError> {
        let attempt = self.attempt;
        let values =
            matches!(attempt.opcode, opcode::CALL | opcode::CALLCODE) && !self.operand(2).is_zero();
        let is_call = attempt.opcode == opcode::CALL;
        let delegations = self.has(SpecId::PRAGUE);
        if delegations && is_call && values {
            self.no_static()?;
        }
        let cold = if self.has(SpecId::BERLIN) && !attempt.warm { 2_500 } else { 0 };
        let available = self.gas.checked_sub(cold).ok_or(VmError::OutOfGas)?;
        if is_call && values {
            self.no_static()?;
        }
        let mut intrinsic = add(self.memory()?, if values { 9_000 } else { 0 })?;
        if is_call {
            if available < intrinsic {
                return Err(VmError::OutOfGas);
            }
            let creates = if self.has(SpecId::SPURIOUS_DRAGON) {
                values && facts.is_empty()
            } else {
                !facts.exists()
            };
            intrinsic = add(intrinsic, if creates { 25_000 } else { 0 })?;
        }
        if delegations && available < intrinsic {
            return Err(VmError::OutOfGas);
        }
        let asked = u64::try_from(self.operand(0));
        let given = if self.has(SpecId::TANGERINE) {
            // Geth subtracts without looking; what comes out is refused by the final charge.
            let rest = available.wrapping_sub(intrinsic);
            let most = rest - rest / 64;
            asked.map_or(most, |asked| asked.min(most))
        } else {
            asked.map_err(|_| VmError::GasUintOverflow)?
        };
        // What is left to fail under EIP-7702 is the charge for resolving a delegation.
        if delegations {
            return Err(VmError::OutOfGas);
        }
        add(add(intrinsic, given)?, cold)
    }
}

fn add(a: u64, b: u64) -> Result<u64, VmError> {
    a.checked_add(b).ok_or(VmError::GasUintOverflow)
}

use crate::opcode_name;
use std::{borrow::Cow, fmt};

/// Why a call, a creation or a step failed, in the terms of Geth's EVM. Displays as Geth's text
/// (`core/vm/errors.go`), which is part of what the tracers answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VmError {
    /// Gas ran out.
    OutOfGas,
    /// Computing an opcode's dynamic gas failed; Geth wraps the cause into an out-of-gas error.
    DynamicGas(Box<VmError>),
    /// SSTORE with 2,300 gas or less (EIP-2200); occurs inside [`VmError::DynamicGas`].
    ReentrancySentry,
    /// Gas is left, but not for storing the code of the new contract.
    CodeStoreOutOfGas,
    /// More than 1,024 calls inside each other.
    Depth,
    /// The caller has less than it would send.
    InsufficientBalance,
    /// A contract is there already.
    AddressCollision,
    /// REVERT.
    Reverted,
    /// New code is larger than EIP-170 or EIP-7954 allow.
    MaxCodeSize {
        /// Its length in bytes.
        size: u64,
        /// The most allowed.
        limit: u64,
    },
    /// Init code is larger than EIP-3860 or EIP-7954 allow; occurs inside [`VmError::DynamicGas`].
    MaxInitCodeSize {
        /// Its length in bytes.
        size: u64,
        /// The most allowed.
        limit: u64,
    },
    /// A jump to something that is no JUMPDEST.
    InvalidJump,
    /// A change of state inside a static call.
    WriteProtection,
    /// RETURNDATACOPY beyond the data.
    ReturnDataOutOfBounds,
    /// A number that must fit into 64 bits does not.
    GasUintOverflow,
    /// New code begins with 0xef (EIP-3541).
    InvalidCode,
    /// The creator's nonce is the highest possible (EIP-2681).
    NonceUintOverflow,
    /// Fewer items on the stack than the opcode takes.
    StackUnderflow {
        /// Items there.
        len: usize,
        /// Items taken.
        required: usize,
    },
    /// More items on the stack than leave room for the opcode's.
    StackOverflow {
        /// Items there.
        len: usize,
        /// The most allowed before this opcode.
        limit: usize,
    },
    /// No such opcode in this fork.
    InvalidOpcode(u8),
    /// A precompile refused its input; Geth's words.
    Precompile(Cow<'static, str>),
}

impl fmt::Display for VmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfGas => "out of gas",
            Self::DynamicGas(cause) => return write!(f, "out of gas: {cause}"),
            Self::ReentrancySentry => "not enough gas for reentrancy sentry",
            Self::CodeStoreOutOfGas => "contract creation code storage out of gas",
            Self::Depth => "max call depth exceeded",
            Self::InsufficientBalance => "insufficient balance for transfer",
            Self::AddressCollision => "contract address collision",
            Self::Reverted => "execution reverted",
            Self::MaxCodeSize { size, limit } => {
                return write!(f, "max code size exceeded: code size {size} limit {limit}");
            }
            Self::MaxInitCodeSize { size, limit } => {
                return write!(f, "max initcode size exceeded: code size {size} limit {limit}");
            }
            Self::InvalidJump => "invalid jump destination",
            Self::WriteProtection => "write protection",
            Self::ReturnDataOutOfBounds => "return data out of bounds",
            Self::GasUintOverflow => "gas uint64 overflow",
            Self::InvalidCode => "invalid code: must not begin with 0xef",
            Self::NonceUintOverflow => "nonce uint64 overflow",
            Self::StackUnderflow { len, required } => {
                return write!(f, "stack underflow ({len} <=> {required})");
            }
            Self::StackOverflow { len, limit } => {
                return write!(f, "stack limit reached {len} ({limit})");
            }
            Self::InvalidOpcode(opcode) => {
                return match opcode_name(*opcode) {
                    Some(name) => write!(f, "invalid opcode: {name}"),
                    None => write!(f, "invalid opcode: opcode {opcode:#x} not defined"),
                };
            }
            Self::Precompile(text) => text,
        })
    }
}

impl std::error::Error for VmError {}

impl VmError {
    /// The text that `flatCallTracer` prints with `convertParityErrors`; `None` where it keeps
    /// Geth's (`eth/tracers/native/call_flat.go`).
    pub fn parity_text(&self) -> Option<&'static str> {
        Some(match self {
            Self::CodeStoreOutOfGas
            | Self::OutOfGas
            | Self::DynamicGas(_)
            | Self::GasUintOverflow => "Out of gas",
            Self::InvalidJump => "Bad jump destination",
            Self::Reverted => "Reverted",
            Self::ReturnDataOutOfBounds => "Out of bounds",
            // The mapping names one case of the stack's overflow only.
            Self::StackOverflow { len: 1024, limit: 1023 } => "Out of stack",
            Self::StackUnderflow { .. } => "Stack underflow",
            Self::InvalidOpcode(_) => "Bad instruction",
            Self::Precompile(text) if matches!(&**text, "invalid input length") => {
                "Built-in failed"
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_geths() {
        let wrapped = |cause| VmError::DynamicGas(Box::new(cause)).to_string();
        assert_eq!(wrapped(VmError::WriteProtection), "out of gas: write protection");
        assert_eq!(
            wrapped(VmError::MaxInitCodeSize { size: 49_153, limit: 49_152 }),
            "out of gas: max initcode size exceeded: code size 49153 limit 49152"
        );
        let underflow = VmError::StackUnderflow { len: 0, required: 2 };
        assert_eq!(underflow.to_string(), "stack underflow (0 <=> 2)");
        assert_eq!(VmError::InvalidOpcode(0xfe).to_string(), "invalid opcode: INVALID");
        assert_eq!(
            VmError::InvalidOpcode(0x0c).to_string(),
            "invalid opcode: opcode 0xc not defined"
        );
    }
}

//! EVM code by hand: enough of an assembler for test programs.

use alloy_primitives::{Address, B256, Bytes, U256};

/// Opcodes the programs use, by their names in the Yellow Paper and the EIPs.
#[allow(missing_docs, reason = "the names are the documentation")]
pub mod op {
    pub const STOP: u8 = 0x00;
    pub const ADD: u8 = 0x01;
    pub const SUB: u8 = 0x03;
    pub const LT: u8 = 0x10;
    pub const ISZERO: u8 = 0x15;
    pub const KECCAK256: u8 = 0x20;
    pub const ADDRESS: u8 = 0x30;
    pub const BALANCE: u8 = 0x31;
    pub const ORIGIN: u8 = 0x32;
    pub const CALLER: u8 = 0x33;
    pub const CALLVALUE: u8 = 0x34;
    pub const CALLDATALOAD: u8 = 0x35;
    pub const CALLDATASIZE: u8 = 0x36;
    pub const CODESIZE: u8 = 0x38;
    pub const CODECOPY: u8 = 0x39;
    pub const GASPRICE: u8 = 0x3a;
    pub const EXTCODESIZE: u8 = 0x3b;
    pub const EXTCODECOPY: u8 = 0x3c;
    pub const RETURNDATASIZE: u8 = 0x3d;
    pub const RETURNDATACOPY: u8 = 0x3e;
    pub const EXTCODEHASH: u8 = 0x3f;
    pub const BLOCKHASH: u8 = 0x40;
    pub const COINBASE: u8 = 0x41;
    pub const TIMESTAMP: u8 = 0x42;
    pub const NUMBER: u8 = 0x43;
    pub const PREVRANDAO: u8 = 0x44;
    pub const GASLIMIT: u8 = 0x45;
    pub const CHAINID: u8 = 0x46;
    pub const SELFBALANCE: u8 = 0x47;
    pub const BASEFEE: u8 = 0x48;
    pub const BLOBHASH: u8 = 0x49;
    pub const BLOBBASEFEE: u8 = 0x4a;
    pub const POP: u8 = 0x50;
    pub const MLOAD: u8 = 0x51;
    pub const MSTORE: u8 = 0x52;
    pub const SLOAD: u8 = 0x54;
    pub const SSTORE: u8 = 0x55;
    pub const JUMP: u8 = 0x56;
    pub const JUMPI: u8 = 0x57;
    pub const PC: u8 = 0x58;
    pub const GAS: u8 = 0x5a;
    pub const JUMPDEST: u8 = 0x5b;
    pub const TLOAD: u8 = 0x5c;
    pub const TSTORE: u8 = 0x5d;
    pub const MCOPY: u8 = 0x5e;
    pub const PUSH0: u8 = 0x5f;
    pub const DUP1: u8 = 0x80;
    pub const DUP2: u8 = 0x81;
    pub const SWAP1: u8 = 0x90;
    pub const LOG0: u8 = 0xa0;
    pub const CREATE: u8 = 0xf0;
    pub const CALL: u8 = 0xf1;
    pub const CALLCODE: u8 = 0xf2;
    pub const RETURN: u8 = 0xf3;
    pub const DELEGATECALL: u8 = 0xf4;
    pub const CREATE2: u8 = 0xf5;
    pub const STATICCALL: u8 = 0xfa;
    pub const REVERT: u8 = 0xfd;
    pub const INVALID: u8 = 0xfe;
    pub const SELFDESTRUCT: u8 = 0xff;
}

/// Code under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code(Vec<u8>);

/// Gas handed to an inner call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGas {
    /// All there is.
    All,
    /// So much.
    Exactly(u64),
}

impl Code {
    /// No code.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An opcode without immediate.
    pub fn op(mut self, opcode: u8) -> Self {
        self.0.push(opcode);
        self
    }

    /// Several opcodes.
    pub fn ops(mut self, opcodes: &[u8]) -> Self {
        self.0.extend_from_slice(opcodes);
        self
    }

    /// Other code behind this.
    pub fn then(mut self, code: &Self) -> Self {
        self.0.extend_from_slice(&code.0);
        self
    }

    /// The shortest PUSH of a number.
    pub fn push(mut self, value: impl TryInto<U256>) -> Self {
        let Ok(value) = value.try_into() else { return self };
        let bytes = value.to_be_bytes::<32>();
        let bytes = &bytes[value.leading_zeros() / 8..];
        // PUSH0 is 0x5f, PUSHn is 0x5f + n.
        self.0.push(op::PUSH0 + bytes.len() as u8);
        self.0.extend_from_slice(bytes);
        self
    }

    /// PUSH20 of an address.
    pub fn push_address(mut self, address: Address) -> Self {
        self.0.push(op::PUSH0 + 20);
        self.0.extend_from_slice(address.as_slice());
        self
    }

    /// Writes bytes to memory from offset 0 on, word by word.
    pub fn memory(mut self, bytes: &[u8]) -> Self {
        for (index, chunk) in bytes.chunks(32).enumerate() {
            let mut word = [0u8; 32];
            word[..chunk.len()].copy_from_slice(chunk);
            self = self.push(U256::from_be_bytes(word)).push(U256::from(32 * index)).op(op::MSTORE);
        }
        self
    }

    /// `SSTORE(slot, value)`.
    pub fn sstore(self, slot: u64, value: u64) -> Self {
        self.push(U256::from(value)).push(U256::from(slot)).op(op::SSTORE)
    }

    /// `POP(SLOAD(slot))`.
    pub fn sload(self, slot: u64) -> Self {
        self.push(U256::from(slot)).ops(&[op::SLOAD, op::POP])
    }

    /// One of BALANCE, EXTCODESIZE, EXTCODEHASH on an address, result dropped.
    pub fn look_up(self, opcode: u8, address: Address) -> Self {
        self.push_address(address).ops(&[opcode, op::POP])
    }

    /// CALL, CALLCODE (value used), DELEGATECALL or STATICCALL of an address without input; the
    /// success flag stays on the stack.
    pub fn call(self, opcode: u8, to: Address, value: u128, gas: CallGas) -> Self {
        let code = self.ops(&[op::PUSH0; 4]);
        let code = match opcode {
            op::CALL | op::CALLCODE => code.push(U256::from(value)),
            _ => code,
        };
        let code = code.push_address(to);
        match gas {
            CallGas::All => code.op(op::GAS),
            CallGas::Exactly(gas) => code.push(U256::from(gas)),
        }
        .op(opcode)
    }

    /// A call whose flag is dropped.
    pub fn call_pop(self, opcode: u8, to: Address, value: u128, gas: CallGas) -> Self {
        self.call(opcode, to, value, gas).op(op::POP)
    }

    /// CREATE of init code (written to memory from 0); the new address stays on the stack.
    pub fn create(self, value: u128, init: &Self) -> Self {
        self.memory(&init.0)
            .push(U256::from(init.0.len()))
            .op(op::PUSH0)
            .push(U256::from(value))
            .op(op::CREATE)
    }

    /// CREATE2 of init code (written to memory from 0); the new address stays on the stack.
    pub fn create2(self, value: u128, init: &Self, salt: u64) -> Self {
        self.memory(&init.0)
            .push(U256::from(salt))
            .push(U256::from(init.0.len()))
            .op(op::PUSH0)
            .push(U256::from(value))
            .op(op::CREATE2)
    }

    /// Init code that deploys `self` after running `before`.
    pub fn deployed_after(&self, before: &Self) -> Self {
        // PUSH2 size, PUSH2 offset, PUSH0, CODECOPY, PUSH2 size, PUSH0, RETURN: 13 bytes.
        let offset = before.0.len() + 13;
        let (size, offset) = ((self.0.len() as u16).to_be_bytes(), (offset as u16).to_be_bytes());
        let mut code = before.0.clone();
        code.extend([op::PUSH0 + 2, size[0], size[1], op::PUSH0 + 2, offset[0], offset[1]]);
        code.extend([op::PUSH0, op::CODECOPY, op::PUSH0 + 2, size[0], size[1]]);
        code.extend([op::PUSH0, op::RETURN]);
        code.extend_from_slice(&self.0);
        Self(code)
    }

    /// Init code that deploys `self`.
    pub fn deployed(&self) -> Self {
        self.deployed_after(&Self::new())
    }

    /// The address CREATE2 gives this as init code.
    pub fn create2_address(&self, creator: Address, salt: u64) -> Address {
        creator.create2_from_code(B256::from(U256::from(salt)), &self.0)
    }

    /// The bytes.
    pub fn bytes(&self) -> Bytes {
        self.0.clone().into()
    }

    /// How long.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Code {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_the_shortest() {
        let code = Code::new().push(U256::ZERO).push(U256::from(1)).push(U256::from(0x1234));
        assert_eq!(code.bytes().as_ref(), [0x5f, 0x60, 1, 0x61, 0x12, 0x34]);
        assert_eq!(Code::new().push(U256::MAX).len(), 33);
    }

    #[test]
    fn init_code_returns_what_stands_behind_it() {
        let runtime = Code::new().sstore(1, 2);
        let init = runtime.deployed();
        assert_eq!(init.len(), 13 + runtime.len());
        assert!(init.bytes().ends_with(&runtime.bytes()));
        assert_eq!(init.bytes()[3..6], [0x61, 0, 13]);
    }
}

//! Random EVM programs.
//!
//! A program is a list of pieces. Each piece is position-independent and leaves the stack as it
//! found it, so any of them can be dropped: that is how a failing case gets smaller.

use super::{
    asm::{CallGas, Code, op},
    genesis::Fork,
};
use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, U256, hex};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

/// Addresses and init codes that programs speak of, and the rules they run under.
#[derive(Debug, Clone)]
pub struct Programs {
    fork: Fork,
    /// Contracts, accounts with and without funds, absent ones, precompiles.
    addresses: Vec<Address>,
    /// Init codes that several creators use, so that addresses collide and can be funded ahead.
    stock: Vec<Code>,
}

/// Salts in use: few, so that the same address is asked for again.
pub(super) const SALTS: std::ops::Range<u64> = 0..3;
const SLOTS: std::ops::Range<u64> = 0..6;
const CALLS: [u8; 4] = [op::CALL, op::CALLCODE, op::DELEGATECALL, op::STATICCALL];
const LOOK_UPS: [u8; 3] = [op::BALANCE, op::EXTCODESIZE, op::EXTCODEHASH];

/// Amounts of gas around which a look-up opcode fails or not: warm and cold accesses (EIP-2929),
/// the SSTORE sentry (EIP-2200), a slot set or changed, value transfers, creations.
const EDGES: [u64; 12] =
    [0, 100, 700, 2_100, 2_300, 2_600, 5_000, 9_100, 20_000, 22_100, 32_000, 34_600];

impl Programs {
    /// Programs that speak of these addresses.
    pub fn new(fork: Fork, addresses: Vec<Address>, rng: &mut StdRng) -> Self {
        let mut programs = Self { fork, addresses, stock: Vec::new() };
        // The first ones are made without stock of their own.
        let stock: Vec<_> = (0..6).map(|_| programs.init(rng, 2)).collect();
        programs.stock = stock;
        programs
    }

    /// Adds addresses that became known later.
    pub fn know(&mut self, addresses: impl IntoIterator<Item = Address>) {
        self.addresses.extend(addresses);
    }

    /// The shared init codes.
    pub fn stock(&self) -> &[Code] {
        &self.stock
    }

    /// Any known address.
    pub fn address(&self, rng: &mut StdRng) -> Address {
        self.addresses.choose(rng).copied().unwrap_or_default()
    }

    /// The pieces of a contract.
    pub fn contract(&self, rng: &mut StdRng) -> Vec<Code> {
        let count = rng.random_range(1..7);
        let mut pieces: Vec<_> = (0..count).map(|_| self.piece(rng, 0)).collect();
        pieces.push(self.ending(rng));
        pieces
    }

    /// A contract of a single look-up: called with gas near the edge of what it needs.
    pub fn probe(&self, rng: &mut StdRng) -> Vec<Code> {
        let piece = match rng.random_range(0..5) {
            0 => self.storage(rng),
            1 => self.look_up(rng),
            2 => self.call(rng),
            3 => self.create(rng, 2),
            _ => Code::new().push_address(self.address(rng)).op(op::SELFDESTRUCT),
        };
        vec![piece]
    }

    /// Init code: pieces, then a way to end a constructor.
    pub fn init(&self, rng: &mut StdRng, depth: usize) -> Code {
        let count = rng.random_range(0..3);
        let before = (0..count).fold(Code::new(), |code, _| code.then(&self.piece(rng, depth + 1)));
        match rng.random_range(0..12) {
            // Nothing deployed: the account exists with nonce 1.
            0 => before,
            1 => before.then(&revert_with(rng)),
            2 => before.op(op::INVALID),
            3 => before.push_address(self.address(rng)).op(op::SELFDESTRUCT),
            // EIP-3541 refuses code that starts with 0xef.
            4 => before
                .push(U256::from(0xefu64) << 248)
                .ops(&[op::PUSH0, op::MSTORE])
                .push(U256::from(2))
                .ops(&[op::PUSH0, op::RETURN]),
            // EIP-170 refuses code over 24,576 bytes; far less gas than that is usual here.
            5 => before
                .push(U256::from(rng.random_range(1..30_000u32)))
                .ops(&[op::PUSH0, op::RETURN]),
            _ => {
                let mut runtime = Code::new();
                for _ in 0..rng.random_range(0..3) {
                    runtime = runtime.then(&self.piece(rng, depth + 1));
                }
                runtime.then(&self.ending(rng)).deployed_after(&before)
            }
        }
    }

    /// One piece.
    fn piece(&self, rng: &mut StdRng, depth: usize) -> Code {
        let piece = match rng.random_range(0..100) {
            0..18 => self.storage(rng),
            18..30 => self.look_up(rng),
            30..52 => self.call(rng),
            52..66 if depth < 3 => self.create(rng, depth),
            66..70 => self.odd_create2(rng),
            70..75 => self.transient(rng),
            75..81 => log(rng),
            81..87 => self.environment(rng),
            87..91 => memory(rng),
            91..94 => self.precompile(rng),
            94..96 => self.system_call(rng),
            96..98 => by_gas(rng),
            98 => self.call_back(rng),
            _ => return self.fault(rng),
        };
        if rng.random_ratio(1, 8) { skipped_if(rng, &piece) } else { piece }
    }

    fn storage(&self, rng: &mut StdRng) -> Code {
        let slot = rng.random_range(SLOTS);
        match rng.random_range(0..5) {
            0 | 1 => Code::new().sload(slot),
            2 => Code::new().sstore(slot, 0),
            3 => {
                // Set and restored within one piece.
                let value = rng.random_range(1..4);
                Code::new().sstore(slot, value + 1).sstore(slot, value)
            }
            _ => Code::new().sstore(slot, rng.random_range(0..4)),
        }
    }

    fn look_up(&self, rng: &mut StdRng) -> Code {
        let address = self.address(rng);
        if rng.random_ratio(1, 4) {
            let size = rng.random_range(0..70u64);
            return Code::new()
                .push(U256::from(size))
                .ops(&[op::PUSH0, op::PUSH0])
                .push_address(address)
                .op(op::EXTCODECOPY);
        }
        Code::new().look_up(*LOOK_UPS.choose(rng).unwrap_or(&op::BALANCE), address)
    }

    fn gas(rng: &mut StdRng) -> CallGas {
        match rng.random_range(0..10) {
            0..6 => CallGas::All,
            6..9 => {
                let edge = *EDGES.choose(rng).unwrap_or(&0);
                CallGas::Exactly(edge + rng.random_range(0..40))
            }
            _ => CallGas::Exactly(rng.random_range(0..60_000)),
        }
    }

    fn value(rng: &mut StdRng) -> u128 {
        match rng.random_range(0..20) {
            0..14 => 0,
            14..19 => rng.random_range(1..9),
            // More than anybody holds.
            _ => u128::MAX,
        }
    }

    fn call(&self, rng: &mut StdRng) -> Code {
        let opcode = *CALLS.choose(rng).unwrap_or(&op::CALL);
        let call = Code::new().call(opcode, self.address(rng), Self::value(rng), Self::gas(rng));
        match rng.random_range(0..8) {
            // The flag into a slot: success itself becomes state.
            0 => call.push(U256::from(rng.random_range(SLOTS))).op(op::SSTORE),
            1 => call.op(op::POP).ops(&[
                op::RETURNDATASIZE,
                op::PUSH0,
                op::PUSH0,
                op::RETURNDATACOPY,
            ]),
            _ => call.op(op::POP),
        }
    }

    fn create(&self, rng: &mut StdRng, depth: usize) -> Code {
        let init = match self.stock.choose(rng) {
            Some(stock) if rng.random_bool(0.5) => stock.clone(),
            _ => self.init(rng, depth + 1),
        };
        let value = match rng.random_range(0..8) {
            0..5 => 0,
            5..7 => rng.random_range(1..9),
            _ => u128::MAX,
        };
        let created = if rng.random_bool(0.4) {
            Code::new().create(value, &init)
        } else {
            Code::new().create2(value, &init, rng.random_range(SALTS))
        };
        match rng.random_range(0..6) {
            0 | 1 => created.op(op::POP),
            2 => created.op(op::EXTCODEHASH).op(op::POP),
            n => {
                // The new contract called, with wei now and then: also after it destroyed itself.
                let wei = U256::from(rng.random_range(0..3) / 2 * 5);
                let mut code = created;
                for _ in 0..n - 2 {
                    // Stack: address, then four empty ranges, value, address, gas.
                    code = code.ops(&[op::PUSH0; 4]).push(wei).op(op::DUP1 + 5).ops(&[
                        op::GAS,
                        op::CALL,
                        op::POP,
                    ]);
                }
                code.op(op::POP)
            }
        }
    }

    /// CREATE2 whose range lies beyond memory, and with no size at any offset (rule B11).
    fn odd_create2(&self, rng: &mut StdRng) -> Code {
        let salt = U256::from(rng.random_range(SALTS));
        let (offset, size) = match rng.random_range(0..6) {
            0 => (U256::from(rng.random_range(0..200u64)), rng.random_range(1..300)),
            1 => (U256::from((1u64 << 20) + rng.random_range(0..80) - 40), 0),
            2 => (U256::from(1u64) << 63, 0),
            3 => (U256::from(1u64) << rng.random_range(64..256usize), 0),
            4 => (U256::MAX - U256::from(rng.random_range(0..50u64)), 0),
            // Gas pays for it, but it lies more than a mebibyte behind memory's end.
            _ => (U256::from((1u64 << 20) + 100), rng.random_range(1..40)),
        };
        Code::new()
            .push(salt)
            .push(U256::from(size))
            .push(offset)
            .op(op::PUSH0)
            .ops(&[op::CREATE2, op::POP])
    }

    fn transient(&self, rng: &mut StdRng) -> Code {
        if self.fork < Fork::Cancun {
            return self.storage(rng);
        }
        let slot = U256::from(rng.random_range(SLOTS));
        let code =
            Code::new().push(U256::from(rng.random_range(0..4u64))).push(slot).op(op::TSTORE);
        // Read back into a slot, so that it shows.
        code.push(slot).op(op::TLOAD).push(U256::from(rng.random_range(SLOTS))).op(op::SSTORE)
    }

    fn environment(&self, rng: &mut StdRng) -> Code {
        let mut readers = vec![
            op::ADDRESS,
            op::ORIGIN,
            op::CALLER,
            op::CALLVALUE,
            op::CALLDATASIZE,
            op::CODESIZE,
            op::GASPRICE,
            op::COINBASE,
            op::TIMESTAMP,
            op::NUMBER,
            op::PREVRANDAO,
            op::GASLIMIT,
            op::CHAINID,
            op::SELFBALANCE,
            op::BASEFEE,
        ];
        if self.fork >= Fork::Cancun {
            readers.push(op::BLOBBASEFEE);
        }
        let code = match rng.random_range(0..5) {
            0 => Code::new().push(U256::from(rng.random_range(0..9u64))).ops(&[
                op::NUMBER,
                op::SUB,
                op::BLOCKHASH,
            ]),
            1 if self.fork >= Fork::Cancun => {
                Code::new().push(U256::from(rng.random_range(0..3u64))).op(op::BLOBHASH)
            }
            2 => Code::new().ops(&[op::COINBASE, op::BALANCE]),
            _ => Code::new().op(*readers.choose(rng).unwrap_or(&op::NUMBER)),
        };
        code.push(U256::from(rng.random_range(SLOTS))).op(op::SSTORE)
    }

    fn precompile(&self, rng: &mut StdRng) -> Code {
        // 0x100 is P-256 (EIP-7951), 0x0a point evaluation, 0x0b.. BLS; before their forks and
        // past the last of them they are absent accounts.
        let number =
            *[1u64, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 0x100].choose(rng).unwrap_or(&4);
        let to = Address::from_word(U256::from(number).into());
        let size = *[0u64, 31, 32, 64, 96, 128, 192].choose(rng).unwrap_or(&0);
        let code = Code::new()
            .push(U256::from(rng.random::<u64>()))
            .ops(&[op::PUSH0, op::MSTORE])
            .push(U256::from(32))
            .op(op::PUSH0)
            .push(U256::from(size))
            .op(op::PUSH0);
        let opcode = *[op::CALL, op::STATICCALL, op::DELEGATECALL].choose(rng).unwrap_or(&op::CALL);
        let code = if opcode == op::CALL {
            code.push(U256::from(rng.random_range(0..2u64)))
        } else {
            code
        };
        let gas = U256::from(rng.random_range(0..60_000u64));
        code.push_address(to).push(gas).op(opcode).op(op::POP)
    }

    fn system_call(&self, rng: &mut StdRng) -> Code {
        let contracts = [
            eip4788::BEACON_ROOTS_ADDRESS,
            eip2935::HISTORY_STORAGE_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        ];
        let to = *contracts.choose(rng).unwrap_or(&eip4788::BEACON_ROOTS_ADDRESS);
        // A time for 4788, a number for 2935, a request for the queues.
        let word = *[op::TIMESTAMP, op::NUMBER].choose(rng).unwrap_or(&op::NUMBER);
        let size = *[0u64, 32, 56, 96].choose(rng).unwrap_or(&32);
        let code = Code::new()
            .op(word)
            .ops(&[op::PUSH0, op::MSTORE])
            .push(U256::from(32))
            .op(op::PUSH0)
            .push(U256::from(size))
            .op(op::PUSH0)
            .push(U256::from(rng.random_range(0..3u64)));
        code.push_address(to)
            .ops(&[op::GAS, op::CALL, op::POP, op::PUSH0, op::MLOAD])
            .push(U256::from(rng.random_range(SLOTS)))
            .op(op::SSTORE)
    }

    /// Calls whoever called, or itself: recursion ends with the gas.
    fn call_back(&self, rng: &mut StdRng) -> Code {
        let who = *[op::CALLER, op::ADDRESS, op::ORIGIN].choose(rng).unwrap_or(&op::CALLER);
        Code::new().ops(&[op::PUSH0; 5]).ops(&[who, op::GAS, op::CALL, op::POP])
    }

    /// Something that ends the frame with an error.
    fn fault(&self, rng: &mut StdRng) -> Code {
        match rng.random_range(0..6) {
            0 => Code::new().op(op::INVALID),
            1 => Code::new().ops(&[op::POP; 3]),
            2 => Code::new().push(U256::from(3)).op(op::JUMP),
            3 => Code::new().push(U256::from(1)).push(U256::MAX >> 100).op(op::MSTORE),
            4 => Code::new().push(U256::from(9)).ops(&[op::PUSH0, op::PUSH0, op::RETURNDATACOPY]),
            _ => Code::new().op(0x0c),
        }
    }

    /// How a contract ends.
    fn ending(&self, rng: &mut StdRng) -> Code {
        match rng.random_range(0..20) {
            0..9 => Code::new().op(op::STOP),
            9..12 => Code::new()
                .push(U256::from(rng.random_range(0..70u64)))
                .ops(&[op::PUSH0, op::RETURN]),
            12..14 => revert_with(rng),
            14 => self.fault(rng),
            15 => Code::new().ops(&[op::ADDRESS, op::SELFDESTRUCT]),
            16 => Code::new().ops(&[op::CALLER, op::SELFDESTRUCT]),
            17 => Code::new().ops(&[op::COINBASE, op::SELFDESTRUCT]),
            _ => {
                let destroy = Code::new().push_address(self.address(rng)).op(op::SELFDESTRUCT);
                if rng.random_bool(0.5) { skipped_if(rng, &destroy) } else { destroy }
            }
        }
    }
}

/// `piece` behind a jump that depends on the call.
fn skipped_if(rng: &mut StdRng, piece: &Code) -> Code {
    let condition = match rng.random_range(0..3) {
        0 => Code::new().op(op::CALLVALUE),
        1 => Code::new().op(op::CALLDATASIZE),
        _ => Code::new().push(U256::from(50_000)).ops(&[op::GAS, op::LT]),
    };
    // PC, PUSH2 distance, ADD, JUMPI: six bytes from the PC to the piece.
    let distance = U256::from(6 + piece.len());
    let mut push = vec![op::PUSH0 + 2];
    push.extend_from_slice(&distance.to_be_bytes::<32>()[30..]);
    condition.op(op::PC).ops(&push).ops(&[op::ADD, op::JUMPI]).then(piece).op(op::JUMPDEST)
}

/// The gas left becomes a slot, an address, a value: any difference in gas shows.
fn by_gas(rng: &mut StdRng) -> Code {
    match rng.random_range(0..3) {
        0 => Code::new().ops(&[op::GAS, op::SLOAD, op::POP]),
        1 => Code::new().ops(&[op::GAS, op::BALANCE, op::POP]),
        _ => Code::new().op(op::GAS).push(U256::from(rng.random_range(SLOTS))).op(op::SSTORE),
    }
}

fn log(rng: &mut StdRng) -> Code {
    let topics = rng.random_range(0..5u8);
    let code = (0..topics).fold(Code::new(), |code, _| code.push(U256::from(rng.random::<u64>())));
    let (offset, size) = (rng.random_range(0..64u64), rng.random_range(0..64u64));
    code.push(U256::from(size)).push(U256::from(offset)).op(op::LOG0 + topics)
}

fn memory(rng: &mut StdRng) -> Code {
    let offset = U256::from(rng.random_range(0..300u64));
    let code = Code::new().push(U256::from(rng.random::<u64>())).push(offset).op(op::MSTORE);
    match rng.random_range(0..3) {
        0 => code
            .push(U256::from(64))
            .ops(&[op::PUSH0, op::KECCAK256])
            .push(U256::from(rng.random_range(SLOTS)))
            .op(op::SSTORE),
        1 => code.ops(&[op::CODESIZE, op::PUSH0, op::PUSH0, op::CODECOPY]),
        _ => code.push(offset).ops(&[op::MLOAD, op::POP]),
    }
}

/// REVERT without data, with `Error(string)`, with `Panic(uint256)`, with garbage.
fn revert_with(rng: &mut StdRng) -> Code {
    let mut data = match rng.random_range(0..5) {
        0 => Vec::new(),
        1 => hex!("4e487b710000000000000000000000000000000000000000000000000000000000000011")
            .to_vec(),
        2 => hex!("08c379a0").to_vec(),
        3 => {
            let mut data =
                hex!("08c379a00000000000000000000000000000000000000000000000000000000000000020")
                    .to_vec();
            let text: &[u8] = [
                &b"no <reason> & \"all\""[..],
                b"",
                "gr\u{fc}n\u{2028}".as_bytes(),
                b"\x00\xff\xfe",
            ]
            .choose(rng)
            .copied()
            .unwrap_or_default();
            data.extend_from_slice(&U256::from(text.len()).to_be_bytes::<32>());
            data.extend_from_slice(text);
            data.resize(68 + text.len().div_ceil(32) * 32, 0);
            data
        }
        _ => vec![rng.random(); rng.random_range(1..40)],
    };
    let size = data.len();
    data.resize(size.div_ceil(32) * 32, 0);
    Code::new().memory(&data).push(U256::from(size)).ops(&[op::PUSH0, op::REVERT])
}

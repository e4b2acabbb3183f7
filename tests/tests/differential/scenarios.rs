//! The scenarios and reports of `prestate-semantics.md`, each as a chain of its own.

use alloy_primitives::{Address, Bytes, U256, address, hex};
use prestate_tests::generate::{
    AuthNonce, Authorisation, BlockRecipe, CallGas::{All, Exactly}, Code, Fork, GenesisPlan, Keys, Recipe,
    Shape, op,
};

/// A chain that shows one thing.
pub(crate) struct Scenario {
    /// File name.
    pub(crate) name: String,
    /// What it shows and where that is from.
    pub(crate) about: &'static str,
    pub(crate) genesis: GenesisPlan,
    pub(crate) blocks: Vec<BlockRecipe>,
}

/// Exists with 1000 wei.
const COINBASE: Address = address!("0xc01bba5e00000000000000000000000000000000");
/// Never exists before.
const ABSENT: Address = address!("0xabbe000000000000000000000000000000000001");
const A: Address = address!("0xaaaa00000000000000000000000000000000000a");
const B: Address = address!("0xbbbb00000000000000000000000000000000000b");
const W: Address = address!("0xcccc00000000000000000000000000000000000c");
/// The sender, funded, nonce 5.
const SENDER: usize = 0;
/// An account without funds, for delegations.
const AUTHORITY: usize = 1;

pub(crate) fn keys() -> Keys {
    Keys::new(8)
}

fn code() -> Code {
    Code::new()
}

fn revert() -> Code {
    code().ops(&[op::PUSH0, op::PUSH0, op::REVERT])
}

fn destroy_to(beneficiary: Address) -> Code {
    code().push_address(beneficiary).op(op::SELFDESTRUCT)
}

struct Draft(Scenario);

fn scenario(name: &str, fork: Fork, about: &'static str) -> Draft {
    let mut genesis = GenesisPlan::new(fork);
    let sender = keys().address(SENDER);
    genesis.fund(sender, 10u128.pow(20)).fund(COINBASE, 1000);
    if let Some(account) = genesis.accounts.get_mut(&sender) {
        account.nonce = 5;
    }
    let name = format!("{name}-{fork}");
    Draft(Scenario { name, about, genesis, blocks: Vec::new() })
}

impl Draft {
    fn contract(mut self, at: Address, code: Code) -> Self {
        self.0.genesis.contract(at, &code, 0, &[]);
        self
    }

    fn contract_with(mut self, at: Address, code: Code, wei: u128, slots: &[(u64, u64)]) -> Self {
        self.0.genesis.contract(at, &code, wei, slots);
        self
    }

    fn fund(mut self, at: Address, wei: u128) -> Self {
        self.0.genesis.fund(at, wei);
        self
    }

    /// An account of a key, delegated from genesis on.
    fn delegated(mut self, key: usize, target: Address, nonce: u64, wei: u128) -> Self {
        let mut code = hex!("ef0100").to_vec();
        code.extend_from_slice(target.as_slice());
        let address = keys().address(key);
        self.0.genesis.contract(address, &Code::from(code), wei, &[]);
        if let Some(account) = self.0.genesis.accounts.get_mut(&address) {
            account.nonce = nonce;
        }
        self
    }

    fn block(self, transactions: impl IntoIterator<Item = Recipe>) -> Self {
        self.block_of(COINBASE, transactions, &[])
    }

    fn block_of(
        mut self,
        coinbase: Address,
        transactions: impl IntoIterator<Item = Recipe>,
        withdrawals: &[(Address, u64)],
    ) -> Self {
        self.0.blocks.push(BlockRecipe {
            coinbase,
            transactions: transactions.into_iter().collect(),
            withdrawals: withdrawals.to_vec(),
        });
        self
    }

    /// One block with one call of A.
    fn run(self) -> Scenario {
        self.block([Recipe::call(SENDER, A)]).0
    }

    /// One block with this transaction.
    fn send(self, transaction: Recipe) -> Scenario {
        self.block([transaction]).0
    }
}

/// A type 4 transaction.
fn set_code(to: Address, tuples: &[Authorisation]) -> Recipe {
    Recipe::call(SENDER, to).shape(Shape::SetCode(tuples.to_vec()))
}

fn authority() -> Address {
    keys().address(AUTHORITY)
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    let mut all = matrix();
    all.extend(further());
    all.extend(reports());
    all
}

/// Section 4, S1 to S27.
fn matrix() -> Vec<Scenario> {
    use Fork::{Cancun, Prague, Shanghai};
    let reader = |then: Code| code().sload(1).sload(2).then(&then);
    let slots = [(1, 11)];
    let doomed = destroy_to(W);
    let mut list = vec![
        scenario("S1", Prague, "7 wei to an absent address: post only")
            .send(Recipe::call(SENDER, ABSENT).value(7)),
        scenario("S2", Shanghai, "E2: SELFDESTRUCT undone by the caller's revert reads as deleted")
            .contract(A, code().call_pop(op::CALL, W, 0, All))
            .contract(W, code().call_pop(op::CALL, B, 0, All).then(&revert()))
            .contract_with(B, reader(destroy_to(A)), 9, &slots)
            .run(),
        scenario("S2b", Shanghai, "a contract that reads two slots and destroys itself")
            .contract_with(A, reader(destroy_to(W)), 9, &slots)
            .fund(W, 1)
            .run(),
        scenario("S2c", Cancun, "the same on EIP-6780: only the balance moves")
            .contract_with(A, reader(destroy_to(W)), 9, &slots)
            .fund(W, 1)
            .run(),
    ];
    for (name, about, ending) in [
        ("S3", "E2: a new contract whose SELFDESTRUCT is reverted is in neither map", revert()),
        ("S3b", "a new contract that destroys itself is in neither map", code()),
    ] {
        let x = A.create(1);
        list.push(
            scenario(name, Cancun, about)
                .contract(A, code().create(0, &doomed.deployed()).op(op::POP).call_pop(op::CALL, W, 0, All))
                .contract(W, code().call_pop(op::CALL, x, 0, All).then(&ending))
                .run(),
        );
    }
    let x = doomed.deployed().create2_address(A, 1);
    list.extend([
        scenario("S3c", Cancun, "E5: created on 77 wei and destroyed: pre keeps the balance")
            .contract(A, code().create2(0, &doomed.deployed(), 1).op(op::POP).call_pop(op::CALL, x, 0, All))
            .fund(x, 77)
            .run(),
        scenario("S4", Prague, "a delegation cleared: code 0x and the hash of no code")
            .contract(B, code())
            .delegated(AUTHORITY, B, 3, 0)
            .send(set_code(W, &[Authorisation::new(AUTHORITY, Address::ZERO)])),
        scenario("S5", Prague, "B7: the target set in the same transaction is not looked up")
            .contract(B, code().sstore(1, 2))
            .send(set_code(authority(), &[Authorisation::new(AUTHORITY, B)])),
        scenario("S6", Prague, "B8: a tuple of another chain is looked up and does nothing")
            .fund(authority(), 5)
            .contract(B, code())
            .send(set_code(W, &[Authorisation { chain_id: 999, ..Authorisation::new(AUTHORITY, B) }])),
        scenario("S6b", Prague, "D9: absent authority of a tuple with the wrong nonce")
            .contract(B, code())
            .send(set_code(W, &[Authorisation {
                nonce: AuthNonce::Exactly(7),
                ..Authorisation::new(AUTHORITY, B)
            }])),
        scenario("S7", Prague, "absent coinbase with a tip: post only")
            .block_of(ABSENT, [Recipe::call(SENDER, W)], &[])
            .0,
        scenario("S7b", Prague, "D9: absent coinbase without a tip")
            .block_of(ABSENT, [Recipe::call(SENDER, W).no_tip()], &[])
            .0,
        scenario("S7c", Prague, "existing coinbase without a tip: in neither map")
            .send(Recipe::call(SENDER, W).no_tip()),
        scenario("S8", Prague, "D9: BALANCE of an absent address")
            .contract(A, code().look_up(op::BALANCE, ABSENT))
            .run(),
        scenario("S9", Prague, "D9: an inner CREATE whose init code reverts")
            .contract(A, code().create(0, &revert()).op(op::POP))
            .run(),
        scenario("S10", Prague, "a slot 5, 6, 5: in neither map")
            .contract_with(A, code().sstore(1, 6).sstore(1, 5), 0, &[(1, 5)])
            .run(),
        scenario("S11", Prague, "slots 5 to 0 and 0 to 9")
            .contract_with(A, code().sstore(1, 0).sstore(2, 9), 0, &[(1, 5)])
            .run(),
        scenario("S11b", Prague, "D7: a slot 5 to 0 and nothing else: post is {}")
            .contract_with(A, code().sstore(1, 0), 0, &[(1, 5)])
            .run(),
        scenario("S12", Prague, "SSTORE, then the transaction reverts")
            .contract_with(A, code().sstore(1, 6).then(&revert()), 0, &[(1, 5)])
            .run(),
        scenario("S13", Prague, "D9: zero-value CALL of an absent address")
            .contract(A, code().call_pop(op::CALL, ABSENT, 0, All))
            .run(),
        scenario("S14", Prague, "B4: an SLOAD that runs out of gas is not looked up")
            .contract(A, code().call_pop(op::CALL, B, 0, Exactly(2000)))
            .contract_with(B, code().sload(1), 0, &[(1, 5)])
            .run(),
        scenario("S15", Prague, "B4: a BALANCE that runs out of gas is not looked up")
            .contract(A, code().call_pop(op::CALL, B, 0, Exactly(2000)))
            .contract(B, code().look_up(op::BALANCE, W))
            .fund(W, 3)
            .run(),
        scenario("S16", Prague, "D9: a creating transaction that reverts")
            .send(Recipe::create(SENDER, revert().bytes())),
        scenario("S17", Prague, "D9: CALL of an absent precompile")
            .contract(A, code().call_pop(op::CALL, Address::with_last_byte(4), 0, All))
            .run(),
        scenario("S18", Prague, "B6: access-list entries are not looked up")
            .contract(A, code())
            .contract_with(W, code(), 3, &[(1, 5)])
            .send(Recipe::call(SENDER, A).shape(Shape::Dynamic(vec![(W, vec![1, 2])]))),
        scenario("S19", Cancun, "B6: transient storage leaves no trace")
            .contract(A, code().push(U256::from(7)).push(U256::from(1)).op(op::TSTORE)
                .push(U256::from(1)).ops(&[op::TLOAD, op::POP]))
            .run(),
        scenario("S20", Prague, "B6: EXTCODESIZE of a delegated account does not look up its target")
            .contract(A, code().look_up(op::EXTCODESIZE, authority()))
            .contract(B, code())
            .delegated(AUTHORITY, B, 1, 0)
            .run(),
        scenario("S21", Prague, "B7: CALL of a delegated account looks up its target")
            .contract(A, code().call_pop(op::CALL, authority(), 0, All))
            .contract(B, code().sstore(1, 2))
            .delegated(AUTHORITY, B, 1, 0)
            .run(),
        scenario("S24", Prague, "CREATE with empty init code: post nonce 1")
            .contract(A, code().ops(&[op::PUSH0, op::PUSH0, op::PUSH0, op::CREATE, op::POP]))
            .run(),
        scenario("S25", Prague, "D9: CREATE with more value than there is")
            .contract(A, code().create(1000, &code().op(op::STOP)).op(op::POP))
            .run(),
        scenario("S27", Prague, "D9: an old contract without wei destroys itself to an absent address")
            .contract(A, destroy_to(ABSENT))
            .run(),
    ]);
    list
}

/// Section 4, "further inputs".
fn further() -> Vec<Scenario> {
    use Fork::{Cancun, Prague, Shanghai};
    let doomed = destroy_to(W);
    let mut list = Vec::new();

    // The occupant's code is that of the init code's CREATE2 address, put there at genesis.
    let occupied = code().op(op::STOP).deployed();
    let x = occupied.create2_address(A, 1);
    list.push(
        scenario("F1-E3-collision-then-occupant-destroys", Cancun, "E3: the existing contract counts as created")
            .contract(A, code().create2(0, &occupied, 1).op(op::POP).call_pop(op::CALL, x, 0, All))
            .contract_with(x, code().sload(1).then(&doomed), 5, &[(1, 11)])
            // The collision burns 63/64 of the gas.
            .send(Recipe::call(SENDER, A).gas(10_000_000)),
    );
    for (label, offset) in [
        ("2e20-1", U256::from((1u64 << 20) - 1)),
        ("2e20", U256::from(1u64 << 20)),
        ("2e20+1", U256::from((1u64 << 20) + 1)),
        ("2e63", U256::from(1u64 << 63)),
        ("2e64", U256::from(1u128 << 64)),
        ("2e64+9", U256::from((1u128 << 64) + 9)),
        ("max", U256::MAX),
    ] {
        let create = code().push(U256::from(1)).op(op::PUSH0).push(offset).op(op::PUSH0);
        list.push(
            scenario(&format!("F2-B11-create2-size-0-offset-{label}"), Cancun,
                "B11: which huge offsets of a zero-size CREATE2 are looked up (low 64 bits, signed, 1 MiB of padding)")
                .contract(A, create.ops(&[op::CREATE2, op::POP]))
                .run(),
        );
    }
    // Created without a look-up, looked up afterwards: pre shows the state in mid-transaction.
    let skipped = |offset: U256, size: usize| {
        code().push(U256::from(1)).push(U256::from(size)).push(offset).op(op::PUSH0).ops(&[op::CREATE2, op::POP])
    };
    let bare = code().create2_address(A, 1);
    list.push(
        scenario("F2-B11-skipped-then-called", Cancun, "B11: a CREATE2 that is not looked up, then a call with wei")
            .contract_with(A, skipped(U256::from(1u64 << 63), 0).call_pop(op::CALL, bare, 5, All), 9, &[])
            .run(),
    );
    // Init code that a MSTORE put past a mebibyte of unwritten memory, with the gas to reach it: the
    // opcode sees memory before it grows. The word is all zeros but PUSH0 SELFDESTRUCT / SLOAD.
    let zeros = |size: usize| Code::from(vec![0u8; size]);
    let distant = U256::from((1u64 << 20) + 64);
    let deployed = zeros(3).create2_address(A, 1);
    list.push(
        scenario("F2-B11-skipped-init-code", Cancun, "B11: init code read more than a mebibyte past memory")
            .contract(A, skipped(distant, 3).look_up(op::EXTCODEHASH, deployed))
            .send(Recipe::call(SENDER, A).gas(8_000_000)),
    );
    // After one word of memory the bound moves by 32.
    let after_memory = code().push(U256::from(1)).ops(&[op::PUSH0, op::MSTORE]);
    for offset in [(1u64 << 20) + 32, (1u64 << 20) + 33] {
        let create = code().push(U256::from(1)).op(op::PUSH0).push(U256::from(offset)).op(op::PUSH0);
        list.push(
            scenario(&format!("F2-B11-memory-32-offset-{offset}"), Cancun, "B11: the bound counts from the memory's end")
                .contract(A, after_memory.clone().then(&create).ops(&[op::CREATE2, op::POP]))
                .run(),
        );
    }
    list.extend([
        scenario("F3-D9-absent-delegation-target", Prague, "D9: CALL of an account delegated to an absent address")
            .contract(A, code().call_pop(op::CALL, authority(), 0, All))
            .delegated(AUTHORITY, ABSENT, 1, 0)
            .run(),
        scenario("F4-B4-selfdestruct-in-staticcall", Cancun, "B4: SELFDESTRUCT in a static frame is not looked up")
            .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
            .contract_with(B, destroy_to(W), 4, &[])
            .fund(W, 3)
            .run(),
        scenario("F4-B4-selfdestruct-in-staticcall", Shanghai, "B4: nor is it a deletion before EIP-6780")
            .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
            .contract_with(B, destroy_to(W), 4, &[])
            .fund(W, 3)
            .run(),
        scenario("F4-B4-sstore-in-staticcall", Prague, "B4: SSTORE in a static frame is not looked up")
            .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
            .contract_with(B, code().sstore(1, 2), 4, &[(1, 5)])
            .run(),
        scenario("F4-B4-call-with-value-in-staticcall", Prague, "B4: CALL with value in a static frame")
            .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
            .contract_with(B, code().call_pop(op::CALL, W, 1, All), 4, &[])
            .fund(W, 3)
            .run(),
        scenario("F4-B4-create-in-staticcall", Prague, "B4: CREATE in a static frame")
            .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
            .contract_with(B, code().create(0, &code().op(op::STOP)).op(op::POP), 4, &[])
            .run(),
        scenario("F5-sender-is-coinbase", Prague, "the sender earns its own tip")
            .block_of(keys().address(SENDER), [Recipe::call(SENDER, ABSENT).value(3)], &[])
            .0,
        scenario("F6-sender-is-authority", Prague, "E8: self-sponsored: nonce goes up by two")
            .contract(B, code().sstore(1, 2))
            .send(set_code(W, &[Authorisation { nonce: AuthNonce::Right, ..Authorisation::new(SENDER, B) }])),
        scenario("F7-set-then-clear-in-one-list", Prague, "the same authority twice")
            .contract(B, code())
            .send(set_code(W, &[
                Authorisation::new(AUTHORITY, B),
                Authorisation::new(AUTHORITY, Address::ZERO),
            ])),
        scenario("F8-delegation-and-revert", Prague, "E7: a delegation survives the revert of its transaction")
            .contract(B, code().sstore(1, 2).then(&revert()))
            .send(set_code(authority(), &[Authorisation::new(AUTHORITY, B)])),
        scenario("F9-delegatecall-into-selfdestruct", Cancun, "B12: the proxy is what is destroyed")
            .contract_with(A, code().call_pop(op::DELEGATECALL, B, 0, All), 6, &[])
            .contract_with(B, code().sload(1).then(&destroy_to(W)), 4, &[])
            .run(),
        scenario("F9-delegatecall-into-selfdestruct", Shanghai, "B12: the proxy is what is destroyed")
            .contract_with(A, code().call_pop(op::DELEGATECALL, B, 0, All), 6, &[])
            .contract_with(B, code().sload(1).then(&destroy_to(W)), 4, &[])
            .run(),
    ]);
    let y = A.create(1);
    // Destroys itself unless it is sent wei.
    let doomed = code().op(op::CALLVALUE).push(U256::from(26)).op(op::JUMPI).then(&doomed)
        .ops(&[op::JUMPDEST, op::STOP]);
    list.push(
        scenario("F10-wei-sent-after-destruction", Cancun, "E5: wei sent to a destroyed contract is burnt")
            .contract_with(
                A,
                code()
                    .create(3, &doomed.deployed())
                    .op(op::POP)
                    .call_pop(op::CALL, y, 0, All)
                    .call_pop(op::CALL, y, 5, All)
                    .look_up(op::BALANCE, y),
                100,
                &[],
            )
            .run(),
    );
    list.push(
        scenario("F10-wei-sent-after-destruction", Shanghai, "E5: the same with an old contract before EIP-6780")
            .contract_with(
                A,
                code().call_pop(op::CALL, B, 0, All).call_pop(op::CALL, B, 5, All).look_up(op::BALANCE, B),
                100,
                &[],
            )
            .contract_with(B, doomed, 4, &[(1, 2)])
            .run(),
    );
    list.push(
        scenario("F11-slot-first-read-in-reverted-frame", Prague, "E7: the look-up stays")
            .contract(A, code().call_pop(op::CALL, B, 0, All).sstore(3, 4))
            .contract_with(B, code().sload(1).sload(2).look_up(op::BALANCE, W).then(&revert()), 0, &[(1, 5)])
            .fund(W, 3)
            .run(),
    );
    list
}

/// Section 3: the starred reports that the two lists above do not hold already.
fn reports() -> Vec<Scenario> {
    use Fork::{Cancun, Osaka, Prague, Shanghai};
    let doomed = destroy_to(W);
    let small = code().sstore(1, 2).deployed();
    let x = small.create2_address(A, 1);
    let mut list = vec![
        scenario("go-ethereum-25943", Prague, "SLOAD of one slot, SSTORE of another: pre without the unchanged one")
            .contract_with(A, code().sload(1).sstore(2, 8), 0, &[(1, 5), (2, 6)])
            .run(),
        scenario("go-ethereum-25996", Prague, "CREATE2 onto an address with balance: pre keeps it")
            .contract(A, code().create2(0, &small, 1).op(op::POP))
            .fund(x, 77)
            .run(),
        scenario("go-ethereum-25957", Prague, "CREATE2 onto an occupied address")
            .contract(A, code().create2(0, &small, 1).op(op::POP))
            .contract_with(x, code().op(op::STOP), 1, &[(1, 5)])
            .run(),
        scenario("go-ethereum-26845", Prague, "CREATE2 whose init code reads past memory")
            .contract(A, Code::from(hex!("6001600052600060ff60006000F5").to_vec()))
            .run(),
        scenario("go-ethereum-28439", Prague, "a plain deployment, with value (erigon#9531), slot written and read in the constructor (erigon#22248, polkadot-sdk#10303)")
            .block([
                Recipe::create(SENDER, code().op(op::STOP).deployed().bytes()),
                Recipe::create(SENDER, code().op(op::STOP).deployed_after(&code().sload(1).sstore(2, 9)).bytes())
                    .value(12),
            ])
            .0,
        scenario("go-ethereum-29168", Cancun, "type 3: the blob fee is in the sender's balance")
            .contract(A, code().op(op::PUSH0).ops(&[op::BLOBHASH, op::PUSH0, op::SSTORE, op::BLOBBASEFEE, op::POP]))
            .send(Recipe::call(SENDER, A).shape(Shape::Blob(2))),
        scenario("go-ethereum-29402", Cancun, "the beacon root of the block is there in transaction 0 (reth#22577)")
            .contract(A, code().op(op::TIMESTAMP).ops(&[op::PUSH0, op::MSTORE])
                .push(U256::from(32)).op(op::PUSH0).push(U256::from(32)).ops(&[op::PUSH0, op::PUSH0])
                .push_address(address!("0x000F3df6D732807Ef1319fB7B8bB8522d0Beac02"))
                .ops(&[op::GAS, op::CALL, op::POP, op::PUSH0, op::MLOAD]).push(U256::from(1)).op(op::SSTORE))
            .run(),
        scenario("go-ethereum-29800", Prague, "BASEFEE is the block's")
            .contract(A, code().ops(&[op::BASEFEE, op::PUSH0, op::SSTORE]))
            .block([Recipe::call(SENDER, A).shape(Shape::Legacy), Recipe::call(SENDER, A)])
            .0,
        {
            let hash = code().push(U256::from(1)).ops(&[op::NUMBER, op::SUB, op::BLOCKHASH, op::CALLDATASIZE, op::SSTORE]);
            let calls = || (0..12u8).map(|size| Recipe::call(SENDER, A).input(Bytes::from(vec![1; size.into()])));
            scenario("go-ethereum-29114", Prague, "BLOCKHASH in many transactions")
                .contract(A, hash)
                .block(calls())
                .block(calls())
                .0
        },
        scenario("go-ethereum-31960", Prague, "two transactions on one slot: each on the other's post state")
            .contract_with(A, code().push(U256::ZERO).op(op::CALLDATALOAD).push(U256::from(1)).op(op::SSTORE), 0, &[(1, 42)])
            .block([43u64, 42].map(|value| {
                Recipe::call(SENDER, A).input(Bytes::from(U256::from(value).to_be_bytes_vec()))
            }))
            .0,
        scenario("go-ethereum-32078", Prague, "a delegated account as `to` and as operand of every CALL")
            .contract(A, [op::CALL, op::CALLCODE, op::DELEGATECALL, op::STATICCALL].into_iter()
                .fold(code(), |code, call| code.call_pop(call, authority(), 0, All)))
            .contract(B, code().sload(1))
            .delegated(AUTHORITY, B, 1, 3)
            .block([Recipe::call(SENDER, authority()), Recipe::call(SENDER, A)])
            .0,
        scenario("go-ethereum-32465", Prague, "withdrawals are not traced, the next block stands on them")
            .contract(A, code().look_up(op::BALANCE, ABSENT))
            .block_of(COINBASE, [Recipe::call(SENDER, A)], &[(ABSENT, 5), (COINBASE, 1), (ABSENT, 0)])
            .block([Recipe::call(SENDER, A)])
            .0,
        scenario("go-ethereum-27183", Prague, "blocks without transactions")
            .block([])
            .block_of(ABSENT, [], &[(ABSENT, 1)])
            .0,
        scenario("reth-4483", Prague, "the same slot number in two contracts")
            .contract_with(A, code().sstore(1, 7).call_pop(op::CALL, B, 0, All).sload(2), 0, &[(1, 5), (2, 6)])
            .contract_with(B, code().sstore(2, 9).sload(1), 0, &[(1, 3), (2, 4)])
            .run(),
        scenario("revm-inspectors-13", Prague, "SSTORE(k,1) then SSTORE(k,0): the value at the start counts")
            .contract(A, code().sstore(1, 1).sstore(1, 0).sload(1))
            .run(),
        scenario("reth-6429", Prague, "SLOAD only: every slot looked up, zero ones too (revm-inspectors#387)")
            .contract_with(A, code().sload(1).sload(2), 0, &[(1, 5)])
            .run(),
        scenario("reth-19703", Cancun, "an address funded by an earlier transaction, then CREATE2 and destruction")
            .contract(A, {
                let init = doomed.clone();
                code().create2(0, &init, 7).op(op::POP)
            })
            .block([
                Recipe::call(SENDER, doomed.create2_address(A, 7)).value(55),
                Recipe::call(SENDER, A),
            ])
            .0,
        scenario("revm-3656", Cancun, "SELFDESTRUCT to self after EIP-6780, with and without wei")
            .contract_with(A, code().op(op::ADDRESS).op(op::SELFDESTRUCT), 5, &[(1, 2)])
            .contract(B, code().op(op::ADDRESS).op(op::SELFDESTRUCT))
            .block([Recipe::call(SENDER, A), Recipe::call(SENDER, B), Recipe::call(SENDER, B).value(4)])
            .0,
        scenario("revm-3656", Shanghai, "SELFDESTRUCT to self before it: burnt")
            .contract_with(A, code().op(op::ADDRESS).op(op::SELFDESTRUCT), 5, &[(1, 2)])
            .contract(B, code().op(op::ADDRESS).op(op::SELFDESTRUCT))
            .block([Recipe::call(SENDER, A), Recipe::call(SENDER, B)])
            .0,
        scenario("erigon-17588", Shanghai, "E2: SELFDESTRUCT undone by out-of-gas still reads as deletion")
            .contract(A, code().call_pop(op::CALL, W, 0, Exactly(30_000)).sstore(1, 2))
            .contract(W, code().call_pop(op::CALL, B, 0, Exactly(15_000)).op(op::JUMPDEST).push(U256::from(1)).op(op::POP)
                .op(op::INVALID))
            .contract_with(B, destroy_to(A), 0, &[(1, 3)])
            .run(),
        scenario("ethrex-6579", Prague, "two transactions with disjoint accounts")
            .contract_with(A, code().sload(1), 0, &[(1, 5)])
            .contract_with(B, code().sload(2), 0, &[(2, 6)])
            .block([Recipe::call(SENDER, A), Recipe::call(SENDER, B)])
            .0,
        scenario("besu-11289", Prague, "accounts empty in genesis, touched by a call, by BALANCE, by destruction")
            .contract(A, code().call_pop(op::CALL, W, 0, All))
            .contract(B, destroy_to(W))
            .fund(W, 0)
            .block([
                Recipe::call(SENDER, B),
                Recipe::call(SENDER, A),
                Recipe::call(SENDER, W),
            ])
            .0,
    ];
    // Destroyed before EIP-6780 in one transaction, re-created in the next.
    let init = doomed.deployed();
    list.push(
        scenario("reth-19202", Shanghai, "a contract without wei destroyed, then re-created in the next transaction")
            .contract(A, code().create2(0, &init, 3).op(op::POP))
            .contract_with(init.create2_address(A, 3), doomed.clone(), 0, &[(1, 5)])
            .block([Recipe::call(SENDER, init.create2_address(A, 3)), Recipe::call(SENDER, A)])
            .0,
    );
    // One transaction per look-up opcode, with gas just short of and just enough for a cold operand.
    let mut probes = scenario("erigon-22888", Prague, "every look-up opcode one gas short and just enough");
    let mut calls = Vec::new();
    let cold = |opcode| code().look_up(opcode, W);
    let called = |opcode| code().call_pop(opcode, W, 0, Exactly(0));
    for (index, (body, need)) in [
        (cold(op::BALANCE), 2603),
        (cold(op::EXTCODESIZE), 2603),
        (cold(op::EXTCODEHASH), 2603),
        (code().ops(&[op::PUSH0; 3]).push_address(W).op(op::EXTCODECOPY), 2609),
        (code().sload(1), 2103),
        (code().sstore(1, 7), 22_106),
        (called(op::CALL), 2615),
        (called(op::CALLCODE), 2615),
        (called(op::DELEGATECALL), 2613),
        (called(op::STATICCALL), 2613),
        (destroy_to(ABSENT), 7603),
        (code().ops(&[op::PUSH0, op::PUSH0, op::PUSH0, op::CREATE]), 32_006),
        (code().ops(&[op::PUSH0, op::PUSH0, op::PUSH0, op::PUSH0, op::CREATE2]), 32_008),
    ]
    .into_iter()
    .enumerate()
    {
        let probe = Address::with_last_byte(0x80 + index as u8);
        probes = probes.contract(probe, body);
        for gas in [need - 1, need] {
            let caller = Address::with_last_byte(0xc0 + calls.len() as u8);
            probes = probes.contract(caller, code().call_pop(op::CALL, probe, 0, Exactly(gas)));
            calls.push(Recipe::call(SENDER, caller));
        }
    }
    list.push(probes.fund(W, 3).block(calls).0);
    // Delegations set, replaced, cleared, unchanged, each with a call that reverts.
    for (label, before, target) in [
        ("set", None, B),
        ("replaced", Some(W), B),
        ("cleared", Some(B), Address::ZERO),
        ("unchanged", Some(B), B),
    ] {
        for (ending, to) in [("quiet", ABSENT), ("reverting", A)] {
            let draft = scenario(&format!("revm-inspectors-509-{label}-{ending}"), Osaka,
                "a delegation set, replaced, cleared, unchanged, also when the call reverts (revm-inspectors#510)")
                .contract(A, code().sstore(1, 1).then(&revert()))
                .contract(B, code().sstore(1, 2))
                .contract(W, code());
            let draft = match before {
                Some(target) => draft.delegated(AUTHORITY, target, 4, 0),
                None => draft,
            };
            list.push(draft.send(set_code(to, &[Authorisation::new(AUTHORITY, target)])));
        }
    }
    list
}

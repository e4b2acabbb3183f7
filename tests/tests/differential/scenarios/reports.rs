//! Section 3 of the research: the starred reports that the matrix does not hold already.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
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
                let init = &doomed;
                code().create2(0, init, 7).op(op::POP)
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
        scenario(
            "reth-19202",
            Shanghai,
            "a contract without wei destroyed, then re-created in the next transaction",
        )
        .contract(A, code().create2(0, &init, 3).op(op::POP))
        .contract_with(init.create2_address(A, 3), doomed, 0, &[(1, 5)])
        .block([Recipe::call(SENDER, init.create2_address(A, 3)), Recipe::call(SENDER, A)])
        .0,
    );
    // One transaction per look-up opcode, with gas just short of and just enough for a cold operand.
    let mut probes =
        scenario("erigon-22888", Prague, "every look-up opcode one gas short and just enough");
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

//! Section 4 of the research, "further inputs".

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
    use Fork::{Cancun, Prague, Shanghai};
    let doomed = destroy_to(W);
    let mut list = Vec::new();

    // The occupant's code is that of the init code's CREATE2 address, put there at genesis.
    let occupied = code().op(op::STOP).deployed();
    let x = occupied.create2_address(A, 1);
    list.push(
        scenario(
            "F1-E3-collision-then-occupant-destroys",
            Cancun,
            "E3: the existing contract counts as created",
        )
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
        code()
            .push(U256::from(1))
            .push(U256::from(size))
            .push(offset)
            .op(op::PUSH0)
            .ops(&[op::CREATE2, op::POP])
    };
    let bare = code().create2_address(A, 1);
    list.push(
        scenario(
            "F2-B11-skipped-then-called",
            Cancun,
            "B11: a CREATE2 that is not looked up, then a call with wei",
        )
        .contract_with(
            A,
            skipped(U256::from(1u64 << 63), 0).call_pop(op::CALL, bare, 5, All),
            9,
            &[],
        )
        .run(),
    );
    // Init code that a MSTORE put past a mebibyte of unwritten memory, with the gas to reach it: the
    // opcode sees memory before it grows. The word is all zeros but PUSH0 SELFDESTRUCT / SLOAD.
    let zeros = |size: usize| Code::from(vec![0u8; size]);
    let distant = U256::from((1u64 << 20) + 64);
    let deployed = zeros(3).create2_address(A, 1);
    list.push(
        scenario(
            "F2-B11-skipped-init-code",
            Cancun,
            "B11: init code read more than a mebibyte past memory",
        )
        .contract(A, skipped(distant, 3).look_up(op::EXTCODEHASH, deployed))
        .send(Recipe::call(SENDER, A).gas(8_000_000)),
    );
    // After one word of memory the bound moves by 32.
    let after_memory = code().push(U256::from(1)).ops(&[op::PUSH0, op::MSTORE]);
    for offset in [(1u64 << 20) + 32, (1u64 << 20) + 33] {
        let create =
            code().push(U256::from(1)).op(op::PUSH0).push(U256::from(offset)).op(op::PUSH0);
        list.push(
            scenario(
                &format!("F2-B11-memory-32-offset-{offset}"),
                Cancun,
                "B11: the bound counts from the memory's end",
            )
            .contract(A, after_memory.clone().then(&create).ops(&[op::CREATE2, op::POP]))
            .run(),
        );
    }
    list.extend([
        scenario(
            "F3-D9-absent-delegation-target",
            Prague,
            "D9: CALL of an account delegated to an absent address",
        )
        .contract(A, code().call_pop(op::CALL, authority(), 0, All))
        .delegated(AUTHORITY, ABSENT, 1, 0)
        .run(),
        scenario(
            "F4-B4-selfdestruct-in-staticcall",
            Cancun,
            "B4: SELFDESTRUCT in a static frame is not looked up",
        )
        .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
        .contract_with(B, destroy_to(W), 4, &[])
        .fund(W, 3)
        .run(),
        scenario(
            "F4-B4-selfdestruct-in-staticcall",
            Shanghai,
            "B4: nor is it a deletion before EIP-6780",
        )
        .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
        .contract_with(B, destroy_to(W), 4, &[])
        .fund(W, 3)
        .run(),
        scenario(
            "F4-B4-sstore-in-staticcall",
            Prague,
            "B4: SSTORE in a static frame is not looked up",
        )
        .contract(A, code().call_pop(op::STATICCALL, B, 0, All))
        .contract_with(B, code().sstore(1, 2), 4, &[(1, 5)])
        .run(),
        scenario(
            "F4-B4-call-with-value-in-staticcall",
            Prague,
            "B4: CALL with value in a static frame",
        )
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
            .send(set_code(
                W,
                &[Authorisation { nonce: AuthNonce::Right, ..Authorisation::new(SENDER, B) }],
            )),
        scenario("F7-set-then-clear-in-one-list", Prague, "the same authority twice")
            .contract(B, code())
            .send(set_code(
                W,
                &[Authorisation::new(AUTHORITY, B), Authorisation::new(AUTHORITY, Address::ZERO)],
            )),
        scenario(
            "F8-delegation-and-revert",
            Prague,
            "E7: a delegation survives the revert of its transaction",
        )
        .contract(B, code().sstore(1, 2).then(&revert()))
        .send(set_code(authority(), &[Authorisation::new(AUTHORITY, B)])),
        scenario(
            "F9-delegatecall-into-selfdestruct",
            Cancun,
            "B12: the proxy is what is destroyed",
        )
        .contract_with(A, code().call_pop(op::DELEGATECALL, B, 0, All), 6, &[])
        .contract_with(B, code().sload(1).then(&destroy_to(W)), 4, &[])
        .run(),
        scenario(
            "F9-delegatecall-into-selfdestruct",
            Shanghai,
            "B12: the proxy is what is destroyed",
        )
        .contract_with(A, code().call_pop(op::DELEGATECALL, B, 0, All), 6, &[])
        .contract_with(B, code().sload(1).then(&destroy_to(W)), 4, &[])
        .run(),
    ]);
    let y = A.create(1);
    // Destroys itself unless it is sent wei.
    let doomed = code()
        .op(op::CALLVALUE)
        .push(U256::from(26))
        .op(op::JUMPI)
        .then(&doomed)
        .ops(&[op::JUMPDEST, op::STOP]);
    list.push(
        scenario(
            "F10-wei-sent-after-destruction",
            Cancun,
            "E5: wei sent to a destroyed contract is burnt",
        )
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
        scenario(
            "F10-wei-sent-after-destruction",
            Shanghai,
            "E5: the same with an old contract before EIP-6780",
        )
        .contract_with(
            A,
            code()
                .call_pop(op::CALL, B, 0, All)
                .call_pop(op::CALL, B, 5, All)
                .look_up(op::BALANCE, B),
            100,
            &[],
        )
        .contract_with(B, doomed, 4, &[(1, 2)])
        .run(),
    );
    list.push(
        scenario("F11-slot-first-read-in-reverted-frame", Prague, "E7: the look-up stays")
            .contract(A, code().call_pop(op::CALL, B, 0, All).sstore(3, 4))
            .contract_with(
                B,
                code().sload(1).sload(2).look_up(op::BALANCE, W).then(&revert()),
                0,
                &[(1, 5)],
            )
            .fund(W, 3)
            .run(),
    );
    list
}

//! Section 4 of the research, S1 to S27.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
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
                .contract(
                    A,
                    code().create(0, &doomed.deployed()).op(op::POP).call_pop(op::CALL, W, 0, All),
                )
                .contract(W, code().call_pop(op::CALL, x, 0, All).then(&ending))
                .run(),
        );
    }
    let x = doomed.deployed().create2_address(A, 1);
    list.extend([
        scenario("S3c", Cancun, "E5: created on 77 wei and destroyed: pre keeps the balance")
            .contract(
                A,
                code().create2(0, &doomed.deployed(), 1).op(op::POP).call_pop(op::CALL, x, 0, All),
            )
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
            .send(set_code(
                W,
                &[Authorisation { chain_id: 999, ..Authorisation::new(AUTHORITY, B) }],
            )),
        scenario("S6b", Prague, "D9: absent authority of a tuple with the wrong nonce")
            .contract(B, code())
            .send(set_code(
                W,
                &[Authorisation {
                    nonce: AuthNonce::Exactly(7),
                    ..Authorisation::new(AUTHORITY, B)
                }],
            )),
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
            .contract(
                A,
                code()
                    .push(U256::from(7))
                    .push(U256::from(1))
                    .op(op::TSTORE)
                    .push(U256::from(1))
                    .ops(&[op::TLOAD, op::POP]),
            )
            .run(),
        scenario(
            "S20",
            Prague,
            "B6: EXTCODESIZE of a delegated account does not look up its target",
        )
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
        scenario(
            "S27",
            Prague,
            "D9: an old contract without wei destroys itself to an absent address",
        )
        .contract(A, destroy_to(ABSENT))
        .run(),
    ]);
    list
}

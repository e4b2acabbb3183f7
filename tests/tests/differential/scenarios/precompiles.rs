//! Every precompile (and the addresses behind the last one) with too little gas, no input, and
//! garbage of several sizes: what its failure is called.

use super::*;

pub(super) fn scenarios() -> Vec<Scenario> {
    let forks = [Fork::Prague, Fork::Osaka];
    let numbers = (1u64..=0x12).chain([0x100]);
    let mut list = Vec::new();
    for fork in forks {
        let mut draft = scenario(
            "F12-precompile-faults",
            fork,
            "the texts of failing precompiles (EIP-7823 at Osaka)",
        );
        let mut calls = Vec::new();
        for number in numbers.clone() {
            let to = Address::from_word(U256::from(number).into());
            // Words that are long lengths, large field elements, not points.
            let mut body = [32u64, 64, 96].into_iter().fold(code(), |code, offset| {
                code.push(U256::MAX >> 3).push(U256::from(offset)).op(op::MSTORE)
            });
            for (size, gas) in [
                (0u64, 9u64),
                (0, 150_000),
                (32, 150_000),
                (192, 150_000),
                (213, 150_000),
                (288, 400_000),
            ] {
                body = body
                    .ops(&[op::PUSH0, op::PUSH0])
                    .push(U256::from(size))
                    .op(op::PUSH0)
                    .push_address(to)
                    .push(U256::from(gas))
                    .ops(&[op::STATICCALL, op::POP]);
            }
            let caller = Address::from_word(U256::from(0xc000 + number).into());
            draft = draft.contract(caller, body);
            calls.push(Recipe::call(SENDER, caller).gas(3_000_000));
        }
        list.push(Scenario { depth: Depth::Wide, ..draft.block(calls).0 });
    }
    list
}

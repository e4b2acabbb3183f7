//! EIP-6780 in Geth's eyes: what the transaction itself creates may be destroyed in it.

use crate::chain::extend;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, U256};
use prestate_diff::{Execution, replay_lookups};
use prestate_host::Host;
use prestate_host_embedded::MemoryChain;
use prestate_tests::generate::{BlockRecipe, Code, Fork, GenesisPlan, Keys, Recipe, op};
use prestate_types::GethOptions;
use std::ops::ControlFlow;

/// Rules B10 and E5: a creating transaction whose init code destroys the new contract leaves it in
/// neither map; without rule B10 for the transaction's own creation it would show as an account
/// that vanished (rule D9).
#[test]
fn a_creating_transaction_that_destroys_itself_shows_no_contract() {
    for fork in [Fork::Shanghai, Fork::Cancun, Fork::Prague] {
        let keys = Keys::new(1);
        let mut plan = GenesisPlan::new(fork);
        plan.fund(keys.address(0), 1_000_000_000_000_000_000);
        let genesis: Genesis = serde_json::from_str(&plan.json()).expect("a genesis file");
        let chain = MemoryChain::from_genesis(&genesis);
        let init = Code::new().sstore(1, 2).ops(&[op::CALLER, op::SELFDESTRUCT]);
        let recipe = BlockRecipe {
            coinbase: Address::with_last_byte(9),
            transactions: vec![Recipe::create(0, init.bytes()).value(5)],
            withdrawals: vec![],
        };
        let block = extend(&chain, &keys, &recipe);
        let state = chain.state_after(block.parent_hash).expect("the parent's state");
        let mut seen = None;
        replay_lookups(
            Execution { spec: chain.spec(), block: &block },
            state,
            &mut (),
            |_, lookups, _| {
                seen = Some(lookups.exact_diff(GethOptions::default()));
                ControlFlow::Continue(())
            },
        )
        .expect("a valid block");
        let diff = seen.expect("one transaction");
        let created = keys.address(0).create(0);
        let shown = diff.pre.iter().chain(&diff.post).any(|(address, _)| *address == created);
        assert!(!shown, "{fork}: {diff:?}");
        let sender = diff.post.iter().find(|(address, _)| *address == keys.address(0));
        assert_eq!(sender.map(|(_, account)| account.nonce), Some(1), "{fork}");
        assert_ne!(diff.pre.len(), 0, "{fork}");
        assert!(U256::ZERO < diff.pre[0].1.balance.unwrap_or_default(), "{fork}");
    }
}

//! The scenarios and reports of `prestate-semantics.md`, each as a chain of its own.

mod calls;
mod further;
mod matrix;
mod precompiles;
mod reports;

use alloy_primitives::{Address, Bytes, U256, address, hex};
use prestate_tests::{
    generate::{
        AuthNonce, Authorisation, BlockRecipe,
        CallGas::{All, Exactly},
        Code, Fork, GenesisPlan, Keys, Recipe, Shape, op,
    },
    geth::{Depth, Request},
};

/// A chain that shows one thing.
pub(crate) struct Scenario {
    /// File name.
    pub(crate) name: String,
    /// What it shows and where that is from.
    pub(crate) about: &'static str,
    pub(crate) genesis: GenesisPlan,
    pub(crate) blocks: Vec<BlockRecipe>,
    /// Whether step logs are asked for.
    pub(crate) depth: Depth,
    /// Questions of its own.
    pub(crate) calls: Vec<Request>,
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
    Draft(Scenario {
        name,
        about,
        genesis,
        blocks: Vec::new(),
        depth: Depth::Full,
        calls: Vec::new(),
    })
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
    let mut all = matrix::scenarios();
    all.extend(further::scenarios());
    all.extend(precompiles::scenarios());
    all.extend(reports::scenarios());
    all.extend(calls::scenarios());
    all
}

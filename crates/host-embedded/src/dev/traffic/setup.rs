use super::{
    TrafficContracts,
    actions::{Action, TRANSFER_GAS},
    contracts::{approve, deposit, pool_init, token_init, transfer},
    traders::Traders,
};
use crate::dev::{DevChain, DevError};
use alloy_primitives::U256;
use prestate_host::{BalanceChange, IrregularChange, StateReader};

/// Ether that a trader is given, far more than it will ever use.
const TRADER_ETHER: u64 = 1_000_000_000;
/// A trader below this many ether is given more.
const LOW_ETHER: u64 = 1_000_000;
const DECIMALS: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);
/// Whole tokens there are of each kind.
const SUPPLY: u64 = 1_000_000_000_000;
/// Whole tokens that each pool begins with, of either kind.
const LIQUIDITY: u64 = 100_000_000;
/// Whole tokens of each kind that a trader begins with.
const TRADER_TOKENS: u64 = 1_000_000;
const DEPLOY_GAS: u64 = 3_000_000;
const DEPOSIT_GAS: u64 = 400_000;

/// Makes sure that the traders can pay, that the contracts are there, and that the traders have
/// tokens and have approved the pools. What is there already is left as it is.
pub(super) fn set_up(chain: &DevChain, traders: &Traders) -> Result<TrafficContracts, DevError> {
    fund(chain, traders)?;
    let contracts = TrafficContracts::of(traders.deployer());
    let everything = [
        &contracts.pools.iter().map(|pool| pool.address).collect::<Vec<_>>()[..],
        &contracts.tokens.iter().map(|token| token.address).collect::<Vec<_>>(),
    ]
    .concat();
    let state = chain.head_state()?;
    let mut there = true;
    for address in everything {
        there &= state.account(address)?.is_some_and(|account| account.has_code());
    }
    if !there {
        chain.mine_batch(traders.sign_deployer(chain, deployments(&contracts))?)?;
    }
    let mut gifts = Vec::new();
    let mut approvals = Vec::new();
    for trader in 0..traders.len() {
        // Who has sent something has been set up before.
        if state.account(traders.address(trader))?.is_some_and(|account| account.nonce > 0) {
            continue;
        }
        for token in &contracts.tokens {
            let gift = transfer(traders.address(trader), tokens(TRADER_TOKENS));
            gifts.push(Action::call(token.address, gift, TRANSFER_GAS));
        }
        for pool in &contracts.pools {
            for token in [pool.token0, pool.token1] {
                let approval = approve(pool.address, U256::MAX);
                approvals.push((trader, Action::call(token, approval, TRANSFER_GAS)));
            }
        }
    }
    chain.mine_batch(traders.sign_deployer(chain, gifts)?)?;
    chain.mine_batch(traders.sign(chain, &approvals)?)?;
    Ok(contracts)
}

fn tokens(whole: u64) -> U256 {
    U256::from(whole) * DECIMALS
}

fn fund(chain: &DevChain, traders: &Traders) -> Result<(), DevError> {
    let state = chain.head_state()?;
    let mut balances = Vec::new();
    for address in traders.addresses() {
        let balance = state.account(address)?.unwrap_or_default().balance;
        if balance < tokens(LOW_ETHER) {
            balances.push(BalanceChange { address, balance: tokens(TRADER_ETHER) });
        }
    }
    if !balances.is_empty() {
        chain.decree(IrregularChange { balances, slots: Vec::new() })?;
    }
    Ok(())
}

fn deployments(contracts: &TrafficContracts) -> Vec<Action> {
    let mut actions = Vec::new();
    for token in &contracts.tokens {
        let init = token_init(token.name, token.symbol, tokens(SUPPLY));
        actions.push(Action::create(init, DEPLOY_GAS));
    }
    for pool in &contracts.pools {
        actions.push(Action::create(pool_init(pool.token0, pool.token1), DEPLOY_GAS));
    }
    for pool in &contracts.pools {
        for token in [pool.token0, pool.token1] {
            let approval = approve(pool.address, U256::MAX);
            actions.push(Action::call(token, approval, TRANSFER_GAS));
        }
        let amount = tokens(LIQUIDITY);
        actions.push(Action::call(pool.address, deposit(amount, amount), DEPOSIT_GAS));
    }
    actions
}

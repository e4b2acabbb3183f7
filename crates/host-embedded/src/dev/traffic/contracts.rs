//! Our contracts: what they compile to, how they are called. Sources and the command that compiles
//! them are under `etc/contracts`.

use alloy_primitives::{Address, Bytes, U256};
use serde_json::Value;

const TOKEN: &str = include_str!("../../../../../etc/contracts/out/Token.json");
const POOL: &str = include_str!("../../../../../etc/contracts/out/Pool.json");

/// A token of the traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAt {
    /// Where it is.
    pub address: Address,
    /// What it is called.
    pub name: &'static str,
    /// In short.
    pub symbol: &'static str,
}

/// A pool of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolAt {
    /// Where it is. Slot 0 holds its reserves, 112 bits each from the right.
    pub address: Address,
    /// Its first token.
    pub token0: Address,
    /// Its second token.
    pub token1: Address,
}

/// The contracts that traffic goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficContracts {
    /// ERC-20s.
    pub tokens: Vec<TokenAt>,
    /// Constant-product pools between them.
    pub pools: Vec<PoolAt>,
}

/// The names of the tokens, in the order of their deployment.
const NAMES: [(&str, &str); 3] = [("Alpha", "ALF"), ("Beta", "BET"), ("Gamma", "GAM")];
/// The pools' tokens, by index.
const PAIRS: [(usize, usize); 2] = [(0, 1), (1, 2)];

impl TrafficContracts {
    /// Where a deployer's contracts are: it deploys the tokens first, then the pools.
    pub fn of(deployer: Address) -> Self {
        let tokens: Vec<_> = NAMES
            .into_iter()
            .zip(0..)
            .map(|((name, symbol), nonce)| TokenAt {
                address: deployer.create(nonce),
                name,
                symbol,
            })
            .collect();
        let pools = PAIRS
            .into_iter()
            .zip(tokens.len() as u64..)
            .map(|((first, second), nonce)| PoolAt {
                address: deployer.create(nonce),
                token0: tokens[first].address,
                token1: tokens[second].address,
            })
            .collect();
        Self { tokens, pools }
    }
}

/// Init code of a token with its arguments `(string name, string symbol, uint256 supply)`.
pub(super) fn token_init(name: &str, symbol: &str, supply: U256) -> Bytes {
    let text = |text: &str| {
        let mut words = U256::from(text.len()).to_be_bytes::<32>().to_vec();
        words.extend_from_slice(text.as_bytes());
        words.resize(words.len().next_multiple_of(32), 0);
        words
    };
    let (name, symbol) = (text(name), text(symbol));
    let head = words(&[U256::from(96), U256::from(96 + name.len()), supply]);
    [code(TOKEN), head, name, symbol].concat().into()
}

/// Init code of a pool of two tokens.
pub(super) fn pool_init(token0: Address, token1: Address) -> Bytes {
    [code(POOL), words(&[token0.into_word().into(), token1.into_word().into()])].concat().into()
}

/// `Token.transfer(address,uint256)`.
pub(super) fn transfer(to: Address, value: U256) -> Bytes {
    call([0xa9, 0x05, 0x9c, 0xbb], &[to.into_word().into(), value])
}

/// `Token.approve(address,uint256)`.
pub(super) fn approve(spender: Address, value: U256) -> Bytes {
    call([0x09, 0x5e, 0xa7, 0xb3], &[spender.into_word().into(), value])
}

/// `Pool.deposit(uint256,uint256)`.
pub(super) fn deposit(amount0: U256, amount1: U256) -> Bytes {
    call([0xe2, 0xbb, 0xb1, 0x58], &[amount0, amount1])
}

/// `Pool.swap(bool,uint256,uint256)`; any output will do.
pub(super) fn swap(zero_for_one: bool, amount_in: U256) -> Bytes {
    call([0x08, 0xc8, 0x4c, 0x21], &[U256::from(zero_for_one), amount_in, U256::ZERO])
}

fn call(selector: [u8; 4], arguments: &[U256]) -> Bytes {
    [selector.as_slice(), &words(arguments)].concat().into()
}

fn words(arguments: &[U256]) -> Vec<u8> {
    arguments.iter().flat_map(|word| word.to_be_bytes::<32>()).collect()
}

/// The init code in an artefact.
fn code(artefact: &str) -> Vec<u8> {
    let artefact: Value = serde_json::from_str(artefact).unwrap_or_default();
    let code = artefact["bytecode"].as_str().unwrap_or_default();
    alloy_primitives::hex::decode(code).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The selectors are those of the artefacts, which name them by signature.
    #[test]
    fn calls_are_those_of_the_artefacts() {
        let of = |artefact: &str, signature: &str| {
            let artefact: Value = serde_json::from_str(artefact).unwrap();
            artefact["selectors"][signature].as_str().unwrap().to_owned()
        };
        let one = U256::ONE;
        for (data, artefact, signature) in [
            (transfer(Address::ZERO, one), TOKEN, "transfer(address,uint256)"),
            (approve(Address::ZERO, one), TOKEN, "approve(address,uint256)"),
            (deposit(one, one), POOL, "deposit(uint256,uint256)"),
            (swap(true, one), POOL, "swap(bool,uint256,uint256)"),
        ] {
            let selector = alloy_primitives::hex::encode(&data[..4]);
            assert_eq!(selector, of(artefact, signature), "{signature}");
        }
        assert!(code(TOKEN).len() > 1_000 && code(POOL).len() > 1_000);
    }
}

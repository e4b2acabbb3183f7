//! A chain on a running Geth: recipes in, blocks out.

use super::{
    genesis::{Fork, GenesisPlan},
    keys::Keys,
    transaction::{Recipe, Shape},
};
use crate::geth::{BlockPlan, Geth, GethError, Withdrawal};
use alloy_primitives::{Address, B256, Bytes, U64, keccak256};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::Path,
};

/// A block before nonces and signatures.
#[derive(Debug, Clone, Default)]
pub struct BlockRecipe {
    /// Who gets the tips.
    pub coinbase: Address,
    /// In order.
    pub transactions: Vec<Recipe>,
    /// Whom, and how many gwei.
    pub withdrawals: Vec<(Address, u64)>,
}

/// Why a block could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// Geth failed or refused.
    #[error(transparent)]
    Geth(#[from] GethError),
    /// It answered with something else than asked for.
    #[error("{what}: {answer}")]
    Answer {
        /// What was asked.
        what: String,
        /// What came.
        answer: String,
    },
}

/// A Geth with the chain built on it so far.
#[derive(Debug)]
pub struct Chain {
    geth: Geth,
    keys: Keys,
    fork: Fork,
    genesis: String,
    height: u64,
    withdrawals: u64,
}

/// Seconds between blocks.
const SLOT: u64 = 12;

impl Chain {
    /// Starts Geth on this genesis.
    pub fn start(binary: &Path, genesis: &GenesisPlan, keys: Keys) -> Result<Self, ChainError> {
        let json = genesis.json();
        let geth = Geth::start(binary, &json)?;
        Ok(Self { geth, keys, fork: genesis.fork, genesis: json, height: 0, withdrawals: 0 })
    }

    /// The node.
    pub const fn geth(&self) -> &Geth {
        &self.geth
    }

    /// The signers.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The genesis file it runs on.
    pub fn genesis(&self) -> &str {
        &self.genesis
    }

    /// Number of the head.
    pub const fn height(&self) -> u64 {
        self.height
    }

    /// Hash and hashes of the transactions of a block.
    pub fn hashes(&self, number: u64) -> Result<(B256, Vec<B256>), ChainError> {
        #[derive(serde::Deserialize)]
        struct Hashes {
            hash: B256,
            transactions: Vec<B256>,
        }
        let what = "eth_getBlockByNumber";
        let answer = self.geth.expect(what, &format!("[\"{number:#x}\",false]"))?;
        let hashes: Result<Hashes, _> = serde_json::from_str(&answer);
        hashes
            .map(|hashes| (hashes.hash, hashes.transactions))
            .map_err(|_| ChainError::Answer { what: what.to_owned(), answer })
    }

    /// RLP of blocks 1 to the head.
    pub fn raw_blocks(&self) -> Result<Vec<Bytes>, ChainError> {
        (1..=self.height).map(|number| Ok(self.geth.raw_block(number)?)).collect()
    }

    /// Builds the next block; returns how many transactions are in it.
    ///
    /// Nonces are taken from the node and counted on. Where code moves a sender's nonce (a CREATE
    /// in a delegated account) Geth names the nonce it wants and the block is signed anew. A sender
    /// who cannot pay any more (delegated code gave its wei away) has no transactions in it.
    pub fn extend(&mut self, block: &BlockRecipe) -> Result<usize, ChainError> {
        let base_fee = self.next_base_fee()?;
        let start = self.nonces(block)?;
        let mut shifts: BTreeMap<usize, i128> = BTreeMap::new();
        let mut block = block.clone();
        // Each round moves a nonce or drops transactions; more rounds than that lead nowhere.
        let rounds = 2 * block.transactions.len() + 8;
        for _ in 0..rounds {
            let (transactions, nonces) = self.sign(&block, &start, &shifts, base_fee);
            let count = transactions.len();
            let plan = self.plan(&block, transactions);
            let (method, error) = match self.geth.commit(&plan) {
                Ok(_) => {
                    self.height += 1;
                    self.withdrawals += block.withdrawals.len() as u64;
                    return Ok(count);
                }
                Err(GethError::Refused { method, error }) => (method, error),
                Err(other) => return Err(other.into()),
            };
            let shift =
                wanted_nonce(&error).and_then(|wanted| self.misplaced(&block, &nonces, wanted));
            if let Some((index, by)) = shift {
                *shifts.entry(index).or_default() += by;
            } else if let Some(poor) = unfunded(&error) {
                shifts.clear();
                let keys = &self.keys;
                block.transactions.retain(|recipe| keys.address(recipe.sender) != poor);
            } else {
                return Err(GethError::Refused { method, error }.into());
            }
        }
        let what = "a block that Geth takes".to_owned();
        Err(ChainError::Answer { what, answer: format!("none after {rounds} tries") })
    }

    fn plan(&self, block: &BlockRecipe, transactions: Vec<Bytes>) -> BlockPlan {
        let number = self.height + 1;
        let withdrawals = block.withdrawals.iter().zip(self.withdrawals..);
        BlockPlan {
            timestamp: number * SLOT,
            coinbase: block.coinbase,
            randao: keccak256(number.to_be_bytes()),
            beacon_root: (self.fork >= Fork::Cancun).then(|| keccak256([number as u8, 1])),
            withdrawals: withdrawals
                .map(|(&(address, amount_gwei), index)| Withdrawal {
                    index,
                    validator: index % 7,
                    address,
                    amount_gwei,
                })
                .collect(),
            transactions,
            slot: None,
        }
    }

    /// Signs a block; `shifts[i]` moves the sender's nonce from transaction i on. Returns the nonces
    /// used as well.
    fn sign(
        &self,
        block: &BlockRecipe,
        start: &BTreeMap<Address, u64>,
        shifts: &BTreeMap<usize, i128>,
        base_fee: u64,
    ) -> (Vec<Bytes>, Vec<u64>) {
        let mut next = start.clone();
        let mut signed = Vec::with_capacity(block.transactions.len());
        let mut used = Vec::with_capacity(block.transactions.len());
        for (index, recipe) in block.transactions.iter().enumerate() {
            let slot = next.entry(self.keys.address(recipe.sender)).or_default();
            let shift = shifts.get(&index).copied().unwrap_or_default();
            *slot = u64::try_from(i128::from(*slot) + shift).unwrap_or_default();
            let nonce = *slot;
            *slot += 1;
            let mut auth_nonces = Vec::new();
            if let Shape::SetCode(list) = &recipe.shape {
                for tuple in list {
                    let slot = next.entry(self.keys.address(tuple.authority)).or_default();
                    auth_nonces.push(*slot);
                    *slot += u64::from(tuple.counts());
                }
            }
            used.push(nonce);
            signed.push(recipe.sign(&self.keys, nonce, base_fee, &auth_nonces));
        }
        (signed, used)
    }

    /// The transaction whose nonce Geth complains of, and by how much it is off.
    fn misplaced(
        &self,
        block: &BlockRecipe,
        nonces: &[u64],
        (sender, given, wanted): (Address, u64, u64),
    ) -> Option<(usize, i128)> {
        let index = block.transactions.iter().zip(nonces).position(|(recipe, &nonce)| {
            self.keys.address(recipe.sender) == sender && nonce == given
        })?;
        Some((index, i128::from(wanted) - i128::from(given)))
    }

    fn nonces(&self, block: &BlockRecipe) -> Result<BTreeMap<Address, u64>, ChainError> {
        let mut people: Vec<usize> = Vec::new();
        for recipe in &block.transactions {
            people.push(recipe.sender);
            if let Shape::SetCode(list) = &recipe.shape {
                people.extend(list.iter().map(|tuple| tuple.authority));
            }
        }
        let mut nonces = BTreeMap::new();
        for key in people {
            let address = self.keys.address(key);
            if let Entry::Vacant(unknown) = nonces.entry(address) {
                let params = format!("[\"{address:#x}\",\"latest\"]");
                unknown.insert(self.quantity("eth_getTransactionCount", &params)?);
            }
        }
        Ok(nonces)
    }

    fn quantity(&self, method: &str, params: &str) -> Result<u64, ChainError> {
        let answer = self.geth.expect(method, params)?;
        let number: Result<U64, _> = serde_json::from_str(&answer);
        number
            .map(|number| number.to())
            .map_err(|_| ChainError::Answer { what: method.to_owned(), answer })
    }

    fn next_base_fee(&self) -> Result<u64, ChainError> {
        let answer = self.geth.expect("eth_feeHistory", "[\"0x1\",\"latest\",[]]")?;
        let next = serde_json::from_str::<serde_json::Value>(&answer).ok().and_then(|history| {
            let text =
                history["baseFeePerGas"].get(1)?.as_str()?.trim_start_matches("0x").to_owned();
            u64::from_str_radix(&text, 16).ok()
        });
        next.ok_or_else(|| ChainError::Answer { what: "eth_feeHistory".to_owned(), answer })
    }
}

impl super::transaction::Authorisation {
    /// Whether the authority's nonce goes up, as far as the tuple tells.
    const fn counts(&self) -> bool {
        use super::{genesis::CHAIN_ID, transaction::AuthNonce};
        self.recovers
            && matches!(self.nonce, AuthNonce::Right)
            && (self.chain_id == 0 || self.chain_id == CHAIN_ID)
    }
}

/// Sender, nonce given, nonce wanted, from Geth's `nonce too low: address 0x…, tx: 3 state: 4`
/// (`core/state_transition.go`).
fn wanted_nonce(error: &str) -> Option<(Address, u64, u64)> {
    let text = &error[error.find("nonce too ")?..];
    let after = |mark: &str| -> Option<&str> {
        let rest = &text[text.find(mark)? + mark.len()..];
        Some(rest.split([',', ' ', '"', '\\', '}']).next().unwrap_or(rest))
    };
    let address = after("address ")?.parse().ok()?;
    Some((address, after("tx: ")?.parse().ok()?, after("state: ")?.parse().ok()?))
}

/// Who cannot pay, from Geth's `insufficient funds for gas * price + value: address 0x… have`.
fn unfunded(error: &str) -> Option<Address> {
    let text = &error[error.find("insufficient funds")?..];
    let rest = &text[text.find("address ")? + 8..];
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_nonce_is_understood() {
        let error = r#"{"code":-32000,"message":"nonce too low: address 0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf, tx: 3 state: 12"}"#;
        let (sender, given, wanted) = wanted_nonce(error).unwrap();
        assert_eq!(sender, Keys::new(1).address(0));
        assert_eq!((given, wanted), (3, 12));
        assert_eq!(wanted_nonce("{\"message\":\"insufficient funds\"}"), None);
    }
}

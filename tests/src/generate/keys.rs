//! Signers with fixed keys.

use alloy_primitives::{Address, B256, U256};
use alloy_signer_local::PrivateKeySigner;

/// Keys 1, 2, 3, …: the accounts of every test chain.
#[derive(Debug, Clone)]
pub struct Keys(Vec<PrivateKeySigner>);

impl Keys {
    /// The first `count` keys.
    pub fn new(count: usize) -> Self {
        // Small numbers above zero are valid secp256k1 keys.
        let signer = |number| PrivateKeySigner::from_bytes(&B256::from(U256::from(number))).ok();
        Self((1..=count).filter_map(signer).collect())
    }

    /// A signer by its place.
    pub fn signer(&self, index: usize) -> &PrivateKeySigner {
        &self.0[index % self.0.len()]
    }

    /// Its address.
    pub fn address(&self, index: usize) -> Address {
        self.signer(index).address()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

use alloy_primitives::{Address, B256};
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner, coins_bip39::English};

/// Accounts that can be asked for; each costs a key derivation.
const MAX_ACCOUNTS: u32 = 10_000;

/// Why no accounts follow from a mnemonic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// Not a BIP-39 phrase.
    #[error("mnemonic: {reason}")]
    Mnemonic {
        /// What is wrong with it.
        reason: String,
    },
    /// Too many.
    #[error("{given} accounts were asked for, at most {limit} are made")]
    TooMany {
        /// Asked for.
        given: u32,
        /// The most.
        limit: u32,
    },
}

/// Accounts whose keys the dev chain holds and signs with.
#[derive(Debug, Clone)]
pub struct DevAccounts(Vec<PrivateKeySigner>);

impl DevAccounts {
    /// Those at `m/44'/60'/0'/0/0` and on.
    ///
    /// # Errors
    /// See [`AccountsError`].
    pub fn from_mnemonic(phrase: &str, count: u32) -> Result<Self, AccountsError> {
        if count > MAX_ACCOUNTS {
            return Err(AccountsError::TooMany { given: count, limit: MAX_ACCOUNTS });
        }
        let signer = |index| {
            MnemonicBuilder::<English>::default()
                .phrase(phrase)
                .index(index)
                .and_then(|builder| builder.build())
                .map_err(|error| AccountsError::Mnemonic { reason: error.to_string() })
        };
        (0..count).map(signer).collect::<Result<_, _>>().map(Self)
    }

    /// Addresses in order.
    pub fn addresses(&self) -> Vec<Address> {
        self.0.iter().map(PrivateKeySigner::address).collect()
    }

    /// Addresses with their private keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = (Address, B256)> {
        self.0.iter().map(|signer| (signer.address(), signer.to_bytes()))
    }

    /// The signer of an address.
    pub fn signer(&self, address: Address) -> Option<&PrivateKeySigner> {
        self.0.iter().find(|signer| signer.address() == address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::config::TEST_MNEMONIC;
    use alloy_primitives::{address, b256};

    #[test]
    fn the_test_mnemonic_gives_the_accounts_that_everybody_knows() {
        let accounts = DevAccounts::from_mnemonic(TEST_MNEMONIC, 10).unwrap();
        let (first, key) = accounts.keys().next().unwrap();
        assert_eq!(first, address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
        let known = b256!("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");
        assert_eq!(key, known);
        let last = address!("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
        assert_eq!(accounts.addresses()[9], last);
    }

    #[test]
    fn bad_phrases_and_numbers_are_named() {
        let refused = DevAccounts::from_mnemonic("test test", 1).unwrap_err();
        assert!(matches!(refused, AccountsError::Mnemonic { .. }), "{refused}");
        let refused = DevAccounts::from_mnemonic(TEST_MNEMONIC, 10_001).unwrap_err();
        assert!(refused.to_string().contains("10001"), "{refused}");
    }
}

use alloy_genesis::GenesisAccount;
use alloy_primitives::{
    Address, B256, Bytes, keccak256,
    map::{AddressMap, B256Map},
};
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountInfo, KECCAK_EMPTY};
use revm::bytecode::Bytecode;
use std::collections::BTreeMap;

/// A state held in maps: the part of a real state that one block reads, or a whole small one.
#[derive(Debug, Clone, Default)]
pub struct MapState {
    accounts: AddressMap<(AccountInfo, B256Map<B256>)>,
    codes: B256Map<Bytecode>,
    block_hashes: BTreeMap<u64, B256>,
    partial: bool,
}

impl MapState {
    /// A whole state: what is not in it is zero.
    pub fn whole(alloc: impl IntoIterator<Item = (Address, GenesisAccount)>) -> Self {
        let mut state = Self::default();
        for (address, account) in alloc {
            state.insert(address, account);
        }
        state
    }

    /// The part of a state that a block reads. An account that is not in it does not exist; a slot
    /// that is not in it is an error, never zero.
    pub fn partial(
        alloc: impl IntoIterator<Item = (Address, GenesisAccount)>,
        block_hashes: BTreeMap<u64, B256>,
    ) -> Self {
        Self { block_hashes, partial: true, ..Self::whole(alloc) }
    }

    /// Takes over what another part of the same state holds.
    pub fn extend(&mut self, other: Self) {
        for (address, (info, storage)) in other.accounts {
            self.accounts.entry(address).or_insert((info, B256Map::default())).1.extend(storage);
        }
        self.codes.extend(other.codes);
        self.block_hashes.extend(other.block_hashes);
    }

    /// All codes with their hashes.
    pub fn codes(&self) -> impl Iterator<Item = (&B256, Bytes)> {
        self.codes.iter().map(|(hash, code)| (hash, code.original_bytes()))
    }

    /// Number of accounts.
    pub fn account_count(&self) -> usize {
        self.accounts.len()
    }

    fn insert(&mut self, address: Address, account: GenesisAccount) {
        let code_hash = match account.code.filter(|code| !code.is_empty()) {
            Some(code) => {
                let hash = keccak256(&code);
                self.codes.entry(hash).or_insert_with(|| Bytecode::new_raw(code));
                hash
            }
            None => KECCAK_EMPTY,
        };
        let info = AccountInfo {
            nonce: account.nonce.unwrap_or_default(),
            balance: account.balance,
            code_hash,
        };
        let storage = account.storage.unwrap_or_default().into_iter().collect();
        self.accounts.insert(address, (info, storage));
    }
}

impl StateReader for MapState {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.accounts.get(&address).map(|(info, _)| *info))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        let Some((_, storage)) = self.accounts.get(&address) else { return Ok(B256::ZERO) };
        match storage.get(&slot) {
            Some(value) => Ok(*value),
            None if self.partial => Err(StateError::MissingSlot { address, slot }),
            None => Ok(B256::ZERO),
        }
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.codes.get(&hash).cloned().ok_or(StateError::MissingCode(hash))
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        self.block_hashes.get(&number).copied().ok_or(StateError::MissingBlockHash(number))
    }
}

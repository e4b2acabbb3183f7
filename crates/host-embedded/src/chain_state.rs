use crate::trie::Trie;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::TrieAccount;
use imbl::HashMap;
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountInfo, KECCAK_EMPTY};
use revm::{bytecode::Bytecode, database::BundleState};

/// A whole state with its tries. Cloning shares everything, so that every block keeps its own.
#[derive(Debug, Clone, Default)]
pub struct ChainState {
    accounts: HashMap<Address, Account>,
    codes: HashMap<B256, Bytecode>,
    hashes: HashMap<u64, B256>,
    trie: Trie,
}

#[derive(Debug, Clone, Default)]
struct Account {
    info: AccountInfo,
    storage: HashMap<B256, B256>,
    trie: Trie,
}

/// An account with the proof of it and of some of its slots (EIP-1186).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountProof {
    /// As the state trie holds it; all zero if it does not exist.
    pub account: TrieAccount,
    /// Nodes of the state trie, root first.
    pub nodes: Vec<Bytes>,
    /// A slot's value and the nodes of the storage trie, in the order asked.
    pub slots: Vec<(B256, Vec<Bytes>)>,
}

impl ChainState {
    /// The state of a genesis file.
    pub(crate) fn from_alloc<'a>(
        alloc: impl IntoIterator<Item = (&'a Address, &'a GenesisAccount)>,
    ) -> Self {
        let mut state = Self::default();
        for (address, given) in alloc {
            let code_hash = given.code.as_ref().filter(|code| !code.is_empty()).map(|code| {
                let code = Bytecode::new_raw(code.clone());
                let hash = code.hash_slow();
                state.codes.insert(hash, code);
                hash
            });
            let info = AccountInfo {
                nonce: given.nonce.unwrap_or_default(),
                balance: given.balance,
                code_hash: code_hash.unwrap_or(KECCAK_EMPTY),
            };
            let mut account = Account { info, ..Account::default() };
            for (slot, value) in given.storage.iter().flatten() {
                account.set(*slot, *value);
            }
            state.put(*address, account);
        }
        state
    }

    /// Notes the hash of a block, for BLOCKHASH.
    pub(crate) fn note_hash(&mut self, number: u64, hash: B256) {
        self.hashes.insert(number, hash);
    }

    pub(crate) fn apply(&mut self, bundle: &BundleState) {
        for (hash, code) in &bundle.contracts {
            self.codes.insert(*hash, code.clone());
        }
        for (address, change) in &bundle.state {
            let Some(info) = &change.info else {
                self.accounts.remove(address);
                self.trie.set(keccak256(address), Vec::new());
                continue;
            };
            let mut account = self.accounts.get(address).cloned().unwrap_or_default();
            if change.was_destroyed() {
                account.storage = HashMap::new();
                account.trie = Trie::default();
            }
            account.info =
                AccountInfo { nonce: info.nonce, balance: info.balance, code_hash: info.code_hash };
            for (slot, value) in &change.storage {
                account.set(B256::from(*slot), value.present_value().into());
            }
            self.put(*address, account);
        }
    }

    fn put(&mut self, address: Address, account: Account) {
        self.trie.set(keccak256(address), alloy_rlp::encode(account.in_trie()));
        self.accounts.insert(address, account);
    }

    /// The root of the whole state.
    pub fn root(&self) -> B256 {
        self.trie.root()
    }

    /// Number of accounts.
    pub fn account_count(&self) -> usize {
        self.accounts.len()
    }

    /// An account and some of its slots with their proofs against [`Self::root`].
    pub fn proof(&self, address: Address, slots: &[B256]) -> AccountProof {
        let account = self.accounts.get(&address);
        let absent = Account::default();
        let there = account.unwrap_or(&absent);
        let slots = slots.iter().map(|slot| {
            let value = there.storage.get(slot).copied().unwrap_or_default();
            (value, there.trie.proof(&keccak256(slot)))
        });
        AccountProof {
            account: there.in_trie(),
            nodes: self.trie.proof(&keccak256(address)),
            slots: slots.collect(),
        }
    }
}

impl Account {
    fn set(&mut self, slot: B256, value: B256) {
        let key = keccak256(slot);
        if value.is_zero() {
            self.storage.remove(&slot);
            self.trie.set(key, Vec::new());
        } else {
            self.storage.insert(slot, value);
            self.trie.set(key, alloy_rlp::encode(U256::from_be_bytes(value.0)));
        }
    }

    fn in_trie(&self) -> TrieAccount {
        TrieAccount {
            nonce: self.info.nonce,
            balance: self.info.balance,
            storage_root: self.trie.root(),
            code_hash: self.info.code_hash,
        }
    }
}

impl StateReader for ChainState {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.accounts.get(&address).map(|account| account.info))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        let storage = self.accounts.get(&address).map(|account| &account.storage);
        Ok(storage.and_then(|storage| storage.get(&slot)).copied().unwrap_or_default())
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.codes.get(&hash).cloned().ok_or(StateError::MissingCode(hash))
    }

    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        self.hashes.get(&number).copied().ok_or(StateError::MissingBlockHash(number))
    }
}

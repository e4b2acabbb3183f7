use crate::{StateError, StateReader};
use alloy_primitives::{Address, B256, U256};
use revm::{Database, DatabaseRef, bytecode::Bytecode, context_interface::DBErrorMarker, state};

/// A [`StateReader`] as the EVM's database.
#[derive(Debug, Clone, Copy)]
pub struct ReaderDb<R>(pub R);

/// [`StateError`] on its way through the EVM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ReaderDbError(#[from] pub StateError);

impl DBErrorMarker for ReaderDbError {}

impl<R: StateReader> DatabaseRef for ReaderDb<R> {
    type Error = ReaderDbError;

    fn basic_ref(&self, address: Address) -> Result<Option<state::AccountInfo>, Self::Error> {
        Ok(self.0.account(address)?.map(|info| state::AccountInfo {
            balance: info.balance,
            nonce: info.nonce,
            code_hash: info.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, Self::Error> {
        if code_hash == prestate_types::KECCAK_EMPTY || code_hash.is_zero() {
            return Ok(Bytecode::default());
        }
        Ok(self.0.code(code_hash)?)
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, Self::Error> {
        Ok(self.0.storage(address, index.into())?.into())
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, Self::Error> {
        Ok(self.0.block_hash(number)?)
    }
}

impl<R: StateReader> Database for ReaderDb<R> {
    type Error = ReaderDbError;

    fn basic(&mut self, address: Address) -> Result<Option<state::AccountInfo>, Self::Error> {
        self.basic_ref(address)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, Self::Error> {
        self.code_by_hash_ref(code_hash)
    }

    fn storage(&mut self, address: Address, index: U256) -> Result<U256, Self::Error> {
        self.storage_ref(address, index)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Self::Error> {
        self.block_hash_ref(number)
    }
}

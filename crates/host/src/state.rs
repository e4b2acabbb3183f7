use crate::StateError;
use alloy_primitives::{Address, B256};
use prestate_types::AccountInfo;
use revm::bytecode::Bytecode;
use std::{fmt, sync::Arc};

/// The state after one block, read only.
///
/// A reader is opened for one piece of work and dropped: it may hold a database transaction, so it
/// is never kept across an await or while a client is written to. Errors of pruning may come from
/// the first read instead of from opening.
pub trait StateReader: fmt::Debug + Send {
    /// An account, `None` if it does not exist. An existing empty account (before EIP-161) is
    /// `Some`.
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError>;

    /// A slot's value, zero if it is not set or the account does not exist.
    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError>;

    /// Many slots of one account, in the order asked. Hosts with a sorted store override this.
    fn storage_many(&self, address: Address, slots: &[B256]) -> Result<Vec<B256>, StateError> {
        slots.iter().map(|slot| self.storage(address, *slot)).collect()
    }

    /// The code of a hash that an account of this state has; never asked for the empty hash.
    fn code(&self, hash: B256) -> Result<Bytecode, StateError>;

    /// The hash of one of the 256 blocks up to and including this one, as BLOCKHASH reads it.
    fn block_hash(&self, number: u64) -> Result<B256, StateError>;
}

macro_rules! through_pointer {
    ($($pointer:ty, $bound:ident;)*) => {$(
        impl<R: StateReader + $bound + ?Sized> StateReader for $pointer {
            fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
                (**self).account(address)
            }

            fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
                (**self).storage(address, slot)
            }

            fn storage_many(
                &self,
                address: Address,
                slots: &[B256],
            ) -> Result<Vec<B256>, StateError> {
                (**self).storage_many(address, slots)
            }

            fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
                (**self).code(hash)
            }

            fn block_hash(&self, number: u64) -> Result<B256, StateError> {
                (**self).block_hash(number)
            }
        }
    )*};
}

through_pointer! {
    Box<R>, Send;
    Arc<R>, Sync;
}

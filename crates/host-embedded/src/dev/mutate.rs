use super::{DevChain, DevError};
use alloy_primitives::{Address, B256, U256};
use prestate_host::{BalanceChange, IrregularChange, SlotChange, StateReader};
use prestate_types::BlockRef;

impl DevChain {
    /// Sets an account's balance, in wei, by a block of its own.
    ///
    /// # Errors
    /// See [`DevError`].
    pub fn set_balance(&self, address: Address, balance: U256) -> Result<BlockRef, DevError> {
        let change = BalanceChange { address, balance };
        self.decree(IrregularChange { balances: vec![change], slots: Vec::new() })
    }

    /// Sets a slot by a block of its own.
    ///
    /// # Errors
    /// [`DevError::EmptyAccount`]: such an account does not exist and has no slots (EIP-161).
    pub fn set_storage(
        &self,
        address: Address,
        slot: B256,
        value: B256,
    ) -> Result<BlockRef, DevError> {
        if self.head_state()?.account(address)?.is_none_or(|account| account.is_empty()) {
            return Err(DevError::EmptyAccount(address));
        }
        let change = SlotChange { address, slot, value };
        self.decree(IrregularChange { balances: Vec::new(), slots: vec![change] })
    }
}

use crate::{ChainSpec, RecoveredBlock};
use alloy_consensus::{EthereumTxEnvelope, TxEip4844};
use alloy_evm::{
    Evm,
    block::{BlockExecutionError, BlockExecutionResult, BlockExecutor},
};
use alloy_primitives::{Address, B256, U256, map::AddressMap};
use alloy_rlp::{RlpDecodable, RlpEncodable};
use revm::{
    Database, DatabaseCommit,
    state::{Account, AccountStatus, EvmStorageSlot, TransactionId},
};

/// A state change that a block brings about by decree, before anything else in it runs.
///
/// Ethereum had one: the DAO fork (EIP-779), part of every client's rules. The dev chain makes
/// them on demand, a block for each, and writes them into its rules under the hash of the block,
/// so that whoever executes the block applies them ([`apply_pre_block`]) and they appear among the
/// block's system changes like any other.
#[derive(Debug, Clone, PartialEq, Eq, Default, RlpEncodable, RlpDecodable)]
pub struct IrregularChange {
    /// Balances in wei, each account once.
    pub balances: Vec<BalanceChange>,
    /// Slots, each once.
    pub slots: Vec<SlotChange>,
}

/// An account's balance, replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct BalanceChange {
    /// Whose.
    pub address: Address,
    /// The new balance in wei.
    pub balance: U256,
}

/// A slot's value, replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct SlotChange {
    /// Whose.
    pub address: Address,
    /// Which.
    pub slot: B256,
    /// The new value.
    pub value: B256,
}

impl IrregularChange {
    /// Commits the change to a state. An account that is empty afterwards does not exist
    /// (EIP-161), and slots of such an account are gone with it.
    pub fn apply<D: Database + DatabaseCommit>(&self, state: &mut D) -> Result<(), D::Error> {
        let mut accounts: AddressMap<Account> = AddressMap::default();
        let touched = |accounts: &mut AddressMap<Account>, state: &mut D, address| {
            if accounts.contains_key(&address) {
                return Ok(());
            }
            let mut account = match state.basic(address)? {
                Some(info) => Account::from(info),
                None => {
                    let mut absent = Account::default();
                    absent.status |= AccountStatus::LoadedAsNotExisting;
                    absent
                }
            };
            account.mark_touch();
            accounts.insert(address, account);
            Ok(())
        };
        for change in &self.balances {
            touched(&mut accounts, state, change.address)?;
            if let Some(account) = accounts.get_mut(&change.address) {
                account.info.balance = change.balance;
            }
        }
        for change in &self.slots {
            touched(&mut accounts, state, change.address)?;
            let key = U256::from_be_bytes(change.slot.0);
            let before = state.storage(change.address, key)?;
            let value = EvmStorageSlot::new_changed(
                before,
                U256::from_be_bytes(change.value.0),
                TransactionId::ZERO,
            );
            if let Some(account) = accounts.get_mut(&change.address) {
                account.storage.insert(key, value);
            }
        }
        state.commit(accounts);
        Ok(())
    }
}

/// Runs a whole block: [`apply_pre_block`], the transactions, what follows them.
pub fn execute_block<E>(
    spec: &ChainSpec,
    block: &RecoveredBlock,
    mut executor: E,
) -> Result<BlockExecutionResult<E::Receipt>, BlockExecutionError>
where
    E: BlockExecutor<
            Transaction = EthereumTxEnvelope<TxEip4844>,
            Evm: Evm<DB: Database + DatabaseCommit>,
        >,
{
    apply_pre_block(spec, block, &mut executor)?;
    for tx in block.transactions_recovered() {
        executor.execute_transaction(tx)?;
    }
    executor.apply_post_execution_changes()
}

/// What a block does before its first transaction: the irregular change that the rules hold for
/// it, if any, and the system calls.
pub fn apply_pre_block<E>(
    spec: &ChainSpec,
    block: &RecoveredBlock,
    executor: &mut E,
) -> Result<(), BlockExecutionError>
where
    E: BlockExecutor<Evm: Evm<DB: Database + DatabaseCommit>>,
{
    if let Some(change) = spec.irregular_change(&block.hash()) {
        change.apply(executor.evm_mut().db_mut()).map_err(BlockExecutionError::other)?;
    }
    executor.apply_pre_execution_changes()
}

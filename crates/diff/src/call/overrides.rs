use super::CallEnvironment;
use alloy_evm::precompiles::PrecompilesMap;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256, map::B256Map};
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountInfo, BlockRef};
use revm::bytecode::Bytecode;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What a call replaces of an account (Geth `override.OverrideAccount`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountOverride {
    /// Its nonce.
    pub nonce: Option<u64>,
    /// Its code.
    pub code: Option<Bytes>,
    /// Its balance in wei.
    pub balance: Option<U256>,
    /// All of its storage; never together with `state_diff`.
    pub state: Option<BTreeMap<B256, B256>>,
    /// Some of its slots.
    pub state_diff: Option<BTreeMap<B256, B256>>,
    /// Where the precompile at this address goes.
    pub move_precompile_to: Option<Address>,
}

/// The accounts a call replaces.
pub type StateOverrides = BTreeMap<Address, AccountOverride>;

/// Why overrides cannot be applied; in Geth's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A precompile was moved here.
    #[error("account {0} has already been overridden by a precompile")]
    OverriddenByPrecompile(Address),
    /// Nothing to move.
    #[error("account {0} is not a precompile")]
    NotAPrecompile(Address),
    /// A precompile would be moved onto an account that is overridden as well.
    #[error("account {0} is already overridden")]
    AlreadyOverridden(Address),
    /// Whole storage and part of it.
    #[error("account {0} has both 'state' and 'stateDiff'")]
    StateAndStateDiff(Address),
    /// Reading the account failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The state that a call runs on, and the precompiles if they are not those of the rules.
pub struct CallState {
    pub(super) reader: Overridden,
    pub(super) precompiles: Option<PrecompilesMap>,
}

impl fmt::Debug for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallState").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl CallState {
    /// A state after or inside `block`, with accounts replaced.
    ///
    /// # Errors
    /// See [`OverrideError`]; the lowest address with a fault is reported.
    pub fn new(
        inner: Box<dyn StateReader>,
        block: BlockRef,
        overrides: &StateOverrides,
        environment: &CallEnvironment,
    ) -> Result<Self, OverrideError> {
        let mut reader = Overridden {
            inner,
            block,
            on_top: environment.number() == block.number.wrapping_add(1),
            accounts: BTreeMap::new(),
            codes: B256Map::default(),
            storage: BTreeMap::new(),
        };
        let mut precompiles = None;
        let mut moved_to = BTreeSet::new();
        for (address, account) in overrides {
            if moved_to.contains(address) {
                return Err(OverrideError::OverriddenByPrecompile(*address));
            }
            let held = environment.precompiles().contains(address);
            if let Some(to) = account.move_precompile_to {
                if !held {
                    return Err(OverrideError::NotAPrecompile(*address));
                }
                if overrides.contains_key(&to) {
                    return Err(OverrideError::AlreadyOverridden(to));
                }
                moved_to.insert(to);
            }
            if held {
                // What is overridden is a precompile no longer.
                let map = precompiles
                    .get_or_insert_with(|| PrecompilesMap::from_static(environment.precompiles()));
                let mut taken = None;
                map.apply_precompile(address, |precompile| {
                    taken = precompile;
                    None
                });
                if let (Some(to), Some(precompile)) = (account.move_precompile_to, taken) {
                    map.apply_precompile(&to, |_| Some(precompile));
                }
            }
            reader.replace(*address, account)?;
        }
        Ok(Self { reader, precompiles })
    }
}

/// A state with accounts replaced.
#[derive(Debug)]
pub(super) struct Overridden {
    inner: Box<dyn StateReader>,
    block: BlockRef,
    /// The message runs in a block that would come next.
    on_top: bool,
    accounts: BTreeMap<Address, AccountInfo>,
    codes: B256Map<Bytecode>,
    /// Slots, and whether they are all that the account has.
    storage: BTreeMap<Address, (bool, BTreeMap<B256, B256>)>,
}

impl Overridden {
    fn replace(
        &mut self,
        address: Address,
        account: &AccountOverride,
    ) -> Result<(), OverrideError> {
        let AccountOverride { nonce, code, balance, state, state_diff, .. } = account;
        if state.is_some() && state_diff.is_some() {
            return Err(OverrideError::StateAndStateDiff(address));
        }
        let slots = match (state, state_diff) {
            (Some(slots), _) => Some((true, slots.clone())),
            (None, Some(slots)) if !slots.is_empty() => Some((false, slots.clone())),
            _ => None,
        };
        if nonce.is_none() && code.is_none() && balance.is_none() && slots.is_none() {
            return Ok(());
        }
        // Whatever is set makes the account exist, empty or not.
        let mut info = self.inner.account(address)?.unwrap_or_default();
        info.nonce = nonce.unwrap_or(info.nonce);
        info.balance = balance.unwrap_or(info.balance);
        if let Some(code) = code {
            info.code_hash = keccak256(code);
            // Bytes that only look like a delegation are ordinary code.
            let bytecode = Bytecode::new_raw_checked(code.clone())
                .unwrap_or_else(|_| Bytecode::new_legacy(code.clone()));
            self.codes.insert(info.code_hash, bytecode);
        }
        self.accounts.insert(address, info);
        if let Some(slots) = slots {
            self.storage.insert(address, slots);
        }
        Ok(())
    }
}

impl StateReader for Overridden {
    fn account(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self.accounts.get(&address) {
            Some(info) => Ok(Some(*info)),
            None => self.inner.account(address),
        }
    }

    fn storage(&self, address: Address, slot: B256) -> Result<B256, StateError> {
        match self.storage.get(&address) {
            Some((whole, slots)) => match slots.get(&slot) {
                Some(value) => Ok(*value),
                None if *whole => Ok(B256::ZERO),
                None => self.inner.storage(address, slot),
            },
            None => self.inner.storage(address, slot),
        }
    }

    fn code(&self, hash: B256) -> Result<Bytecode, StateError> {
        match self.codes.get(&hash) {
            Some(code) => Ok(code.clone()),
            None => self.inner.code(hash),
        }
    }

    /// Geth looks from the block downwards, whatever the message takes for its number.
    fn block_hash(&self, number: u64) -> Result<B256, StateError> {
        match number.cmp(&self.block.number) {
            Ordering::Less => self.inner.block_hash(number),
            Ordering::Equal if self.on_top => Ok(self.block.hash),
            _ => Ok(B256::ZERO),
        }
    }
}

use crate::{
    LookupInspector, TxStep,
    changes::{after, info, original_bytes},
    driver::{BlockState, state_error},
};
use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844, transaction::Recovered};
use alloy_evm::Evm;
use alloy_primitives::{Address, B256};
use prestate_host::{StateError, StateReader};
use prestate_types::{
    AccountInfo, Codes, GethAccount, GethDiff, GethOptions, GethState, KECCAK_EMPTY,
};
use revm::{Database, bytecode::Bytecode, primitives::hardfork::SpecId, state::EvmState};

/// Options of the plain (non-diff) mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PlainOptions {
    /// What is printed of an account.
    pub fields: GethOptions,
    /// Keep accounts that were empty (rule G2).
    pub include_empty: bool,
}

/// One looked-up account.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lookup {
    address: Address,
    before: Option<AccountInfo>,
    after: Option<AccountInfo>,
    /// Geth's tracer takes it for deleted, rightly or not.
    deleted: bool,
    /// Slots looked up, ascending: key, before, after.
    slots: Vec<(B256, B256, B256)>,
}

/// What Geth's prestate tracer looks up in one transaction, with the values before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxLookups(Vec<Lookup>);

impl TxLookups {
    /// Takes the look-ups of a transaction that ran with the inspector, and resets it.
    ///
    /// The tracer snapshots an account at its first look-up. That is the value before the
    /// transaction, since whatever changes an account looks it up first; but for accounts made by a
    /// CREATE2 that the tracer passed over (rule B11).
    pub(crate) fn take<R: StateReader + 'static>(
        step: &mut TxStep<'_, '_, R, LookupInspector>,
        tx: Recovered<&EthereumTxEnvelope<TxEip4844>>,
        codes: &mut Codes,
    ) -> Result<Self, StateError> {
        let seen = std::mem::take(step.evm.inspector_mut());
        Self::of(seen, step, tx, codes)
    }

    /// As [`Self::take`], of an inspector that ran inside another.
    pub(crate) fn of<R: StateReader + 'static, I>(
        mut seen: LookupInspector,
        step: &mut TxStep<'_, '_, R, I>,
        tx: Recovered<&EthereumTxEnvelope<TxEip4844>>,
        codes: &mut Codes,
    ) -> Result<Self, StateError>
    where
        I: for<'s> revm::Inspector<alloy_evm::eth::EthEvmContext<&'s mut BlockState<R>>>,
    {
        let prague = step.evm.cfg_env().spec.is_enabled_in(SpecId::PRAGUE);
        let coinbase = step.evm.block().beneficiary;
        let state: &mut BlockState<R> = step.evm.db_mut();
        at_start(&mut seen, state, tx, coinbase, prague)?;

        let mut addresses: Vec<Address> = seen.accounts().copied().collect();
        addresses.sort_unstable();
        let mut lookups = Vec::with_capacity(addresses.len());
        for address in addresses {
            let found = basic(state, address)?;
            let after = after(step.changes, &address).unwrap_or(found);
            let before = seen.made_before_look_up(&address).or(found);
            for side in [before, after].into_iter().flatten() {
                add_code(codes, state, step.changes, &address, side.code_hash)?;
            }
            let mut slots = Vec::new();
            for key in seen.slots(&address) {
                slots.push(slot(step.changes, state, address, *key, after.is_some())?);
            }
            slots.sort_unstable();
            let deleted = seen.is_deleted(&address);
            lookups.push(Lookup { address, before, after, deleted, slots });
        }
        Ok(Self(lookups))
    }

    /// The plain mode: everything looked up, as it was (rules G1 to G3).
    pub fn plain(&self, options: PlainOptions) -> GethState {
        self.0
            .iter()
            .filter(|lookup| options.include_empty || !lookup.was_empty())
            .map(|lookup| (lookup.address, lookup.snapshot(options.fields)))
            .collect()
    }

    /// The diff mode with its three artefacts (rules D9, E2, E3), as Geth prints it.
    pub fn exact_diff(&self, options: GethOptions) -> GethDiff {
        let mut diff = GethDiff::default();
        for lookup in &self.0 {
            let mut pre = lookup.snapshot(options);
            // Rule D1.
            if !lookup.deleted {
                let Some(post) = lookup.changes(options) else { continue };
                // Rule D6.
                pre.storage = lookup.changed_slots(options, |(key, before, _)| (key, before));
                diff.post.push((lookup.address, post));
            }
            // Rule D10.
            if !lookup.was_empty() {
                diff.pre.push((lookup.address, pre));
            }
        }
        diff
    }
}

impl Lookup {
    fn was_empty(&self) -> bool {
        self.before.is_none_or(|info| info.is_empty())
    }

    fn snapshot(&self, options: GethOptions) -> GethAccount {
        let mut account = GethAccount::snapshot(&self.before.unwrap_or_default(), options);
        if !options.disable_storage {
            account.storage = self.slots.iter().map(|(key, before, _)| (*key, *before)).collect();
        }
        account
    }

    fn changed_slots(
        &self,
        options: GethOptions,
        pick: impl Fn((B256, B256, B256)) -> (B256, B256),
    ) -> Vec<(B256, B256)> {
        let changed = |slot: &&(B256, B256, B256)| !options.disable_storage && slot.1 != slot.2;
        let slots = self.slots.iter().filter(changed).copied().map(pick);
        slots.filter(|(_, value)| !value.is_zero()).collect()
    }

    /// The entry in `post`, `None` if the tracer sees no change.
    fn changes(&self, options: GethOptions) -> Option<GethAccount> {
        let before = self.before.unwrap_or_default();
        let after = self.after.unwrap_or_default();
        let mut post = GethAccount::changes(&before, &after, options);
        // Rule D9: an account that does not exist afterwards has the zero code hash.
        if self.after.is_none() {
            let post = post.get_or_insert_default();
            post.code_hash = Some(B256::ZERO);
        }
        let any_slot =
            !options.disable_storage && self.slots.iter().any(|(_, before, after)| before != after);
        if any_slot {
            let storage = self.changed_slots(options, |(key, _, after)| (key, after));
            post.get_or_insert_default().storage = storage;
        }
        post
    }
}

/// Rule B1: what is looked up before the first opcode, whose state is that before the transaction.
fn at_start<R: StateReader>(
    seen: &mut LookupInspector,
    state: &mut BlockState<R>,
    tx: Recovered<&EthereumTxEnvelope<TxEip4844>>,
    coinbase: Address,
    prague: bool,
) -> Result<(), StateError> {
    let sender = tx.signer();
    match tx.to() {
        Some(to) => {
            if prague && let Some(target) = delegation(state, to)? {
                seen.account(target);
            }
            seen.account(to);
        }
        None => {
            let nonce = basic(state, sender)?.unwrap_or_default().nonce;
            let created = sender.create(nonce);
            seen.account(created);
        }
    }
    seen.account(sender);
    seen.account(coinbase);
    for authorization in tx.authorization_list().into_iter().flatten() {
        // Rule B8: every authority that recovers, valid or not.
        if let Ok(authority) = authorization.recover_authority() {
            seen.account(authority);
        }
    }
    Ok(())
}

fn delegation<R: StateReader>(
    state: &mut BlockState<R>,
    address: Address,
) -> Result<Option<Address>, StateError> {
    Ok(code_of(state, address)?.and_then(|code| code.eip7702_address()))
}

fn basic<R: StateReader>(
    state: &mut BlockState<R>,
    address: Address,
) -> Result<Option<AccountInfo>, StateError> {
    Ok(state.basic(address).map_err(reading)?.as_ref().map(info))
}

fn slot<R: StateReader>(
    changes: &EvmState,
    state: &mut BlockState<R>,
    address: Address,
    key: B256,
    exists: bool,
) -> Result<(B256, B256, B256), StateError> {
    let index = key.into();
    let journaled = changes.get(&address).and_then(|account| account.storage.get(&index));
    let (before, after) = match journaled {
        Some(slot) => (slot.original_value(), slot.present_value()),
        None => {
            let value = state.storage(address, index).map_err(reading)?;
            (value, value)
        }
    };
    Ok((key, before.into(), if exists { after.into() } else { B256::ZERO }))
}

fn add_code<R: StateReader>(
    codes: &mut Codes,
    state: &mut BlockState<R>,
    changes: &EvmState,
    address: &Address,
    hash: B256,
) -> Result<(), StateError> {
    if hash == KECCAK_EMPTY || codes.contains(&hash) {
        return Ok(());
    }
    // New code is in the journal only; older code is in the state.
    let journaled = changes
        .get(address)
        .filter(|account| account.info.code_hash == hash)
        .and_then(|account| account.info.code.as_ref())
        .filter(|code| !code.is_empty());
    let bytes = match journaled {
        Some(code) => original_bytes(code),
        None => match code_of(state, *address)? {
            Some(code) if code.hash_slow() == hash => original_bytes(&code),
            _ => original_bytes(&state.code_by_hash(hash).map_err(reading)?),
        },
    };
    codes.insert(hash, bytes);
    Ok(())
}

/// An account's code before the transaction, `None` without code. What an earlier transaction of
/// the block has made is held with its account and cannot be found by its hash yet.
fn code_of<R: StateReader>(
    state: &mut BlockState<R>,
    address: Address,
) -> Result<Option<Bytecode>, StateError> {
    let Some(account) = state.basic(address).map_err(reading)? else { return Ok(None) };
    if !info(&account).has_code() {
        return Ok(None);
    }
    match account.code {
        Some(code) => Ok(Some(code)),
        None => Ok(Some(state.code_by_hash(account.code_hash).map_err(reading)?)),
    }
}

fn reading<E: std::error::Error + 'static>(error: E) -> StateError {
    state_error(&error).unwrap_or_else(|| StateError::Backend(error.to_string()))
}

use crate::changes::info;
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, U256Map},
};
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountDelta, AccountInfo, Codes, SlotDelta, StateDiff};
use revm::{
    bytecode::Bytecode,
    database::{AccountRevert, BundleState, RevertToSlot, states::reverts::AccountInfoRevert},
};

/// What block `index` of a run of blocks changed, from the run's committed bundle.
///
/// The values before come from the block's own reverts, the values after from the first later
/// block that touches the same key, else from the bundle's end state. `parent` is the state before
/// the *first* block of the run; it is asked for two things only: accounts whose storage the block
/// changed and no block of the run their fields, and slots of wiped accounts whose old value the
/// bundle does not hold. Codes that the bundle brings are added to `codes`.
///
/// The bundle must hold one entry of reverts a block; the caller checks `index` against it.
pub fn block_diff(
    bundle: &BundleState,
    index: usize,
    parent: &dyn StateReader,
    codes: &mut Codes,
) -> Result<StateDiff, StateError> {
    let Some(reverts) = bundle.reverts.get(index) else { return Ok(StateDiff::default()) };
    let later = Later::new(bundle, index);
    let mut accounts = Vec::with_capacity(reverts.len());
    for (address, revert) in reverts {
        let later = later.of(address);
        accounts.push((*address, account(bundle, later, address, revert, parent)?));
    }
    for (hash, code) in &bundle.contracts {
        codes.insert(*hash, code.original_bytes());
    }
    Ok(StateDiff::from_unsorted(accounts))
}

/// What blocks after the one looked at found: the values that it left.
trait After {
    /// The account's fields, if a later block changed them.
    fn fields(&self) -> Option<Option<AccountInfo>>;
    /// A slot's value, if a later block changed it.
    fn slot(&self, slot: &U256) -> Option<B256>;
}

/// The reverts of later blocks, by address, in order of blocks. Empty for a run of one block.
struct Later<'a>(AddressMap<Vec<&'a AccountRevert>>);

impl<'a> Later<'a> {
    fn new(bundle: &'a BundleState, index: usize) -> Self {
        let mut later: AddressMap<Vec<&AccountRevert>> = AddressMap::default();
        for (address, revert) in bundle.reverts.iter().skip(index + 1).flatten() {
            later.entry(*address).or_default().push(revert);
        }
        Self(later)
    }

    fn of(&self, address: &Address) -> &[&'a AccountRevert] {
        self.0.get(address).map_or(&[], Vec::as_slice)
    }
}

impl After for [&AccountRevert] {
    fn fields(&self) -> Option<Option<AccountInfo>> {
        self.iter().find_map(|revert| before(revert))
    }

    fn slot(&self, slot: &U256) -> Option<B256> {
        let value = self.iter().find_map(|revert| revert.storage.get(slot));
        value.map(|value| value.to_previous_value().into())
    }
}

/// The values before the block above the one looked at, as far as blocks above it changed them.
#[derive(Debug, Default)]
struct Found {
    fields: Option<Option<AccountInfo>>,
    slots: U256Map<B256>,
}

impl After for Found {
    fn fields(&self) -> Option<Option<AccountInfo>> {
        self.fields
    }

    fn slot(&self, slot: &U256) -> Option<B256> {
        self.slots.get(slot).copied()
    }
}

/// What each block of a long run changed, from the newest block down, in one pass over the run's
/// bundle: [`block_diff`] of every block would go over it once a block.
///
/// No state is asked: while a node syncs in stages what it says of the past may not hold. An item
/// is `None` where the bundle by itself does not say all: an account was cleared as a whole, whose
/// slots it need not name, or it lacks fields that a block left as they were.
#[derive(Debug)]
pub struct RunDiffs<'a> {
    bundle: &'a BundleState,
    /// Blocks that are still to come.
    left: usize,
    found: AddressMap<Found>,
}

impl<'a> RunDiffs<'a> {
    /// Over a bundle with one entry of reverts a block.
    pub fn new(bundle: &'a BundleState) -> Self {
        Self { bundle, left: bundle.reverts.len(), found: AddressMap::default() }
    }
}

impl Iterator for RunDiffs<'_> {
    type Item = Option<StateDiff>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let reverts = self.bundle.reverts.get(self.left)?;
        let mut accounts = Some(Vec::with_capacity(reverts.len()));
        for (address, revert) in reverts {
            let found = self.found.entry(*address).or_default();
            let delta = account(self.bundle, found, address, revert, &NoState);
            accounts = match (accounts, delta) {
                (Some(mut accounts), Ok(delta)) if !delta.wiped => {
                    accounts.push((*address, delta));
                    Some(accounts)
                }
                _ => None,
            };
            if let Some(fields) = before(revert) {
                found.fields = Some(fields);
            }
            let slots = revert.storage.iter();
            found
                .slots
                .extend(slots.map(|(slot, value)| (*slot, value.to_previous_value().into())));
        }
        Some(accounts.map(StateDiff::from_unsorted))
    }
}

/// A state that says nothing.
#[derive(Debug)]
struct NoState;

impl NoState {
    fn refuse<T>() -> Result<T, StateError> {
        Err(StateError::Backend("no state is asked for a run".to_owned()))
    }
}

impl StateReader for NoState {
    fn account(&self, _: Address) -> Result<Option<AccountInfo>, StateError> {
        Self::refuse()
    }

    fn storage(&self, _: Address, _: B256) -> Result<B256, StateError> {
        Self::refuse()
    }

    fn code(&self, _: B256) -> Result<Bytecode, StateError> {
        Self::refuse()
    }

    fn block_hash(&self, _: u64) -> Result<B256, StateError> {
        Self::refuse()
    }
}

fn account(
    bundle: &BundleState,
    later: &(impl After + ?Sized),
    address: &Address,
    revert: &AccountRevert,
    parent: &dyn StateReader,
) -> Result<AccountDelta, StateError> {
    let end = bundle.account(address);
    // The account's fields after the block, as far as the bundle knows them.
    let after = later.fields().or_else(|| end.map(|account| account.info.as_ref().map(info)));
    let (pre, post) = match (before(revert), after) {
        (Some(pre), Some(post)) => (pre, post),
        // Fields unchanged by this block: both sides are whatever they are afterwards.
        (None, Some(same)) => (same, same),
        // Not in the end state at all: nothing of the run changed the fields.
        (pre, None) => {
            let same = parent.account(*address)?;
            (pre.unwrap_or(same), same)
        }
    };
    let mut storage = Vec::with_capacity(revert.storage.len());
    for (slot, value) in &revert.storage {
        let key = B256::from(*slot);
        let pre = match value {
            RevertToSlot::Some(value) => B256::from(*value),
            // The account was wiped before this slot was seen: its old value is the parent's.
            // Block files may lack it, since nothing of the block read it: see
            // [`AccountDelta::wiped`].
            RevertToSlot::Destroyed if revert.wipe_storage => match parent.storage(*address, key) {
                Err(StateError::MissingSlot { .. }) => B256::ZERO,
                value => value?,
            },
            RevertToSlot::Destroyed => B256::ZERO,
        };
        let post = match later.slot(slot) {
            Some(value) => value,
            // A later wipe that does not list the slot leaves it to the end state as well.
            None => end
                .and_then(|account| account.storage.get(slot))
                .map(|slot| B256::from(slot.present_value()))
                .unwrap_or_default(),
        };
        storage.push(SlotDelta::new(key, pre, post));
    }
    // Where an earlier block of the run wiped the account already, the bundle knows its whole
    // storage and does not mark a later wipe.
    let wiped = pre.is_some() && (revert.wipe_storage || post.is_none());
    Ok(AccountDelta { pre, post, storage, wiped })
}

/// The fields before the block of this revert; `None` if that block did not change them.
fn before(revert: &AccountRevert) -> Option<Option<AccountInfo>> {
    match &revert.account {
        AccountInfoRevert::DoNothing => None,
        AccountInfoRevert::DeleteIt => Some(None),
        AccountInfoRevert::RevertTo(old) => Some(Some(info(old))),
    }
}

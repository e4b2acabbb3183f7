use crate::changes::info;
use alloy_primitives::{Address, B256, map::AddressMap};
use prestate_host::{StateError, StateReader};
use prestate_types::{AccountDelta, AccountInfo, Codes, SlotDelta, StateDiff};
use revm::database::{
    AccountRevert, BundleState, RevertToSlot, states::reverts::AccountInfoRevert,
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
        accounts.push((*address, account(bundle, &later, address, revert, parent)?));
    }
    for (hash, code) in &bundle.contracts {
        codes.insert(*hash, code.original_bytes());
    }
    Ok(StateDiff::from_unsorted(accounts))
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

fn account(
    bundle: &BundleState,
    later: &Later<'_>,
    address: &Address,
    revert: &AccountRevert,
    parent: &dyn StateReader,
) -> Result<AccountDelta, StateError> {
    let later = later.of(address);
    let end = bundle.account(address);
    // The account's fields after the block, as far as the bundle knows them.
    let after = later
        .iter()
        .find_map(|revert| before(revert))
        .or_else(|| end.map(|account| account.info.as_ref().map(info)));
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
        let next = later.iter().find_map(|revert| revert.storage.get(slot));
        let post = match next {
            Some(value) => B256::from(value.to_previous_value()),
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

use super::RecordError;
use alloy_primitives::{Address, B256, U256, map::B256Map};
use prestate_types::{AccountInfo, StateDiff, ZeroReads};

/// What the parts of a block refer to by index: each address, slot and code once.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Ascending.
    pub(crate) addresses: Vec<Address>,
    /// Where each address's slots start in `slots`; one entry more than there are addresses.
    pub(crate) starts: Vec<usize>,
    /// Slots, ascending within an address.
    pub(crate) slots: Vec<B256>,
    /// Codes in the order they are first met.
    pub(crate) codes: Vec<B256>,
    code_index: B256Map<usize>,
}

impl Tables {
    pub(crate) fn of<'a>(
        diffs: impl Iterator<Item = &'a StateDiff>,
        zero_reads: impl Iterator<Item = &'a ZeroReads>,
    ) -> Self {
        let mut tables = Self::default();
        let mut slots = Vec::new();
        for (address, delta) in diffs.flatten() {
            tables.addresses.push(*address);
            slots.extend(delta.storage.iter().map(|slot| (*address, slot.slot)));
            for info in delta.pre.iter().chain(&delta.post).filter(|info| info.has_code()) {
                let next = tables.codes.len();
                tables.code_index.entry(info.code_hash).or_insert_with(|| {
                    tables.codes.push(info.code_hash);
                    next
                });
            }
        }
        for (address, reads) in zero_reads.flatten() {
            tables.addresses.push(*address);
            slots.extend(reads.iter().map(|slot| (*address, *slot)));
        }
        tables.addresses.sort_unstable();
        tables.addresses.dedup();
        slots.sort_unstable();
        slots.dedup();
        let mut rest = slots.iter().peekable();
        for address in &tables.addresses {
            tables.starts.push(tables.slots.len());
            while let Some((_, slot)) = rest.next_if(|(owner, _)| owner == address) {
                tables.slots.push(*slot);
            }
        }
        tables.starts.push(tables.slots.len());
        tables
    }

    /// Slots of the address at `index`.
    pub(crate) fn slots_of(&self, index: usize) -> &[B256] {
        &self.slots[self.starts[index]..self.starts[index + 1]]
    }

    pub(crate) fn address(&self, address: &Address) -> Result<usize, RecordError> {
        self.addresses
            .binary_search(address)
            .map_err(|_| RecordError::Malformed { what: "address not in its table" })
    }

    /// Index within the slots of the address at `index`.
    pub(crate) fn slot(&self, index: usize, slot: &B256) -> Result<usize, RecordError> {
        self.slots_of(index)
            .binary_search(slot)
            .map_err(|_| RecordError::Malformed { what: "slot not in its table" })
    }

    /// Zero for no code, else the code's place counted from one.
    pub(crate) fn code(&self, info: &AccountInfo) -> usize {
        self.code_index.get(&info.code_hash).map_or(0, |index| index + 1)
    }
}

/// What is known of the state while going through the parts in order: a later part starts where
/// the one before it ended, so its values before need not be written.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) accounts: Vec<Option<Option<AccountInfo>>>,
    pub(crate) slots: Vec<Option<U256>>,
}

impl Known {
    pub(crate) fn nothing(tables: &Tables) -> Self {
        Self { accounts: vec![None; tables.addresses.len()], slots: vec![None; tables.slots.len()] }
    }
}

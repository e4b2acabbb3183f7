use crate::{AccountInfo, KECCAK_EMPTY};
use alloy_primitives::{B256, Bytes, map::B256Map};

/// A map keyed by code hash.
pub type CodeHashMap<V> = B256Map<V>;

/// Contract codes by hash. Cloning a code is cheap: it shares its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes(CodeHashMap<Bytes>);

impl Codes {
    /// The code of a hash. Empty code is always known; `None` means the hash is not in the table.
    pub fn get(&self, hash: &B256) -> Option<Bytes> {
        if *hash == KECCAK_EMPTY { Some(Bytes::new()) } else { self.0.get(hash).cloned() }
    }

    /// Whether the hash is known.
    pub fn contains(&self, hash: &B256) -> bool {
        *hash == KECCAK_EMPTY || self.0.contains_key(hash)
    }

    /// Adds a code. The caller vouches that `hash` is its hash.
    pub fn insert(&mut self, hash: B256, code: Bytes) {
        if hash != KECCAK_EMPTY {
            self.0.insert(hash, code);
        }
    }

    /// Whether an account's code, if it has any, is in the table.
    pub fn covers(&self, info: &AccountInfo) -> bool {
        self.contains(&info.code_hash)
    }

    /// All codes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&B256, &Bytes)> {
        self.0.iter()
    }

    /// Number of codes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over all codes of another table.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl FromIterator<(B256, Bytes)> for Codes {
    fn from_iter<I: IntoIterator<Item = (B256, Bytes)>>(iter: I) -> Self {
        let mut codes = Self::default();
        for (hash, code) in iter {
            codes.insert(hash, code);
        }
        codes
    }
}

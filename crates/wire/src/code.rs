use crate::CodeSegment;
use alloy_primitives::{B256, Bytes, KECCAK256_EMPTY, map::B256Map};
use parking_lot::Mutex;
use prestate_types::Codes;
use std::sync::{Arc, Weak};

/// Uses from which the best form of a code is worth making: it recurs.
const MIN_USES_TO_IMPROVE: u32 = 2;

/// The shared segments of a process, by code hash.
///
/// The table keeps no code alive: a segment goes when the last payload that shows it goes.
#[derive(Debug, Default)]
pub struct CodeTable {
    segments: Mutex<B256Map<Weak<CodeSegment>>>,
}

impl CodeTable {
    /// A table without codes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The segment of a hash, if some payload still holds it.
    pub fn get(&self, hash: &B256) -> Option<Arc<CodeSegment>> {
        self.segments.lock().get(hash).and_then(Weak::upgrade)
    }

    /// The segment of a code, made if no payload holds it. The caller vouches that `hash` is the
    /// hash of `code`.
    pub fn intern(&self, hash: &B256, code: &[u8]) -> Arc<CodeSegment> {
        if let Some(segment) = self.get(hash) {
            return segment;
        }
        // Made outside the lock; of two made at once the first one in stays.
        let made = Arc::new(CodeSegment::new(*hash, code));
        let mut segments = self.segments.lock();
        if let Some(segment) = segments.get(hash).and_then(Weak::upgrade) {
            return segment;
        }
        if segments.len() == segments.capacity() {
            segments.retain(|_, segment| segment.strong_count() > 0);
        }
        segments.insert(*hash, Arc::downgrade(&made));
        made
    }

    /// The segment of a hash, made of what `code` finds if no payload holds it. The caller vouches
    /// that `hash` is the hash of that.
    pub fn get_or_intern(
        &self,
        hash: &B256,
        code: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Arc<CodeSegment>> {
        self.get(hash).or_else(|| code().map(|code| self.intern(hash, &code)))
    }

    /// Compresses the most used codes better, so many at most, and gives their number; none left to
    /// improve gives zero. It takes about a millisecond a code: call it where nobody waits.
    ///
    /// Ropes compressed from then on are smaller; those compressed before stay as they are.
    pub fn improve(&self, most: usize) -> usize {
        let segments = self.segments();
        let mut worth: Vec<_> = segments
            .iter()
            .filter_map(|segment| Some((segment.improvable_uses()?, segment)))
            .filter(|(uses, _)| *uses >= MIN_USES_TO_IMPROVE)
            .collect();
        worth.sort_unstable_by_key(|(uses, _)| std::cmp::Reverse(*uses));
        worth.truncate(most);
        worth.iter().for_each(|(_, segment)| segment.improve());
        worth.len()
    }

    /// Lets go the texts that nobody has asked for since the last call, and gives the bytes freed.
    /// Where clients take gzip, that is all but the newest: a code's compressed form takes about a
    /// fifth of its text's room, and gives the text back when a client wants it.
    pub fn release_texts(&self) -> u64 {
        self.segments().iter().map(|segment| segment.release_text() as u64).sum()
    }

    fn segments(&self) -> Vec<Arc<CodeSegment>> {
        self.segments.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Number of codes in use and the bytes they hold.
    pub fn usage(&self) -> (usize, u64) {
        let segments = self.segments();
        (segments.len(), segments.iter().map(|segment| segment.memory_bytes()).sum())
    }
}

/// Where a writer finds the codes it has to show.
pub trait CodeSource {
    /// The segment of a code. Asked for every account that shows its code, never for the empty
    /// code. `None`: the code is not known, and the writer fails with [`MissingCode`].
    fn code(&self, hash: &B256) -> Option<Arc<CodeSegment>>;
}

/// Codes of a block's facts, interned in the process's table as they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct KnownCodes<'a> {
    table: &'a CodeTable,
    codes: &'a Codes,
}

impl<'a> KnownCodes<'a> {
    /// A source from both.
    pub fn new(table: &'a CodeTable, codes: &'a Codes) -> Self {
        Self { table, codes }
    }
}

impl CodeSource for KnownCodes<'_> {
    fn code(&self, hash: &B256) -> Option<Arc<CodeSegment>> {
        debug_assert_ne!(*hash, KECCAK256_EMPTY);
        self.table.get_or_intern(hash, || self.codes.get(hash))
    }
}

/// A code that has to be shown is not known to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("code {hash} is not known")]
pub struct MissingCode {
    /// Hash of the code.
    pub hash: B256,
}

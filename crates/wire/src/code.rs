use crate::{crc::Crc, deflate::deflate_open};
use alloy_primitives::{B256, KECCAK256_EMPTY};
use bytes::Bytes;
use parking_lot::Mutex;
use prestate_types::Codes;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

/// Level at which libdeflate compresses a code. It is done once for each code hash.
const CODE_LEVEL: i32 = 9;

/// What follows a code in every account that shows one, up to the hash itself.
const BETWEEN: &[u8] = b"\",\"codeHash\":\"0x";

/// The JSON text of one contract code, made once per code hash and shared by all payloads.
///
/// It holds `0x<code>","codeHash":"0x<hash>`, without the quotes around: an account that shows
/// its code shows its hash next (rule I1), so both are shared, and compressed, together.
pub struct CodeSegment {
    hash: B256,
    text: Bytes,
    crc: Crc,
    deflated: OnceLock<Bytes>,
}

impl CodeSegment {
    fn new(hash: B256, code: &[u8]) -> Self {
        let mut text = Vec::with_capacity(2 + 2 * code.len() + BETWEEN.len() + 64);
        text.extend_from_slice(b"0x");
        crate::hex::push_hex(&mut text, code);
        text.extend_from_slice(BETWEEN);
        crate::hex::push_hex(&mut text, hash.as_slice());
        let crc = Crc::of(&text);
        Self { hash, text: text.into(), crc, deflated: OnceLock::new() }
    }

    /// Keccak-256 of the code.
    pub fn hash(&self) -> &B256 {
        &self.hash
    }

    /// The code as `0x…` in lower-case hex, without quotes.
    pub fn code_text(&self) -> &[u8] {
        &self.text[..self.text.len() - BETWEEN.len() - 64]
    }

    /// The whole shared text: `0x<code>","codeHash":"0x<hash>`.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    pub(crate) fn crc(&self) -> Crc {
        self.crc
    }

    /// The text in deflate: blocks that end at a byte border and are not the last of a stream.
    /// Made at the first call, which takes some hundred microseconds, and kept.
    pub fn deflated(&self) -> &Bytes {
        self.deflated.get_or_init(|| deflate_open(&self.text, CODE_LEVEL).into())
    }

    /// Bytes this segment holds at present: text and compressed form.
    pub fn memory_bytes(&self) -> u64 {
        let deflated = self.deflated.get().map_or(0, Bytes::len);
        (self.text.len() + deflated + size_of::<Self>()) as u64
    }
}

impl fmt::Debug for CodeSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeSegment")
            .field("hash", &self.hash)
            .field("len", &self.text.len())
            .finish()
    }
}

/// The shared segments of a process, by code hash.
///
/// The table keeps no code alive: a segment goes when the last payload that shows it goes.
#[derive(Debug, Default)]
pub struct CodeTable {
    segments: Mutex<HashMap<B256, Weak<CodeSegment>, alloy_primitives::map::FbBuildHasher<32>>>,
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

    /// Number of codes in use and the bytes they hold.
    pub fn usage(&self) -> (usize, u64) {
        let segments = self.segments.lock();
        segments
            .values()
            .filter_map(Weak::upgrade)
            .fold((0, 0), |(count, bytes), segment| (count + 1, bytes + segment.memory_bytes()))
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
        self.table
            .get(hash)
            .or_else(|| self.codes.get(hash).map(|code| self.table.intern(hash, &code)))
    }
}

/// A code that has to be shown is not known to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("code {hash} is not known")]
pub struct MissingCode {
    /// Hash of the code.
    pub hash: B256,
}

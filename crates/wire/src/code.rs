use crate::{
    crc::Crc,
    deflate::deflate_open,
    deflate_runs::{Run, Then, deflate_runs},
};
use alloy_primitives::{B256, KECCAK256_EMPTY};
use bytes::Bytes;
use parking_lot::Mutex;
use prestate_types::Codes;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

/// Level at which libdeflate makes the best form of a code: 16 % smaller than the fast form, at
/// about five times its cost. Levels beyond it gain 3 % for twenty times the cost again.
const CODE_LEVEL: i32 = 9;

/// Uses from which the best form of a code is worth making: it recurs.
const MIN_USES_TO_IMPROVE: u32 = 2;

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
    deflated: Mutex<Forms>,
    /// How often the deflate form was asked for.
    uses: AtomicU32,
}

/// The deflate forms of a code that are held by someone.
#[derive(Debug, Default)]
struct Forms {
    current: Option<Arc<DeflatedCode>>,
    /// The fast form after the best has taken its place, while ropes made with it live.
    superseded: Weak<DeflatedCode>,
}

/// A code's text as deflate blocks that end at a byte border and are not the last of a stream.
#[derive(Debug)]
pub(crate) struct DeflatedCode {
    pub(crate) bytes: Bytes,
    is_best: bool,
}

impl CodeSegment {
    fn new(hash: B256, code: &[u8]) -> Self {
        let mut text = Vec::with_capacity(2 + 2 * code.len() + BETWEEN.len() + 64);
        text.extend_from_slice(b"0x");
        crate::hex::push_hex(&mut text, code);
        text.extend_from_slice(BETWEEN);
        crate::hex::push_hex(&mut text, hash.as_slice());
        let crc = Crc::of(&text);
        let deflated = Mutex::new(Forms::default());
        Self { hash, text: text.into(), crc, deflated, uses: AtomicU32::new(0) }
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

    /// The text in deflate. Made fast at the first call; [`CodeTable::improve`] puts a smaller form
    /// in its place.
    pub(crate) fn deflated(&self) -> Arc<DeflatedCode> {
        self.uses.fetch_add(1, Ordering::Relaxed);
        let mut forms = self.deflated.lock();
        let current = forms.current.get_or_insert_with(|| {
            let run = Run { start: 0, end: self.text.len(), skipped: 0, then: Then::Border };
            let (bytes, _) = deflate_runs(&self.text, &[run]);
            Arc::new(DeflatedCode { bytes: bytes.into(), is_best: false })
        });
        current.clone()
    }

    /// Uses of the deflate form, if it is not the best there is.
    fn improvable_uses(&self) -> Option<u32> {
        let forms = self.deflated.lock();
        let is_fast = forms.current.as_ref().is_some_and(|form| !form.is_best);
        is_fast.then(|| self.uses.load(Ordering::Relaxed))
    }

    /// Makes the best form. Ropes made before keep the form they have.
    fn improve(&self) {
        let bytes = deflate_open(&self.text, CODE_LEVEL).into();
        let best = Arc::new(DeflatedCode { bytes, is_best: true });
        let mut forms = self.deflated.lock();
        if let Some(fast) = forms.current.replace(best).filter(|form| !form.is_best) {
            forms.superseded = Arc::downgrade(&fast);
        }
    }

    /// Bytes this segment holds at present: text and compressed forms.
    pub fn memory_bytes(&self) -> u64 {
        let forms = self.deflated.lock();
        let superseded = forms.superseded.upgrade();
        let deflated: usize =
            forms.current.iter().chain(&superseded).map(|form| form.bytes.len()).sum();
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

    /// Compresses the most used codes better, so many at most, and gives their number; none left to
    /// improve gives zero. It takes about a millisecond a code: call it where nobody waits.
    ///
    /// Ropes compressed from then on are smaller; those compressed before stay as they are.
    pub fn improve(&self, most: usize) -> usize {
        let segments: Vec<_> = self.segments.lock().values().filter_map(Weak::upgrade).collect();
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

use crate::{
    crc::Crc,
    deflate::{deflate_open, inflate_open},
    deflate_runs::{Run, Then, deflate_runs},
};
use alloy_primitives::B256;
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{Arc, Weak},
};

/// Level at which libdeflate makes the best form of a code: 16 % smaller than the fast form, at
/// five times its cost. The levels beyond gain 3 % for twenty times the cost again.
const BEST_LEVEL: i32 = 9;

/// What follows a code in every account that shows one, up to the hash itself.
const BETWEEN: &[u8] = b"\",\"codeHash\":\"0x";

/// The JSON text of one contract code, made once per code hash and shared by all payloads.
///
/// It holds `0x<code>","codeHash":"0x<hash>`, without the quotes around: an account that shows
/// its code shows its hash next (rule I1), so both are shared, and compressed, together.
///
/// Once it has been compressed the text may be let go, since the compressed form gives it back:
/// see [`CodeTable::release_texts`](crate::CodeTable::release_texts).
pub struct CodeSegment {
    hash: B256,
    len: usize,
    crc: Crc,
    forms: Mutex<Forms>,
}

/// What is held of a code. The text or a deflate form that inflates to it is always there.
#[derive(Debug, Default)]
struct Forms {
    text: Option<Bytes>,
    /// The text was asked for since it was last considered for release.
    text_used: bool,
    deflated: Option<Arc<DeflatedCode>>,
    /// The fast form after the best has taken its place, while ropes made with it live.
    superseded: Weak<DeflatedCode>,
    /// How often the deflate form was asked for.
    uses: u32,
}

/// A code's text as deflate blocks that end at a byte border and are not the last of a stream.
#[derive(Debug)]
pub(crate) struct DeflatedCode {
    pub(crate) bytes: Bytes,
    is_best: bool,
}

impl CodeSegment {
    pub(crate) fn new(hash: B256, code: &[u8]) -> Self {
        let mut text = Vec::with_capacity(2 + 2 * code.len() + BETWEEN.len() + 64);
        text.extend_from_slice(b"0x");
        crate::hex::push_hex(&mut text, code);
        text.extend_from_slice(BETWEEN);
        crate::hex::push_hex(&mut text, hash.as_slice());
        let (len, crc) = (text.len(), Crc::of(&text));
        let forms = Forms { text: Some(text.into()), text_used: true, ..Forms::default() };
        Self { hash, len, crc, forms: Mutex::new(forms) }
    }

    /// Keccak-256 of the code.
    pub fn hash(&self) -> &B256 {
        &self.hash
    }

    /// Length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn crc(&self) -> Crc {
        self.crc
    }

    /// The code as `0x…` in lower-case hex, without quotes.
    pub fn code_text(&self) -> Bytes {
        self.text().slice(..self.len - BETWEEN.len() - 64)
    }

    /// The whole shared text: `0x<code>","codeHash":"0x<hash>`.
    pub fn text(&self) -> Bytes {
        let mut forms = self.forms.lock();
        forms.text_used = true;
        if let Some(text) = &forms.text {
            return text.clone();
        }
        let text = Bytes::from(self.inflated(&forms));
        forms.text = Some(text.clone());
        text
    }

    /// The text from the deflate form, when there is no other.
    fn inflated(&self, forms: &Forms) -> Vec<u8> {
        let text = forms.deflated.as_ref().and_then(|form| inflate_open(&form.bytes, self.len));
        #[expect(
            clippy::expect_used,
            reason = "a text is released only after its form gave it back"
        )]
        text.expect("a deflate form that inflates")
    }

    /// The text in deflate. Made fast at the first call; [`Self::improve`] puts a smaller form in
    /// its place.
    pub(crate) fn deflated(&self) -> Arc<DeflatedCode> {
        let mut forms = self.forms.lock();
        forms.uses = forms.uses.saturating_add(1);
        let Forms { text, deflated, .. } = &mut *forms;
        let form = deflated.get_or_insert_with(|| {
            // A text without a form has not been released.
            let text = text.as_deref().unwrap_or_default();
            let run = Run { start: 0, end: text.len(), skipped: 0, then: Then::Border };
            let (bytes, _) = deflate_runs(text, &[run]);
            Arc::new(DeflatedCode { bytes: bytes.into(), is_best: false })
        });
        form.clone()
    }

    /// Uses of the deflate form, if it is not the best there is.
    pub(crate) fn improvable_uses(&self) -> Option<u32> {
        let forms = self.forms.lock();
        let is_fast = forms.deflated.as_ref().is_some_and(|form| !form.is_best);
        is_fast.then_some(forms.uses)
    }

    /// Makes the best form. Ropes made before keep the form they have.
    pub(crate) fn improve(&self) {
        let text = {
            let forms = self.forms.lock();
            forms.text.clone().unwrap_or_else(|| self.inflated(&forms).into())
        };
        let bytes = Bytes::from(deflate_open(&text, BEST_LEVEL));
        if !self.gives_back(&bytes, &text) {
            return;
        }
        let mut forms = self.forms.lock();
        let best = Arc::new(DeflatedCode { bytes, is_best: true });
        if let Some(fast) = forms.deflated.replace(best).filter(|form| !form.is_best) {
            forms.superseded = Arc::downgrade(&fast);
        }
    }

    /// Lets the text go if it has not been asked for since the last call and can be had back.
    /// Gives the bytes freed.
    pub(crate) fn release_text(&self) -> usize {
        let mut forms = self.forms.lock();
        if std::mem::take(&mut forms.text_used) {
            return 0;
        }
        let (Some(text), Some(form)) = (&forms.text, &forms.deflated) else { return 0 };
        if !self.gives_back(&form.bytes, text) {
            return 0;
        }
        forms.text.take().map_or(0, |text| text.len())
    }

    fn gives_back(&self, deflated: &[u8], text: &[u8]) -> bool {
        inflate_open(deflated, self.len).is_some_and(|inflated| inflated == text)
    }

    /// Bytes this segment holds at present: text and compressed forms.
    pub fn memory_bytes(&self) -> u64 {
        let forms = self.forms.lock();
        let superseded = forms.superseded.upgrade();
        let deflated: usize =
            forms.deflated.iter().chain(&superseded).map(|form| form.bytes.len()).sum();
        let text = forms.text.as_ref().map_or(0, Bytes::len);
        (text + deflated + size_of::<Self>()) as u64
    }
}

impl fmt::Debug for CodeSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeSegment").field("hash", &self.hash).field("len", &self.len).finish()
    }
}

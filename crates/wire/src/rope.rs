use crate::{
    CodeSegment, Encoding, RopeBuilder,
    code_segment::DeflatedCode,
    crc::{self, Crc},
    deflate_runs::{MIN_COPY, Run, Then, WINDOW, deflate_runs},
    zstd,
};
use bytes::Bytes;
use parking_lot::RwLock;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// A text given as a whole is cut into leaves of this size, so that compressing it takes little
/// room at a time.
const WHOLE_TEXT_LEAF_BYTES: usize = 1024 * 1024;

/// JSON text as a list of pieces: text of its own, and contract codes shared by code hash.
///
/// A rope never changes. Cloning it copies no text. Its CRC-32 and compressed forms are made when
/// first asked for and kept.
#[derive(Clone)]
pub struct Rope(Arc<Whole>);

struct Whole {
    leaves: Vec<Arc<Leaf>>,
    len: u64,
    crc: OnceLock<Crc>,
    zstd: OnceLock<Bytes>,
    /// The form in deflate in one piece, while the rope is sent again and again.
    joined: RwLock<Option<Bytes>>,
    /// Sent compressed before.
    used: AtomicBool,
}

/// A run of text with the codes that stand in it: own text up to the first cut, its code, own
/// text up to the second cut, and so on; last, own text to the end.
pub(crate) struct Leaf {
    pub(crate) owned: Bytes,
    pub(crate) cuts: Box<[Cut]>,
    len: u64,
    crc: OnceLock<Crc>,
    deflated: OnceLock<Deflated>,
}

/// A leaf in deflate: own bytes up to the first cut, the code there, own bytes up to the second
/// cut, and so on. All blocks end at byte borders there, and none is the last of a stream.
///
/// There are fewer cuts than in the text: a code that stands a little before already is copied
/// from there.
struct Deflated {
    owned: Bytes,
    cuts: Box<[DeflatedCut]>,
    len: u64,
}

struct DeflatedCut {
    at: u32,
    code: Arc<DeflatedCode>,
}

/// A code standing in a leaf's own text.
pub(crate) struct Cut {
    /// Own text before it ends here.
    pub(crate) at: usize,
    pub(crate) code: Arc<CodeSegment>,
}

/// A piece of a leaf's text.
#[derive(Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// Own text, maybe empty.
    Owned(&'a [u8]),
    Code(&'a Arc<CodeSegment>),
}

impl Leaf {
    pub(crate) fn new(owned: Bytes, cuts: Vec<Cut>) -> Self {
        let codes: usize = cuts.iter().map(|cut| cut.code.len()).sum();
        let len = (owned.len() + codes) as u64;
        Self { owned, cuts: cuts.into(), len, crc: OnceLock::new(), deflated: OnceLock::new() }
    }

    /// Run number `at` of the own text, from `0` to the number of cuts.
    fn run(&self, at: usize) -> (usize, usize) {
        let start = if at == 0 { 0 } else { self.cuts[at - 1].at };
        (start, self.cuts.get(at).map_or(self.owned.len(), |cut| cut.at))
    }

    /// Number of pieces: runs of own text, some empty, with the codes in between.
    pub(crate) fn piece_count(&self) -> usize {
        2 * self.cuts.len() + 1
    }

    /// Texts of the codes, one a cut.
    pub(crate) fn code_texts(&self) -> Vec<Bytes> {
        self.cuts.iter().map(|cut| cut.code.text()).collect()
    }

    /// Own text number `at`, from `0` to the number of cuts.
    pub(crate) fn owned_text(&self, at: usize) -> &[u8] {
        let (start, end) = self.run(at);
        &self.owned[start..end]
    }

    /// As [`Self::owned_text`], shared.
    pub(crate) fn owned_bytes_of(&self, at: usize) -> Bytes {
        let (start, end) = self.run(at);
        self.owned.slice(start..end)
    }

    /// Number of pieces in deflate.
    pub(crate) fn deflated_piece_count(&self) -> usize {
        2 * self.deflated().cuts.len() + 1
    }

    /// A piece in deflate, maybe empty.
    pub(crate) fn deflated_piece(&self, at: usize) -> &[u8] {
        let deflated = self.deflated();
        if at % 2 == 1 {
            return &deflated.cuts[at / 2].code.bytes;
        }
        let (start, end) = deflated.run(at / 2);
        &deflated.owned[start..end]
    }

    /// As [`Self::deflated_piece`], shared.
    pub(crate) fn deflated_bytes(&self, at: usize) -> Bytes {
        let deflated = self.deflated();
        if at % 2 == 1 {
            return deflated.cuts[at / 2].code.bytes.clone();
        }
        let (start, end) = deflated.run(at / 2);
        deflated.owned.slice(start..end)
    }

    fn deflated(&self) -> &Deflated {
        self.deflated.get_or_init(|| self.deflate())
    }

    fn deflate(&self) -> Deflated {
        let mut runs = Vec::with_capacity(self.cuts.len() + 1);
        let mut codes = Vec::new();
        // Where each code stood last in the text.
        let mut seen = HashMap::new();
        let mut skipped = 0;
        for (at, cut) in self.cuts.iter().enumerate() {
            let (start, end) = self.run(at);
            let length = cut.code.len();
            let place = end as u64 + skipped;
            let distance = seen
                .insert(Arc::as_ptr(&cut.code), place)
                .map(|before| place - before)
                .filter(|distance| *distance <= WINDOW && length >= MIN_COPY);
            let then = match distance {
                Some(distance) => Then::Copy { length, distance: (distance - 1) as u16 },
                None => {
                    codes.push(cut.code.deflated());
                    Then::Border
                }
            };
            runs.push(Run { start, end, skipped, then });
            skipped += length as u64;
        }
        let (start, end) = self.run(self.cuts.len());
        runs.push(Run { start, end, skipped, then: Then::Border });
        let (owned, ends) = deflate_runs(&self.owned, &runs);
        let shared: usize = codes.iter().map(|code| code.bytes.len()).sum();
        let len = (owned.len() + shared) as u64;
        let cuts = ends.into_iter().zip(codes).map(|(at, code)| DeflatedCut { at, code }).collect();
        Deflated { owned: owned.into(), cuts, len }
    }

    /// Length of the leaf in deflate.
    pub(crate) fn deflated_len(&self) -> u64 {
        self.deflated().len
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        (0..self.piece_count()).map(|at| match at % 2 {
            1 => Piece::Code(&self.cuts[at / 2].code),
            _ => Piece::Owned(self.owned_text(at / 2)),
        })
    }

    pub(crate) fn crc(&self) -> Crc {
        *self.crc.get_or_init(|| {
            let value = self.pieces().fold(0, |value, piece| match piece {
                Piece::Owned(text) => crc::extend(value, text),
                Piece::Code(code) => code.crc().after(value),
            });
            Crc::new(value, self.len)
        })
    }

    fn owned_bytes(&self) -> u64 {
        let deflated = self.deflated.get().map_or(0, |deflated| {
            deflated.owned.len() + size_of_val::<[DeflatedCut]>(&deflated.cuts)
        });
        let cuts = size_of_val::<[Cut]>(&self.cuts);
        (size_of::<Self>() + self.owned.len() + cuts + deflated) as u64
    }
}

impl Deflated {
    /// Own bytes number `at`, from `0` to the number of cuts.
    fn run(&self, at: usize) -> (usize, usize) {
        let start = if at == 0 { 0 } else { self.cuts[at - 1].at as usize };
        (start, self.cuts.get(at).map_or(self.owned.len(), |cut| cut.at as usize))
    }
}

impl Rope {
    pub(crate) fn from_leaves(leaves: Vec<Arc<Leaf>>) -> Self {
        let len = leaves.iter().map(|leaf| leaf.len()).sum();
        Self(Arc::new(Whole {
            leaves,
            len,
            crc: OnceLock::new(),
            zstd: OnceLock::new(),
            joined: RwLock::default(),
            used: AtomicBool::new(false),
        }))
    }

    /// The texts one after the other.
    pub fn concat(ropes: impl IntoIterator<Item = Self>) -> Self {
        let mut builder = RopeBuilder::new();
        for rope in ropes {
            builder.push_rope(&rope);
        }
        builder.finish()
    }

    pub(crate) fn leaves(&self) -> &[Arc<Leaf>] {
        &self.0.leaves
    }

    /// Length of the text in bytes.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text in order, none of the pieces empty. Pieces are shared, not copied.
    pub fn chunks(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.leaves().iter().flat_map(|leaf| {
            let pieces = (0..leaf.piece_count()).map(|at| match at % 2 {
                1 => leaf.cuts[at / 2].code.text(),
                _ => leaf.owned_bytes_of(at / 2),
            });
            pieces.filter(|piece| !piece.is_empty())
        })
    }

    /// The text as one copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.len() as usize);
        self.append_to(&mut text);
        text
    }

    pub(crate) fn append_to(&self, text: &mut Vec<u8>) {
        self.chunks().for_each(|chunk| text.extend_from_slice(&chunk));
    }

    /// The text in zstd blocks, none the last of a frame, to follow raw blocks only.
    pub(crate) fn zstd_blocks(&self) -> Bytes {
        let whole = &self.0;
        whole.zstd.get_or_init(|| zstd::blocks(self.len(), || self.chunks()).into()).clone()
    }

    /// Puts the form in deflate into one piece. Sending a thousand pieces costs the system more
    /// than sending their bytes; the copy takes the form's whole length, codes and all, so it is
    /// for what is sent again and again. Returns its length.
    pub fn join(&self) -> u64 {
        let length = self.deflated_len();
        if self.0.joined.read().is_none() {
            let mut joined = Vec::with_capacity(length as usize);
            for leaf in self.leaves() {
                for at in 0..leaf.deflated_piece_count() {
                    joined.extend_from_slice(leaf.deflated_piece(at));
                }
            }
            *self.0.joined.write() = Some(joined.into());
        }
        length
    }

    /// Length of the text in deflate, which is made if it is not there.
    pub fn deflated_len(&self) -> u64 {
        self.prepare(Encoding::Gzip);
        self.leaves().iter().map(|leaf| leaf.deflated_len()).sum()
    }

    /// Lets the copy that [`Self::join`] made go again.
    pub fn split(&self) {
        if self.0.joined.read().is_some() {
            *self.0.joined.write() = None;
        }
    }

    /// The form in deflate in one piece, where there is such.
    pub(crate) fn joined(&self) -> Option<Bytes> {
        self.0.joined.read().clone()
    }

    /// Whether this is the first call.
    pub(crate) fn is_first_use(&self) -> bool {
        !self.0.used.swap(true, Ordering::Relaxed)
    }

    /// Makes the compressed form now, so that no caller waits for it.
    pub fn prepare(&self, encoding: Encoding) {
        self.0.used.store(true, Ordering::Relaxed);
        match encoding {
            Encoding::Identity => {}
            Encoding::Gzip => {
                self.crc();
                self.leaves().iter().for_each(|leaf| {
                    leaf.deflated();
                });
            }
            Encoding::Zstd => {
                self.zstd_blocks();
            }
        }
    }

    /// Whether the compressed form is there: sending it compresses nothing.
    pub fn is_prepared(&self, encoding: Encoding) -> bool {
        match encoding {
            Encoding::Identity => true,
            Encoding::Gzip => {
                self.0.crc.get().is_some()
                    && self.leaves().iter().all(|leaf| leaf.deflated.get().is_some())
            }
            Encoding::Zstd => self.0.zstd.get().is_some(),
        }
    }

    pub(crate) fn crc(&self) -> Crc {
        *self
            .0
            .crc
            .get_or_init(|| self.leaves().iter().fold(Crc::EMPTY, |crc, leaf| crc.then(leaf.crc())))
    }

    /// CRC-32 of the text (RFC 1952 §8).
    pub fn crc32(&self) -> u32 {
        self.crc().value
    }

    /// Bytes held by this rope alone: its own text, its lists and the compressed forms made so
    /// far. Shared codes are not in it, see [`Rope::codes`].
    pub fn owned_bytes(&self) -> u64 {
        let leaves: u64 = self.leaves().iter().map(|leaf| leaf.owned_bytes()).sum();
        let list = size_of_val::<[Arc<Leaf>]>(self.leaves()) + size_of::<Whole>();
        let zstd = self.0.zstd.get().map_or(0, Bytes::len);
        let joined = self.0.joined.read().as_ref().map_or(0, Bytes::len);
        leaves + (list + zstd + joined) as u64
    }

    /// The distinct codes shown, each once: what this rope keeps alive beside its own bytes.
    pub fn codes(&self) -> impl Iterator<Item = &Arc<CodeSegment>> {
        let mut seen = HashSet::new();
        self.leaves()
            .iter()
            .flat_map(|leaf| leaf.cuts.iter())
            .map(|cut| &cut.code)
            .filter(move |code| seen.insert(*code.hash()))
    }
}

impl fmt::Debug for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rope")
            .field("len", &self.len())
            .field("owned", &self.leaves().iter().map(|leaf| leaf.owned.len()).sum::<usize>())
            .field("codes", &self.leaves().iter().map(|leaf| leaf.cuts.len()).sum::<usize>())
            .finish()
    }
}

impl Default for Rope {
    fn default() -> Self {
        Self::from_leaves(Vec::new())
    }
}

impl From<Bytes> for Rope {
    fn from(text: Bytes) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        let mut text = text;
        let mut leaves = Vec::with_capacity(text.len().div_ceil(WHOLE_TEXT_LEAF_BYTES));
        while !text.is_empty() {
            let leaf = text.split_to(text.len().min(WHOLE_TEXT_LEAF_BYTES));
            leaves.push(Arc::new(Leaf::new(leaf, Vec::new())));
        }
        Self::from_leaves(leaves)
    }
}

impl From<Vec<u8>> for Rope {
    fn from(text: Vec<u8>) -> Self {
        Self::from(Bytes::from(text))
    }
}

impl From<String> for Rope {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl From<&'static str> for Rope {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes()))
    }
}

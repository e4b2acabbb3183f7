use crate::{
    CodeSegment, RopeBuilder,
    crc::{self, Crc},
};
use bytes::Bytes;
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, OnceLock},
};

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
}

/// A run of text with the codes that stand in it: own text up to the first cut, its code, own
/// text up to the second cut, and so on; last, own text to the end.
pub(crate) struct Leaf {
    pub(crate) owned: Bytes,
    pub(crate) cuts: Box<[Cut]>,
    len: u64,
    crc: OnceLock<Crc>,
}

/// A code standing in a leaf's own text.
pub(crate) struct Cut {
    /// Own text before it ends here.
    pub(crate) at: usize,
    pub(crate) code: Arc<CodeSegment>,
}

/// Where a leaf's text lies.
#[derive(Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// From here to there in `owned`, maybe empty.
    Owned(usize, usize),
    Code(&'a Arc<CodeSegment>),
}

impl Leaf {
    pub(crate) fn new(owned: Bytes, cuts: Vec<Cut>) -> Self {
        let codes: usize = cuts.iter().map(|cut| cut.code.text().len()).sum();
        let len = (owned.len() + codes) as u64;
        Self { owned, cuts: cuts.into(), len, crc: OnceLock::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let starts = std::iter::once(0).chain(self.cuts.iter().map(|cut| cut.at));
        let ends = self.cuts.iter().map(|cut| cut.at).chain(std::iter::once(self.owned.len()));
        let codes = self.cuts.iter().map(Some).chain(std::iter::once(None));
        starts.zip(ends).zip(codes).flat_map(|((start, end), cut)| {
            std::iter::once(Piece::Owned(start, end)).chain(cut.map(|cut| Piece::Code(&cut.code)))
        })
    }

    pub(crate) fn crc(&self) -> Crc {
        *self.crc.get_or_init(|| {
            let value = self.pieces().fold(0, |value, piece| match piece {
                Piece::Owned(start, end) => crc::extend(value, &self.owned[start..end]),
                Piece::Code(code) => code.crc().after(value),
            });
            Crc::new(value, self.len)
        })
    }

    fn owned_bytes(&self) -> u64 {
        (size_of::<Self>() + self.owned.len() + size_of_val::<[Cut]>(&self.cuts)) as u64
    }
}

impl Rope {
    pub(crate) fn from_leaves(leaves: Vec<Arc<Leaf>>) -> Self {
        let len = leaves.iter().map(|leaf| leaf.len()).sum();
        Self(Arc::new(Whole { leaves, len, crc: OnceLock::new() }))
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
            leaf.pieces().filter_map(|piece| match piece {
                Piece::Owned(start, end) => (start < end).then(|| leaf.owned.slice(start..end)),
                Piece::Code(code) => Some(code.text().clone()),
            })
        })
    }

    /// The text as one copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.len() as usize);
        for chunk in self.chunks() {
            text.extend_from_slice(&chunk);
        }
        text
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
        leaves + list as u64
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
        Self::from_leaves(vec![Arc::new(Leaf::new(text, Vec::new()))])
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

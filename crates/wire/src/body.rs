use crate::{Encoding, rope::Leaf};
use bytes::{Buf, Bytes};
use std::{fmt, io::IoSlice, sync::Arc};

/// A reply's bytes, coded, of known length, most of them shared with the cache.
///
/// In gzip a body holds a handful of references whatever its size: handing out a cached block
/// copies nothing and touches no reference count per piece. In identity it holds one for each code
/// shown.
#[derive(Clone)]
pub struct Body {
    parts: Vec<Part>,
    len: u64,
    text_len: u64,
    encoding: Encoding,
}

/// Some of a body's bytes.
#[derive(Clone)]
pub(crate) enum Part {
    Bytes(Bytes),
    /// A leaf's text, with the texts of its codes.
    Text(Arc<Leaf>, Arc<[Bytes]>),
    /// A leaf in deflate.
    Deflated(Arc<Leaf>),
}

impl Part {
    pub(crate) fn text(leaf: Arc<Leaf>) -> Self {
        let codes = leaf.code_texts().into();
        Self::Text(leaf, codes)
    }

    fn piece_count(&self) -> usize {
        match self {
            Self::Bytes(_) => 1,
            Self::Text(leaf, _) => leaf.piece_count(),
            Self::Deflated(leaf) => leaf.deflated_piece_count(),
        }
    }

    /// A piece, maybe empty.
    fn piece(&self, at: usize) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(_, codes) if at % 2 == 1 => &codes[at / 2],
            Self::Text(leaf, _) => leaf.owned_text(at / 2),
            Self::Deflated(leaf) => leaf.deflated_piece(at),
        }
    }

    fn bytes(&self, at: usize) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Text(_, codes) if at % 2 == 1 => codes[at / 2].clone(),
            Self::Text(leaf, _) => leaf.owned_bytes_of(at / 2),
            Self::Deflated(leaf) => leaf.deflated_bytes(at),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Text(leaf, _) => leaf.len(),
            Self::Deflated(leaf) => leaf.deflated_len(),
        }
    }
}

impl Body {
    pub(crate) fn new(parts: Vec<Part>, text_len: u64, encoding: Encoding) -> Self {
        let len = parts.iter().map(Part::len).sum();
        Self { parts, len, text_len, encoding }
    }

    /// Exact length in bytes: `Content-Length`.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length of the text before coding.
    pub fn text_len(&self) -> u64 {
        self.text_len
    }

    /// How the bytes are coded: what was asked for, or identity for a small body.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The bytes in order, shared, none of the pieces empty.
    pub fn chunks(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.parts
            .iter()
            .flat_map(|part| (0..part.piece_count()).map(|at| part.bytes(at)))
            .filter(|piece| !piece.is_empty())
    }

    /// The bytes as one copy.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len as usize);
        for part in &self.parts {
            for at in 0..part.piece_count() {
                bytes.extend_from_slice(part.piece(at));
            }
        }
        bytes
    }

    /// The bytes as one buffer to write from. It fills vectored writes with as many pieces as the
    /// writer takes at once.
    pub fn into_buf(self) -> BodyBuf {
        let mut buf = BodyBuf {
            remaining: self.len as usize,
            parts: self.parts,
            part: 0,
            piece: 0,
            offset: 0,
        };
        buf.skip_empty();
        buf
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("len", &self.len)
            .field("text_len", &self.text_len)
            .field("encoding", &self.encoding)
            .finish()
    }
}

/// What is left to write of a [`Body`].
#[derive(Clone)]
pub struct BodyBuf {
    parts: Vec<Part>,
    /// Where the next byte lies: part, piece of it, byte of that.
    part: usize,
    piece: usize,
    offset: usize,
    remaining: usize,
}

impl BodyBuf {
    /// Stands on the next byte, or behind the last part.
    fn skip_empty(&mut self) {
        while let Some(part) = self.parts.get(self.part) {
            while self.piece < part.piece_count() {
                if self.offset < part.piece(self.piece).len() {
                    return;
                }
                self.piece += 1;
                self.offset = 0;
            }
            self.part += 1;
            self.piece = 0;
        }
    }
}

impl Buf for BodyBuf {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.parts.get(self.part).map_or(&[], |part| &part.piece(self.piece)[self.offset..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let (mut first, mut offset) = (self.piece, self.offset);
        for part in self.parts.iter().skip(self.part) {
            for at in first..part.piece_count() {
                let piece = &part.piece(at)[offset..];
                offset = 0;
                if piece.is_empty() {
                    continue;
                }
                let Some(slice) = slices.get_mut(filled) else { return filled };
                *slice = IoSlice::new(piece);
                filled += 1;
            }
            first = 0;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "advance past the end of a body");
        self.remaining -= count;
        while count > 0 {
            let here = self.chunk().len().min(count);
            self.offset += here;
            count -= here;
            self.skip_empty();
        }
    }
}

impl fmt::Debug for BodyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyBuf").field("remaining", &self.remaining).finish()
    }
}

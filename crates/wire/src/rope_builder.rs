use crate::{
    CodeSegment, Rope,
    hex::{push_hex, push_quantity, push_quantity_256},
    rope::{Cut, Leaf, Piece},
};
use alloy_primitives::U256;
use std::{fmt, sync::Arc};

/// Own text from which a leaf ends. Large enough that compression loses nothing at the borders,
/// small enough that a long text is never moved as a whole while it grows.
const LEAF_BYTES: usize = 256 * 1024;
/// Leaves with less text of their own are copied when ropes are put together; larger ones are
/// shared, with what has been compressed of them.
const SHARED_LEAF_BYTES: usize = 64 * 1024;

/// Writes a [`Rope`].
#[derive(Default)]
pub struct RopeBuilder {
    leaves: Vec<Arc<Leaf>>,
    owned: Vec<u8>,
    cuts: Vec<Cut>,
    /// Own text in the leaves ended.
    ended_bytes: usize,
}

impl RopeBuilder {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With room for so much text of its own.
    pub fn with_capacity(owned_bytes: usize) -> Self {
        Self { owned: Vec::with_capacity(owned_bytes.min(LEAF_BYTES)), ..Self::default() }
    }

    /// Appends text as it is.
    #[inline]
    pub fn push(&mut self, text: impl AsRef<[u8]>) {
        self.owned.extend_from_slice(text.as_ref());
        if self.owned.len() >= LEAF_BYTES {
            self.end_leaf();
        }
    }

    /// Appends `0x` and the bytes in lower-case hex, two digits a byte.
    pub fn push_hex(&mut self, bytes: &[u8]) {
        self.owned.extend_from_slice(b"0x");
        push_hex(&mut self.owned, bytes);
    }

    /// Appends a quantity: `0x` and hex without leading zeros, zero as `0x0`.
    pub fn push_quantity(&mut self, value: u64) {
        push_quantity(&mut self.owned, value);
    }

    /// As [`Self::push_quantity`], for 256 bits.
    pub fn push_quantity_256(&mut self, value: &U256) {
        push_quantity_256(&mut self.owned, value);
    }

    /// Appends a number in decimal.
    pub fn push_decimal(&mut self, value: u64) {
        self.push(itoa::Buffer::new().format(value));
    }

    /// Appends a shared code segment: `0x<code>","codeHash":"0x<hash>`.
    pub fn push_code(&mut self, code: Arc<CodeSegment>) {
        self.cuts.push(Cut { at: self.owned.len(), code });
    }

    /// Appends another rope's text. Small ropes are copied, codes and large parts shared.
    pub fn push_rope(&mut self, rope: &Rope) {
        for leaf in rope.leaves() {
            if leaf.owned.len() >= SHARED_LEAF_BYTES {
                self.end_leaf();
                self.leaves.push(leaf.clone());
                continue;
            }
            for piece in leaf.pieces() {
                match piece {
                    Piece::Owned(text) => self.push(text),
                    Piece::Code(code) => self.push_code(code.clone()),
                }
            }
        }
    }

    /// Bytes of own text written so far; shared leaves and codes do not count.
    pub(crate) fn owned_bytes(&self) -> usize {
        self.ended_bytes + self.owned.len()
    }

    fn end_leaf(&mut self) {
        if self.owned.is_empty() && self.cuts.is_empty() {
            return;
        }
        let mut owned = std::mem::take(&mut self.owned);
        self.ended_bytes += owned.len();
        owned.shrink_to_fit();
        let cuts = std::mem::take(&mut self.cuts);
        self.leaves.push(Arc::new(Leaf::new(owned.into(), cuts)));
    }

    /// The rope written.
    pub fn finish(mut self) -> Rope {
        self.end_leaf();
        Rope::from_leaves(self.leaves)
    }
}

impl fmt::Debug for RopeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RopeBuilder")
            .field("leaves", &self.leaves.len())
            .field("owned", &self.owned.len())
            .field("cuts", &self.cuts.len())
            .finish()
    }
}

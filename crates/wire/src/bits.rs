//! Bits of a deflate stream, least significant first (RFC 1951 §3.1.1).

/// Appends bits to a byte buffer.
pub(crate) struct BitWriter {
    out: Vec<u8>,
    /// Bytes of `out` that are final; what lies behind is room.
    len: usize,
    pending: u64,
    /// Bits in `pending`, fewer than 8 after each [`Self::flush`].
    count: u32,
}

impl BitWriter {
    pub(crate) fn new() -> Self {
        Self { out: Vec::new(), len: 0, pending: 0, count: 0 }
    }

    /// Makes room for so many bytes more, beside the slack every flush needs.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let need = self.len + bytes + 16;
        if self.out.len() < need {
            self.out.resize(need.max(self.out.len() * 2), 0);
        }
    }

    /// Adds bits without storing them: at most 56 between two flushes.
    #[inline(always)]
    pub(crate) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count <= 64 && (count == 64 || bits >> count == 0));
        self.pending |= bits << self.count;
        self.count += count;
    }

    /// Stores whole bytes. Room must have been reserved.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        self.out[self.len..self.len + 8].copy_from_slice(&self.pending.to_le_bytes());
        let whole = self.count >> 3;
        self.len += whole as usize;
        self.pending = self.pending.checked_shr(whole * 8).unwrap_or(0);
        self.count &= 7;
    }

    /// Adds bits of any number of bytes, the last of which holds `count % 8` if that is not zero.
    pub(crate) fn add_run(&mut self, bits: &[u8], count: usize) {
        self.reserve(bits.len());
        for (at, byte) in bits.iter().enumerate() {
            let here = (count - at * 8).min(8) as u32;
            self.add(u64::from(*byte), here);
            self.flush();
        }
    }

    /// Ends at a byte border: with nothing if there is one here, else with an empty stored block,
    /// which is how zlib's sync flush does it.
    pub(crate) fn align(&mut self) {
        self.reserve(16);
        self.flush();
        if self.count > 0 {
            self.add(0, 3);
            self.pad();
            self.bytes(&[0, 0, 0xff, 0xff]);
        }
    }

    /// Fills the byte begun with zeros.
    pub(crate) fn pad(&mut self) {
        self.flush();
        if self.count > 0 {
            self.add(0, 8 - self.count);
        }
        self.flush();
    }

    /// Appends bytes at a byte border.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.count, 0);
        self.reserve(bytes.len());
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Bytes so far, at a byte border.
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(self.count, 0);
        self.len
    }

    /// The bytes, and the number of bits in them.
    pub(crate) fn into_bits(mut self) -> (Vec<u8>, usize) {
        self.reserve(0);
        self.flush();
        let bits = self.len * 8 + self.count as usize;
        if self.count > 0 {
            self.pad();
        }
        self.out.truncate(self.len);
        (self.out, bits)
    }

    /// The bytes; ends at a byte border.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        debug_assert_eq!(self.count, 0);
        self.out.truncate(self.len);
        self.out.shrink_to_fit();
        self.out
    }
}

/// Reads bits; `None` at the end.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    pub(crate) at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn bit(&mut self) -> Option<u32> {
        let byte = *self.bytes.get(self.at >> 3)?;
        let bit = u32::from(byte >> (self.at & 7)) & 1;
        self.at += 1;
        Some(bit)
    }

    pub(crate) fn bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |value, at| Some(value | self.bit()? << at))
    }

    /// Goes on at the next byte border.
    pub(crate) fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }
}

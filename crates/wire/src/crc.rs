//! CRC-32 of texts put together from parts, without reading them again.
//!
//! The CRC of `a ++ b` is `crc(a) * x^(8 * len(b)) + crc(b)` over GF(2) modulo the polynomial of
//! RFC 1952 §8, so a part that keeps its CRC and its shift is appended by one multiplication.

/// The polynomial of RFC 1952 §8, bits reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `a * b` modulo the polynomial, bits reflected: bit 31 is x^0.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 1 << 31;
    while bit != 0 {
        // Branch-free: the bits are as good as random, a branch on them is mispredicted.
        product ^= b & 0u32.wrapping_sub((a & bit != 0) as u32);
        b = (b >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(b & 1));
        bit >>= 1;
    }
    product
}

/// `x^(2^k)` for k in 0..64. The order of x divides 2^32 - 1, so squares repeat after 32.
const SQUARES: [u32; 64] = {
    let mut table = [0; 64];
    let mut power = 1 << 30; // x^1
    let mut k = 0;
    while k < 64 {
        table[k] = power;
        power = multiply(power, power);
        k += 1;
    }
    table
};

/// CRC-32 and length of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crc {
    /// CRC-32 as RFC 1952 has it.
    pub(crate) value: u32,
    /// `x^(8 * length)`.
    shift: u32,
}

impl Crc {
    /// Of the empty text.
    pub(crate) const EMPTY: Self = Self { value: 0, shift: 1 << 31 };

    pub(crate) const fn new(value: u32, len: u64) -> Self {
        Self { value, shift: shift(len) }
    }

    pub(crate) fn of(text: &[u8]) -> Self {
        Self::new(crc32fast::hash(text), text.len() as u64)
    }

    /// The CRC of a text with CRC `before`, followed by this one.
    pub(crate) const fn after(self, before: u32) -> u32 {
        multiply(self.shift, before) ^ self.value
    }

    /// Of this text followed by `next`.
    pub(crate) const fn then(self, next: Self) -> Self {
        Self { value: next.after(self.value), shift: multiply(self.shift, next.shift) }
    }
}

/// The CRC of a text with CRC `before`, followed by `text`.
pub(crate) fn extend(before: u32, text: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(text);
    hasher.finalize()
}

const fn shift(len: u64) -> u32 {
    let mut power = 1 << 31;
    let mut k = 3; // 8 bits a byte
    let mut rest = len;
    while rest != 0 {
        if rest & 1 == 1 {
            power = multiply(SQUARES[k], power);
        }
        rest >>= 1;
        k = if k == 63 { 32 } else { k + 1 };
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_combine_to_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
            let combined = parts.iter().fold(Crc::EMPTY, |crc, part| crc.then(Crc::of(part)));
            prop_assert_eq!(combined, Crc::of(&parts.concat()));
        }
    }

    #[test]
    fn known_answer() {
        assert_eq!(Crc::of(b"1234").then(Crc::of(b"56789")).value, 0xcbf4_3926);
    }

    #[test]
    fn long_parts_agree_with_another_implementation() {
        let (a, b) = (vec![7u8; 70_001], vec![9u8; 1 << 20]);
        let mut other =
            crc32fast::Hasher::new_with_initial_len(crc32fast::hash(&a), a.len() as u64);
        other
            .combine(&crc32fast::Hasher::new_with_initial_len(crc32fast::hash(&b), b.len() as u64));
        assert_eq!(Crc::of(&a).then(Crc::of(&b)).value, other.finalize());
    }
}

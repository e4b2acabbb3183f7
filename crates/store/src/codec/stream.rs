//! Writing to and reading from the sections of a record.

use super::{RecordError, record::Sections};
use alloy_primitives::{Address, B256, U256};

/// The two highest bits of a tag say how the word is meant; the rest is its length in bytes.
const TAG_LENGTH: u8 = 0x3f;
/// The word itself.
const TAG_ABSOLUTE: u8 = 0;
/// To be added to the word it follows, modulo 2^256.
const TAG_PLUS: u8 = 1 << 6;
/// To be subtracted from the word it follows, modulo 2^256.
const TAG_MINUS: u8 = 2 << 6;
/// Says that a value is given although it follows from what came before.
pub(crate) const TAG_EXPLICIT: u8 = 0xff;

impl Sections {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.shape.push(byte);
    }

    /// LEB128: seven bits a byte, the lowest first, the high bit set on all but the last.
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.shape.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.shape.push(value as u8);
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.varint(count as u64);
    }

    pub(crate) fn hash(&mut self, hash: &B256) {
        self.plain.extend_from_slice(hash.as_slice());
    }

    pub(crate) fn address(&mut self, address: &Address) {
        self.words.extend_from_slice(address.as_slice());
    }

    /// A word by itself or by its distance from `base`, whichever is shorter.
    pub(crate) fn word(&mut self, value: U256, base: U256) {
        let up = value.wrapping_sub(base);
        let down = base.wrapping_sub(value);
        let (tag, distance) = if up <= down { (TAG_PLUS, up) } else { (TAG_MINUS, down) };
        let (tag, word) = if distance.byte_len() < value.byte_len() {
            (tag, distance)
        } else {
            (TAG_ABSOLUTE, value)
        };
        let length = word.byte_len();
        self.shape.push(tag | length as u8);
        self.words.extend_from_slice(&word.to_be_bytes::<32>()[32 - length..]);
    }
}

/// Reads what [`Sections`] wrote; every read is checked against what is left.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) plain: &'a [u8],
    pub(crate) shape: &'a [u8],
    pub(crate) words: &'a [u8],
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = from.split_at_checked(length)?;
    *from = tail;
    Some(head)
}

const fn malformed(what: &'static str) -> RecordError {
    RecordError::Malformed { what }
}

impl Reader<'_> {
    pub(crate) fn byte(&mut self) -> Result<u8, RecordError> {
        let (byte, rest) = self.shape.split_first().ok_or(malformed("shape ends early"))?;
        self.shape = rest;
        Ok(*byte)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, RecordError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed("number over 64 bits"))
    }

    /// A number of things that each take at least one byte of the shape, so that no more can be
    /// announced than can follow.
    pub(crate) fn count(&mut self) -> Result<usize, RecordError> {
        let count = self.varint()?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.shape.len())
            .ok_or(malformed("count over what follows"))
    }

    /// An index into a table of `len` entries.
    pub(crate) fn index(&mut self, len: usize) -> Result<usize, RecordError> {
        let index = self.varint()?;
        usize::try_from(index)
            .ok()
            .filter(|index| *index < len)
            .ok_or(malformed("index out of its table"))
    }

    pub(crate) fn hash(&mut self) -> Result<B256, RecordError> {
        take(&mut self.plain, 32).map(B256::from_slice).ok_or(malformed("hashes end early"))
    }

    pub(crate) fn address(&mut self) -> Result<Address, RecordError> {
        take(&mut self.words, 20).map(Address::from_slice).ok_or(malformed("words end early"))
    }

    pub(crate) fn word(&mut self, base: U256) -> Result<U256, RecordError> {
        let tag = self.byte()?;
        self.tagged_word(tag, base)
    }

    pub(crate) fn tagged_word(&mut self, tag: u8, base: U256) -> Result<U256, RecordError> {
        let length = usize::from(tag & TAG_LENGTH);
        if length > 32 {
            return Err(malformed("word over 32 bytes"));
        }
        let bytes = take(&mut self.words, length).ok_or(malformed("words end early"))?;
        let word = U256::from_be_slice(bytes);
        match tag & !TAG_LENGTH {
            TAG_ABSOLUTE => Ok(word),
            TAG_PLUS => Ok(base.wrapping_add(word)),
            TAG_MINUS => Ok(base.wrapping_sub(word)),
            _ => Err(malformed("unknown tag")),
        }
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        if self.plain.is_empty() && self.shape.is_empty() && self.words.is_empty() {
            Ok(())
        } else {
            Err(malformed("bytes left over"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader(sections: &Sections) -> Reader<'_> {
        Reader { plain: &sections.plain, shape: &sections.shape, words: &sections.words }
    }

    fn word() -> impl Strategy<Value = U256> {
        prop_oneof![
            any::<[u8; 32]>().prop_map(U256::from_be_bytes),
            any::<u64>().prop_map(U256::from),
            (0u8..3).prop_map(U256::from),
            (0u8..3).prop_map(|n| U256::MAX - U256::from(n)),
        ]
    }

    proptest! {
        #[test]
        fn numbers_and_words_come_back(number: u64, value in word(), base in word()) {
            let mut sections = Sections::default();
            sections.varint(number);
            sections.word(value, base);
            let mut reader = reader(&sections);
            prop_assert_eq!(reader.varint(), Ok(number));
            prop_assert_eq!(reader.word(base), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert!(sections.words.len() <= value.byte_len());
        }
    }

    #[test]
    fn a_number_over_64_bits_is_refused() {
        let mut shape = vec![0xff; 9];
        shape.push(2);
        let mut reader = Reader { plain: &[], shape: &shape, words: &[] };
        assert!(reader.varint().is_err());
    }

    #[test]
    fn a_count_is_bounded_by_what_follows() {
        let mut sections = Sections::default();
        sections.varint(1 << 40);
        assert!(reader(&sections).count().is_err());
    }
}

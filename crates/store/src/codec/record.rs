//! The frame around everything the archive keeps: header, checksum, compressed sections.
//!
//! Mirrors `FORMAT.md`, "Record". All integers are little endian.

use super::RecordError;
use std::io::Read;

/// First bytes of every record.
pub(crate) const MAGIC: [u8; 4] = *b"PSR1";
/// Version of the encoding this program writes, and the newest it reads.
pub(crate) const VERSION: u8 = 1;

pub(crate) const MAGIC_OFFSET: usize = 0;
pub(crate) const VERSION_OFFSET: usize = 4;
pub(crate) const KIND_OFFSET: usize = 5;
pub(crate) const FLAGS_OFFSET: usize = 6;
pub(crate) const RESERVED_OFFSET: usize = 7;
pub(crate) const CHECKSUM_OFFSET: usize = 8;
pub(crate) const SHAPE_RAW_LEN_OFFSET: usize = 12;
pub(crate) const SHAPE_LEN_OFFSET: usize = 16;
pub(crate) const WORDS_RAW_LEN_OFFSET: usize = 20;
pub(crate) const WORDS_LEN_OFFSET: usize = 24;
pub(crate) const TX_COUNT_OFFSET: usize = 28;
/// Length of the header; the plain section starts here.
pub(crate) const HEADER_LEN: usize = 32;

/// Set in the flags when the section is a zstd frame, clear when it is stored as it is.
pub(crate) const FLAG_SHAPE_ZSTD: u8 = 1;
pub(crate) const FLAG_WORDS_ZSTD: u8 = 2;

/// Kinds of record.
pub(crate) const KIND_FACTS: u8 = 0;
pub(crate) const KIND_BLOCK_DIFF: u8 = 1;
pub(crate) const KIND_CODE: u8 = 2;

/// Largest section, unpacked: 64 MiB. A 30 M gas block takes about 0.1 MB; the limit bounds what
/// a damaged or hostile record can make a reader allocate.
pub(crate) const MAX_SECTION_BYTES: usize = 64 << 20;

/// Level 3: higher ones cost twice the time for one to two per cent on real blocks.
const ZSTD_LEVEL: i32 = 3;
/// Below this a frame costs more than it saves.
const MIN_ZSTD_BYTES: usize = 64;

/// The unpacked parts of a record.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// What no compressor can shrink: hashes.
    pub(crate) plain: Vec<u8>,
    /// Counts, indices and tags.
    pub(crate) shape: Vec<u8>,
    /// The bytes of numbers and keys the tags speak of.
    pub(crate) words: Vec<u8>,
}

/// Puts a record together.
pub(crate) fn seal(kind: u8, tx_count: usize, sections: &Sections) -> Result<Vec<u8>, RecordError> {
    let Sections { plain, shape, words } = sections;
    for (section, part) in [("plain", plain), ("shape", shape), ("words", words)] {
        if part.len() > MAX_SECTION_BYTES {
            return Err(RecordError::TooLarge {
                section,
                bytes: part.len() as u64,
                limit: MAX_SECTION_BYTES as u64,
            });
        }
    }
    let packed_shape = pack(shape);
    let packed_words = pack(words);
    let mut flags = 0;
    if packed_shape.is_some() {
        flags |= FLAG_SHAPE_ZSTD;
    }
    if packed_words.is_some() {
        flags |= FLAG_WORDS_ZSTD;
    }
    let stored_shape = packed_shape.as_deref().unwrap_or(shape);
    let stored_words = packed_words.as_deref().unwrap_or(words);

    let total = HEADER_LEN + plain.len() + stored_shape.len() + stored_words.len();
    let mut header = [0; HEADER_LEN];
    header[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(&MAGIC);
    header[VERSION_OFFSET] = VERSION;
    header[KIND_OFFSET] = kind;
    header[FLAGS_OFFSET] = flags;
    header[RESERVED_OFFSET] = 0;
    // Each is at most MAX_SECTION_BYTES; a transaction takes 32 bytes of the plain section.
    for (offset, length) in [
        (SHAPE_RAW_LEN_OFFSET, shape.len()),
        (SHAPE_LEN_OFFSET, stored_shape.len()),
        (WORDS_RAW_LEN_OFFSET, words.len()),
        (WORDS_LEN_OFFSET, stored_words.len()),
        (TX_COUNT_OFFSET, tx_count),
    ] {
        header[offset..offset + 4].copy_from_slice(&(length as u32).to_le_bytes());
    }
    let mut record = Vec::with_capacity(total);
    record.extend_from_slice(&header);
    record.extend_from_slice(plain);
    record.extend_from_slice(stored_shape);
    record.extend_from_slice(stored_words);
    let checksum = checksum(&record);
    record[CHECKSUM_OFFSET..SHAPE_RAW_LEN_OFFSET].copy_from_slice(&checksum.to_le_bytes());
    Ok(record)
}

/// CRC-32 of all bytes but the checksum's own four.
fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..CHECKSUM_OFFSET]);
    hasher.update(&record[SHAPE_RAW_LEN_OFFSET..]);
    hasher.finalize()
}

/// The frame, or `None` where it would not be smaller.
fn pack(raw: &[u8]) -> Option<Vec<u8>> {
    if raw.len() < MIN_ZSTD_BYTES {
        return None;
    }
    // Compressing into a buffer of the bound size cannot fail; were it to, the raw bytes serve.
    zstd::bulk::compress(raw, ZSTD_LEVEL).ok().filter(|packed| packed.len() < raw.len())
}

/// A record whose frame and checksum hold; its sections are still packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u8,
    pub(crate) tx_count: usize,
    pub(crate) plain: &'a [u8],
    shape: Packed<'a>,
    words: Packed<'a>,
}

#[derive(Debug, Clone, Copy)]
struct Packed<'a> {
    section: &'static str,
    stored: &'a [u8],
    raw_len: usize,
    zstd: bool,
}

impl<'a> Record<'a> {
    /// Checks frame and checksum of exactly one record.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let short =
            |needed: usize| RecordError::Short { found: bytes.len() as u64, needed: needed as u64 };
        let (header, body) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or_else(|| short(HEADER_LEN))?;
        if header[MAGIC_OFFSET..VERSION_OFFSET] != MAGIC {
            let mut found = [0; 4];
            found.copy_from_slice(&header[MAGIC_OFFSET..VERSION_OFFSET]);
            return Err(RecordError::Magic { found });
        }
        let version = header[VERSION_OFFSET];
        let flags = header[FLAGS_OFFSET];
        // The version decides what all the rest means, the place of the checksum included.
        if version == 0 {
            return Err(RecordError::Malformed { what: "version zero" });
        }
        if version > VERSION {
            return Err(RecordError::Version { found: version, supported: VERSION });
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let shape_len = word(SHAPE_LEN_OFFSET) as usize;
        let words_len = word(WORDS_LEN_OFFSET) as usize;
        let packed_len = shape_len + words_len;
        let plain_len = body
            .len()
            .checked_sub(packed_len)
            .ok_or_else(|| short(HEADER_LEN.saturating_add(packed_len)))?;
        let stored = word(CHECKSUM_OFFSET);
        let computed = checksum(bytes);
        if stored != computed {
            return Err(RecordError::Checksum { stored, computed });
        }
        if flags & !(FLAG_SHAPE_ZSTD | FLAG_WORDS_ZSTD) != 0 || header[RESERVED_OFFSET] != 0 {
            return Err(RecordError::Malformed { what: "unknown flag" });
        }
        let (plain, packed) = body.split_at(plain_len);
        let (shape, words) = packed.split_at(shape_len);
        Ok(Self {
            kind: header[KIND_OFFSET],
            tx_count: word(TX_COUNT_OFFSET) as usize,
            plain,
            shape: Packed {
                section: "shape",
                stored: shape,
                raw_len: word(SHAPE_RAW_LEN_OFFSET) as usize,
                zstd: flags & FLAG_SHAPE_ZSTD != 0,
            },
            words: Packed {
                section: "words",
                stored: words,
                raw_len: word(WORDS_RAW_LEN_OFFSET) as usize,
                zstd: flags & FLAG_WORDS_ZSTD != 0,
            },
        })
    }

    pub(crate) fn expect_kind(&self, expected: u8) -> Result<(), RecordError> {
        if self.kind == expected {
            Ok(())
        } else {
            Err(RecordError::Kind { found: self.kind, expected })
        }
    }

    pub(crate) fn shape(&self) -> Result<Vec<u8>, RecordError> {
        self.shape.unpack()
    }

    pub(crate) fn words(&self) -> Result<Vec<u8>, RecordError> {
        self.words.unpack()
    }
}

impl Packed<'_> {
    fn unpack(&self) -> Result<Vec<u8>, RecordError> {
        let Self { section, stored, raw_len, zstd } = *self;
        let malformed = RecordError::Malformed { what: "section length" };
        if !zstd {
            return if stored.len() == raw_len { Ok(stored.to_vec()) } else { Err(malformed) };
        }
        if raw_len > MAX_SECTION_BYTES {
            return Err(RecordError::TooLarge {
                section,
                bytes: raw_len as u64,
                limit: MAX_SECTION_BYTES as u64,
            });
        }
        // Grows with what the frame really yields: a made-up length allocates nothing, and one
        // byte over the length is enough to know it is wrong.
        let corrupt = |_| RecordError::Malformed { what: "zstd frame" };
        let decoder = zstd::stream::read::Decoder::with_buffer(stored).map_err(corrupt)?;
        let mut raw = Vec::with_capacity(raw_len.min(stored.len().saturating_mul(8)));
        decoder.take(raw_len as u64 + 1).read_to_end(&mut raw).map_err(corrupt)?;
        if raw.len() == raw_len { Ok(raw) } else { Err(malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let sections = Sections {
            plain: (0..64).collect(),
            shape: vec![7; 300],
            words: (0..200u8).map(|n| n.wrapping_mul(37)).collect(),
        };
        seal(KIND_FACTS, 2, &sections).unwrap()
    }

    #[test]
    fn the_header_is_where_the_format_says() {
        let record = sample();
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        assert_eq!(record[MAGIC_OFFSET..VERSION_OFFSET], MAGIC);
        assert_eq!(record[VERSION_OFFSET], VERSION);
        assert_eq!(record[KIND_OFFSET], KIND_FACTS);
        assert_eq!(record[FLAGS_OFFSET] & FLAG_SHAPE_ZSTD, FLAG_SHAPE_ZSTD);
        assert_eq!(record[RESERVED_OFFSET], 0);
        assert_eq!(word(SHAPE_RAW_LEN_OFFSET), 300);
        assert_eq!(word(WORDS_RAW_LEN_OFFSET), 200);
        assert_eq!(word(TX_COUNT_OFFSET), 2);
        let stored = (word(SHAPE_LEN_OFFSET) + word(WORDS_LEN_OFFSET)) as usize;
        assert_eq!(record.len(), HEADER_LEN + 64 + stored);
        assert_eq!(record[HEADER_LEN..HEADER_LEN + 64], (0..64).collect::<Vec<u8>>());
    }

    #[test]
    fn sections_come_back() {
        let bytes = sample();
        let record = Record::open(&bytes).unwrap();
        assert_eq!(record.shape().unwrap(), vec![7; 300]);
        assert_eq!(record.words().unwrap().len(), 200);
        assert!(record.expect_kind(KIND_CODE).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = sample();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Record::open(&bad).is_err(), "byte {at} bit {bit}");
            }
            assert!(Record::open(&good[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut record = sample();
        record[VERSION_OFFSET] = VERSION + 1;
        let error = Record::open(&record).unwrap_err();
        assert_eq!(error, RecordError::Version { found: VERSION + 1, supported: VERSION });
    }

    #[test]
    fn a_bomb_is_cut_off_at_its_stated_length() {
        let bomb = zstd::bulk::compress(&vec![0; 32 << 20], 3).unwrap();
        let lie = Packed { section: "shape", stored: &bomb, raw_len: 10, zstd: true };
        assert_eq!(lie.unpack(), Err(RecordError::Malformed { what: "section length" }));
        let over = Packed { raw_len: MAX_SECTION_BYTES + 1, ..lie };
        assert!(matches!(over.unpack(), Err(RecordError::TooLarge { .. })));
    }

    proptest! {
        #[test]
        fn any_sections_come_back(
            plain in prop::collection::vec(any::<u8>(), 0..300),
            shape in prop::collection::vec(0u8..4, 0..2000),
            words in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            let sections = Sections { plain, shape, words };
            let bytes = seal(KIND_CODE, 0, &sections).unwrap();
            let record = Record::open(&bytes).unwrap();
            prop_assert_eq!(record.plain, &sections.plain[..]);
            prop_assert_eq!(record.shape().unwrap(), sections.shape);
            prop_assert_eq!(record.words().unwrap(), sections.words);
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Record::open(&bytes).is_err());
        }
    }
}

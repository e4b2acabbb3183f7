//! The first bytes of a segment. Mirrors `FORMAT.md`, "Segment".

use super::{ChainId, ImportError};
use alloy_primitives::B256;

const MAGIC: [u8; 8] = *b"PSTSEG\r\n";
const VERSION: u16 = 1;
const MAGIC_OFFSET: usize = 0;
const VERSION_OFFSET: usize = 8;
const CHAIN_ID_OFFSET: usize = 16;
const GENESIS_OFFSET: usize = 24;
const FIRST_OFFSET: usize = 56;
const LAST_OFFSET: usize = 64;

/// What a segment says of itself at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Chain of its blocks.
    pub chain: ChainId,
    /// Number of its lowest block.
    pub first: u64,
    /// Number of its highest block.
    pub last: u64,
}

impl SegmentHeader {
    /// Bytes a header takes.
    pub const LEN: usize = 72;

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut header = [0; Self::LEN];
        let mut put = |offset: usize, bytes: &[u8]| {
            header[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(MAGIC_OFFSET, &MAGIC);
        put(VERSION_OFFSET, &VERSION.to_le_bytes());
        put(CHAIN_ID_OFFSET, &self.chain.chain_id.to_le_bytes());
        put(GENESIS_OFFSET, self.chain.genesis_hash.as_slice());
        put(FIRST_OFFSET, &self.first.to_le_bytes());
        put(LAST_OFFSET, &self.last.to_le_bytes());
        header
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`ImportError::NotASegment`], [`ImportError::NewerVersion`].
    pub fn from_bytes(header: &[u8; Self::LEN]) -> Result<Self, ImportError> {
        if !header.starts_with(&MAGIC) {
            return Err(ImportError::NotASegment);
        }
        let found = u16::from_le_bytes([header[VERSION_OFFSET], header[VERSION_OFFSET + 1]]);
        if found == 0 || found > VERSION {
            return Err(ImportError::NewerVersion { found, supported: VERSION });
        }
        let word = |offset: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[offset..offset + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Self {
            chain: ChainId {
                chain_id: word(CHAIN_ID_OFFSET),
                genesis_hash: B256::from_slice(&header[GENESIS_OFFSET..FIRST_OFFSET]),
            },
            first: word(FIRST_OFFSET),
            last: word(LAST_OFFSET),
        })
    }
}

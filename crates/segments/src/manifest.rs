//! `manifest.json`. Mirrors `FORMAT.md`, "Exported archive".

use alloy_primitives::B256;
use prestate_store::{ChainId, SegmentInfo};
use prestate_types::BlockRef;
use serde::{Deserialize, Serialize};

/// Version of the manifest this program writes, and the newest it reads.
pub const MANIFEST_VERSION: u16 = 1;

const FORMAT: &str = "prestate-segments";

/// What a location holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    format: String,
    version: u16,
    chain_id: u64,
    genesis_hash: B256,
    /// Ascending by first block.
    segments: Vec<SegmentEntry>,
}

/// One segment: the object `segments/DIGEST.segment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SegmentEntry {
    /// Number of its lowest block.
    pub first: u64,
    /// Hash of that.
    pub first_hash: B256,
    /// Number of its highest block.
    pub last: u64,
    /// Hash of that.
    pub last_hash: B256,
    /// How many of its blocks have all facts.
    pub facts: u64,
    /// Codes it brings.
    pub codes: u64,
    /// Its length.
    pub bytes: u64,
    /// Keccak-256 of all but its last 32 bytes, which hold the same.
    pub digest: B256,
}

/// The part that every version has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u16,
}

/// Why a manifest cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Newer(u16),
    Malformed(String),
}

impl SegmentEntry {
    pub(crate) fn new(info: &SegmentInfo) -> Self {
        Self {
            first: info.first.number,
            first_hash: info.first.hash,
            last: info.last.number,
            last_hash: info.last.hash,
            facts: info.facts,
            codes: info.codes,
            bytes: info.bytes,
            digest: info.digest,
        }
    }

    /// How many blocks it holds.
    pub fn blocks(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Its lowest and its highest block.
    pub fn ends(&self) -> (BlockRef, BlockRef) {
        (BlockRef::new(self.first, self.first_hash), BlockRef::new(self.last, self.last_hash))
    }

    pub(crate) fn overlaps(&self, first: u64, last: u64) -> bool {
        self.first <= last && first <= self.last
    }
}

impl Manifest {
    pub(crate) fn new(chain: ChainId) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: MANIFEST_VERSION,
            chain_id: chain.chain_id,
            genesis_hash: chain.genesis_hash,
            segments: Vec::new(),
        }
    }

    pub(crate) fn from_json(json: &[u8]) -> Result<Self, Unreadable> {
        let malformed = |error: serde_json::Error| Unreadable::Malformed(error.to_string());
        let head: Head = serde_json::from_slice(json).map_err(malformed)?;
        if head.format != FORMAT {
            return Err(Unreadable::Malformed(format!("it is a {:?}", head.format)));
        }
        if head.version > MANIFEST_VERSION {
            return Err(Unreadable::Newer(head.version));
        }
        let manifest: Self = serde_json::from_slice(json).map_err(malformed)?;
        let mut below = None;
        for entry in &manifest.segments {
            if entry.first > entry.last || below.is_some_and(|below| below >= entry.first) {
                return Err(Unreadable::Malformed("its segments are out of order".to_owned()));
            }
            below = Some(entry.last);
        }
        Ok(manifest)
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Numbers, hashes and strings always serialise.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Chain of the blocks.
    pub fn chain(&self) -> ChainId {
        ChainId { chain_id: self.chain_id, genesis_hash: self.genesis_hash }
    }

    /// The segments, ascending; no two overlap.
    pub fn segments(&self) -> &[SegmentEntry] {
        &self.segments
    }

    /// Puts a segment in the place of those within its stretch. Returns how many went.
    pub(crate) fn put(&mut self, entry: SegmentEntry) -> usize {
        let before = self.segments.len();
        self.segments.retain(|held| !held.overlaps(entry.first, entry.last));
        let replaced = before - self.segments.len();
        let at = self.segments.partition_point(|held| held.first < entry.first);
        self.segments.insert(at, entry);
        replaced
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(first: u64, last: u64, branch: u8) -> SegmentEntry {
        let hash = |number: u64| {
            let mut hash = B256::repeat_byte(branch);
            hash[..8].copy_from_slice(&number.to_be_bytes());
            hash
        };
        SegmentEntry {
            first,
            first_hash: hash(first),
            last,
            last_hash: hash(last),
            facts: last - first + 1,
            codes: 0,
            bytes: 1,
            digest: hash(first ^ last << 32),
        }
    }

    fn sample() -> Manifest {
        let mut manifest =
            Manifest::new(ChainId { chain_id: 1, genesis_hash: B256::repeat_byte(0xd4) });
        assert_eq!(manifest.put(entry(10, 19, 1)), 0);
        assert_eq!(manifest.put(entry(0, 9, 1)), 0);
        manifest
    }

    #[test]
    fn a_manifest_comes_back() {
        let manifest = sample();
        assert_eq!(Manifest::from_json(&manifest.to_json()), Ok(manifest.clone()));
        assert_eq!(
            manifest.segments().iter().map(|entry| entry.first).collect::<Vec<_>>(),
            [0, 10]
        );
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let json = String::from_utf8(sample().to_json()).unwrap();
        let parse = |json: &str| Manifest::from_json(json.as_bytes());
        // A newer one may look different below its head.
        let newer = r#"{"format": "prestate-segments", "version": 2, "else": []}"#;
        assert_eq!(parse(newer), Err(Unreadable::Newer(2)));
        for broken in [
            "",
            "{}",
            "[]",
            &json.replace("prestate-segments", "prestate"),
            &json.replace("\"first\": 10", "\"first\": 9"),
            &json.replace("\"last\": 19", "\"last\": 1"),
            &json.replace("genesisHash", "genesis"),
            &json[..json.len() - 4],
        ] {
            assert!(matches!(parse(broken), Err(Unreadable::Malformed(_))), "{broken}");
        }
    }

    #[test]
    fn a_wider_segment_takes_the_place_of_those_within() {
        let mut manifest = sample();
        assert_eq!(manifest.put(entry(10, 29, 1)), 1);
        assert_eq!(manifest.put(entry(0, 29, 1)), 2);
        assert_eq!(manifest.segments().len(), 1);
    }
}

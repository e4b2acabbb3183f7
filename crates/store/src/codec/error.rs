use thiserror::Error;

/// Why bytes are not a record this version can read. Nothing of a failed record is handed out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Fewer bytes than the header says, or than a header takes.
    #[error("record is {found} bytes long, {needed} are needed")]
    Short {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        needed: u64,
    },
    /// The first bytes are not a record's.
    #[error("no record: starts with {found:02x?}")]
    Magic {
        /// The four first bytes.
        found: [u8; 4],
    },
    /// Written by a newer version of the program.
    #[error("record version {found} is newer than {supported}, the newest this program reads")]
    Version {
        /// Version of the record.
        found: u8,
        /// Newest version known here.
        supported: u8,
    },
    /// A record of another kind stands in this place.
    #[error("record kind {found} where {expected} belongs")]
    Kind {
        /// What the record says it is.
        found: u8,
        /// What was asked for.
        expected: u8,
    },
    /// Some bit flipped, or the record was torn.
    #[error("checksum {computed:08x} does not match the stored {stored:08x}")]
    Checksum {
        /// As written.
        stored: u32,
        /// Of the bytes as they are.
        computed: u32,
    },
    /// The checksum holds and the contents make no sense all the same.
    #[error("malformed record: {what}")]
    Malformed {
        /// The part that makes no sense.
        what: &'static str,
    },
    /// A section is larger than this version writes or reads.
    #[error("{section} section of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Which.
        section: &'static str,
        /// Its size, unpacked.
        bytes: u64,
        /// The largest allowed.
        limit: u64,
    },
}

//! Blocks and codes to bytes and back. Nothing here does I/O.

mod decode;
mod encode;
mod error;
mod record;
mod stream;
mod tables;

pub use decode::{KeptBlock, decode_block};
pub(crate) use decode::{code_hashes, decode_code, tx_hashes};
pub use encode::EncodedBlock;
pub(crate) use encode::encode_code;
pub use error::RecordError;

/// Bits of the byte that says what of an account follows. Mirrors `FORMAT.md`, "Account".
pub(crate) mod flags {
    /// The state before is given; clear, it is the state after the account's last mention.
    pub(crate) const PRE_GIVEN: u8 = 1;
    /// The given state before exists.
    pub(crate) const PRE_EXISTS: u8 = 1 << 1;
    /// The account exists afterwards.
    pub(crate) const POST_EXISTS: u8 = 1 << 2;
    /// The nonce grew by one.
    pub(crate) const NONCE_UP: u8 = 1 << 3;
    /// The nonce changed otherwise and is given.
    pub(crate) const NONCE_GIVEN: u8 = 1 << 4;
    /// The balance changed and is given.
    pub(crate) const BALANCE: u8 = 1 << 5;
    /// The code changed and is given.
    pub(crate) const CODE: u8 = 1 << 6;
    /// The storage was wiped.
    pub(crate) const WIPED: u8 = 1 << 7;
}

#[cfg(test)]
pub(crate) mod strategy;
#[cfg(test)]
mod tests;

//! Deflate and gzip around the segments: whole texts, stored blocks, the gzip frame.

use crate::{crc::Crc, deflate_walk::reopen};
use libdeflater::{CompressionLvl, Compressor};

/// Header of a gzip member: deflate, no name, no time, system unknown (RFC 1952 §2.3).
pub(crate) const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Longest text of a stored block (RFC 1951 §3.2.4).
const STORED_MAX: usize = 65_535;

/// Level of texts compressed as a whole for a single reply.
const ONE_SHOT_LEVEL: i32 = 1;

fn compressor(level: i32) -> Compressor {
    // Every level named in this crate is one of libdeflate's; its default otherwise.
    Compressor::new(CompressionLvl::new(level).unwrap_or_default())
}

/// The text as deflate blocks that end at a byte border and are not the last of a stream.
pub(crate) fn deflate_open(text: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = compressor(level);
    let mut out = vec![0; compressor.deflate_compress_bound(text.len())];
    let reopened = compressor.deflate_compress(text, &mut out).ok().and_then(|len| {
        out.truncate(len);
        reopen(out)
    });
    // libdeflate cannot fail with room for its own bound. Were it to, stored is always right.
    let mut deflated = reopened.unwrap_or_else(|| {
        let mut stored = Vec::new();
        push_stored(&mut stored, text, false);
        stored
    });
    deflated.shrink_to_fit();
    deflated
}

/// The text of known length behind blocks made by [`deflate_open`] or alike; `None` if they give
/// another.
pub(crate) fn inflate_open(blocks: &[u8], text_len: usize) -> Option<Vec<u8>> {
    // An empty block, with the fixed codes, that ends the stream.
    let stream = [blocks, &[3, 0]].concat();
    let mut text = vec![0; text_len];
    let len = libdeflater::Decompressor::new().deflate_decompress(&stream, &mut text).ok()?;
    (len == text_len).then_some(text)
}

/// Appends a text in stored blocks; the last of them ends the stream if so asked. Nothing is
/// appended for an empty text that does not end the stream.
pub(crate) fn push_stored(out: &mut Vec<u8>, text: &[u8], last: bool) {
    let mut rest = text;
    while !rest.is_empty() {
        let (block, behind) = rest.split_at(rest.len().min(STORED_MAX));
        push_stored_block(out, block, last && behind.is_empty());
        rest = behind;
    }
    if text.is_empty() && last {
        push_stored_block(out, &[], true);
    }
}

fn push_stored_block(out: &mut Vec<u8>, block: &[u8], last: bool) {
    let len = block.len() as u16;
    out.push(u8::from(last));
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(block);
}

/// Ends a gzip member: CRC-32 and length modulo 2^32 of the text (RFC 1952 §2.3.1).
pub(crate) fn push_gzip_trailer(out: &mut Vec<u8>, crc: Crc, text_len: u64) {
    out.extend_from_slice(&crc.value.to_le_bytes());
    out.extend_from_slice(&(text_len as u32).to_le_bytes());
}

/// A text as a gzip member of its own, for bodies sent once.
pub fn gzip_once(text: &[u8]) -> Vec<u8> {
    let mut compressor = compressor(ONE_SHOT_LEVEL);
    let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
    match compressor.gzip_compress(text, &mut out) {
        Ok(len) => out.truncate(len),
        // As in `deflate_open`: not reached.
        Err(_) => {
            out.clear();
            out.extend_from_slice(&GZIP_HEADER);
            push_stored(&mut out, text, true);
            push_gzip_trailer(&mut out, Crc::of(text), text.len() as u64);
        }
    }
    out
}

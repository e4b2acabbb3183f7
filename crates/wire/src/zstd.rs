//! Zstandard (RFC 8878) around the ropes: blocks to be framed anew, raw blocks, frame headers.

use bytes::Bytes;
use std::io::{self, Write};
use zstd::stream::write::Encoder;

/// Largest window HTTP allows is 8 MB (RFC 9659 §2).
const WINDOW_LOG_MAX: u32 = 23;
/// Smallest window a frame header can name (RFC 8878 §3.1.1.1.2).
const WINDOW_LOG_MIN: u32 = 10;
/// Codes recur over the whole block, which long-distance matching finds at the lowest level.
const LEVEL: i32 = 1;
/// Longest block (RFC 8878 §3.1.1.2.3); frames with a smaller window hold less than it.
const BLOCK_MAX: usize = 128 * 1024;
const BLOCK_HEADER: usize = 3;
const RAW: u32 = 0;
const RLE: u32 = 1;

/// An encoder with this crate's parameters: long-distance matching, no checksum (one over the
/// whole text would have to be made for each caller).
pub(crate) fn encoder(text_len: Option<u64>) -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.window_log(WINDOW_LOG_MAX)?;
    encoder.long_distance_matching(true)?;
    encoder.include_checksum(false)?;
    encoder.include_contentsize(false)?;
    encoder.set_pledged_src_size(text_len)?;
    Ok(encoder)
}

/// Appends a frame header for a content of known length (RFC 8878 §3.1.1.1).
pub(crate) fn push_frame_header(out: &mut Vec<u8>, content_len: u64) {
    out.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd]);
    // The size of the content in 8 bytes, no checksum, no dictionary.
    out.push(0b1100_0000);
    // A window that holds the content if it may be so large: no block is longer then.
    let log = content_len.next_power_of_two().ilog2().clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
    out.push(((log - WINDOW_LOG_MIN) as u8) << 3);
    out.extend_from_slice(&content_len.to_le_bytes());
}

/// Appends a text in raw blocks (RFC 8878 §3.1.1.2); the last of them ends the frame if so asked.
/// Nothing is appended for an empty text that does not end the frame.
pub(crate) fn push_raw(out: &mut Vec<u8>, text: &[u8], last: bool) {
    let mut rest = text;
    while !rest.is_empty() || (last && text.is_empty()) {
        let (block, behind) = rest.split_at(rest.len().min(BLOCK_MAX));
        let header = block_header(last && behind.is_empty(), RAW, block.len());
        out.extend_from_slice(&header);
        out.extend_from_slice(block);
        rest = behind;
        if block.is_empty() {
            break;
        }
    }
}

fn block_header(last: bool, kind: u32, size: usize) -> [u8; 3] {
    let [a, b, c, _] = (u32::from(last) | kind << 1 | (size as u32) << 3).to_le_bytes();
    [a, b, c]
}

/// The text as blocks none of which is the last of a frame. They may follow raw blocks, but not
/// compressed blocks of another text.
pub(crate) fn blocks<I: Iterator<Item = Bytes>>(text_len: u64, chunks: impl Fn() -> I) -> Vec<u8> {
    compressed(text_len, chunks()).ok().and_then(blocks_of).unwrap_or_else(|| {
        // Writing to memory does not fail, nor does zstd with valid parameters, short of memory
        // apart. Raw blocks are always right.
        let mut raw = Vec::new();
        chunks().for_each(|chunk| push_raw(&mut raw, &chunk, false));
        raw
    })
}

fn compressed(text_len: u64, chunks: impl Iterator<Item = Bytes>) -> io::Result<Vec<u8>> {
    let mut encoder = encoder(Some(text_len))?;
    for chunk in chunks {
        encoder.write_all(&chunk)?;
    }
    encoder.finish()
}

/// Takes the header off a frame without checksum and the mark off its last block.
fn blocks_of(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    let start = header_len(&frame)?;
    let mut at = start;
    loop {
        let header = frame.get(at..at + BLOCK_HEADER)?;
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, (header >> 3) as usize);
        let content = if kind == RLE { 1 } else { size };
        if last {
            frame[at] &= !1;
            // An encoder that found nothing left to say ends with an empty block.
            let end = if size == 0 { at } else { at + BLOCK_HEADER + content };
            (frame.len() >= end).then(|| frame.truncate(end))?;
            frame.drain(..start);
            frame.shrink_to_fit();
            return Some(frame);
        }
        at += BLOCK_HEADER + content;
    }
}

/// Length of a frame's header (RFC 8878 §3.1.1.1).
fn header_len(frame: &[u8]) -> Option<usize> {
    let descriptor = *frame.get(4)?;
    let single_segment = descriptor >> 5 & 1;
    let checksum = descriptor >> 2 & 1;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(single_segment),
        flag => 1 << flag,
    };
    (checksum == 0).then_some(5 + usize::from(1 - single_segment) + dictionary + content_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_raw_blocks_alone() {
        for len in [0, 1, 5, BLOCK_MAX - 1, BLOCK_MAX, BLOCK_MAX + 1, 3 * BLOCK_MAX] {
            let text: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut frame = Vec::new();
            push_frame_header(&mut frame, len as u64);
            push_raw(&mut frame, &text, true);
            assert_eq!(zstd::decode_all(&frame[..]).unwrap(), text);
        }
    }

    #[test]
    fn blocks_behind_raw_blocks() {
        for len in [0usize, 1, 7, 1000, 20_000, 131_072, 131_073, 600_000] {
            let text: Vec<u8> = (0..len as u32)
                .map(|at| b"0123456789abcdef"[(at.wrapping_mul(2_654_435_761) >> 21) as usize % 16])
                .collect();
            let chunks = || text.chunks(999).map(Bytes::copy_from_slice);
            let blocks = blocks(len as u64, chunks);
            let mut frame = Vec::new();
            push_frame_header(&mut frame, 6 + len as u64);
            push_raw(&mut frame, b"head", false);
            frame.extend_from_slice(&blocks);
            push_raw(&mut frame, b"}}", true);
            let expected = [b"head", &text[..], b"}}"].concat();
            assert_eq!(zstd::decode_all(&frame[..]).unwrap(), expected, "{len}");
        }
    }
}

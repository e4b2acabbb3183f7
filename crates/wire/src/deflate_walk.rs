//! Makes a finished deflate stream one that others may follow.
//!
//! libdeflate compresses best but always ends a stream. Its blocks are walked here to find where
//! the last one starts and ends: the bit that says "last" is cleared, and the end is brought to a
//! byte border. What the blocks say is not looked at.

use crate::{bits::BitReader, huffman::LENGTH_CODE_ORDER};

/// Decodes one prefix code, bit by bit along the canonical order.
struct Decoder {
    counts: [u16; 16],
    symbols: Vec<u16>,
}

impl Decoder {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        for len in lengths {
            counts[usize::from(*len)] += 1;
        }
        let mut offsets = [0u16; 17];
        for len in 1..16 {
            offsets[len + 1] = offsets[len] + counts[len];
        }
        let mut symbols = vec![0; lengths.len()];
        for (symbol, len) in lengths.iter().enumerate() {
            if *len > 0 {
                symbols[usize::from(offsets[usize::from(*len)])] = symbol as u16;
                offsets[usize::from(*len)] += 1;
            }
        }
        counts[0] = 0;
        Self { counts, symbols }
    }

    fn decode(&self, bits: &mut BitReader<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0u32, 0u32, 0u32);
        for count in &self.counts[1..] {
            code |= bits.bit()?;
            let count = u32::from(*count);
            if code < first + count {
                return self.symbols.get((index + code - first) as usize).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

/// Bits behind a length symbol from 257 on (RFC 1951 §3.2.5).
fn length_extra_bits(symbol: u16) -> Option<u32> {
    match symbol {
        257..=264 | 285 => Some(0),
        265..=284 => Some(u32::from(symbol - 261) / 4),
        _ => None,
    }
}

fn distance_extra_bits(symbol: u16) -> Option<u32> {
    match symbol {
        0..=3 => Some(0),
        4..=29 => Some(u32::from(symbol / 2 - 1)),
        _ => None,
    }
}

fn walk_symbols(bits: &mut BitReader<'_>, literals: &Decoder, distances: &Decoder) -> Option<()> {
    loop {
        match literals.decode(bits)? {
            0..=255 => {}
            256 => return Some(()),
            length => {
                bits.bits(length_extra_bits(length)?)?;
                let distance = distances.decode(bits)?;
                bits.bits(distance_extra_bits(distance)?)?;
            }
        }
    }
}

fn dynamic_codes(bits: &mut BitReader<'_>) -> Option<(Decoder, Decoder)> {
    let literal_count = bits.bits(5)? as usize + 257;
    let distance_count = bits.bits(5)? as usize + 1;
    let sent = bits.bits(4)? as usize + 4;
    let mut lengths = [0; 19];
    for symbol in &LENGTH_CODE_ORDER[..sent] {
        lengths[*symbol] = bits.bits(3)? as u8;
    }
    let decoder = Decoder::new(&lengths);
    let mut all: Vec<u8> = Vec::with_capacity(320);
    while all.len() < literal_count + distance_count {
        let (value, run) = match decoder.decode(bits)? {
            16 => (*all.last()?, 3 + bits.bits(2)?),
            17 => (0, 3 + bits.bits(3)?),
            18 => (0, 11 + bits.bits(7)?),
            len => (len as u8, 1),
        };
        all.extend(std::iter::repeat_n(value, run as usize));
    }
    let distances = all.get(literal_count..literal_count + distance_count)?;
    Some((Decoder::new(&all[..literal_count]), Decoder::new(distances)))
}

/// Where the last block's header bit lies and where the stream ends, in bits.
fn last_block(stream: &[u8]) -> Option<(usize, usize)> {
    let mut bits = BitReader::new(stream);
    loop {
        let start = bits.at;
        let last = bits.bit()? == 1;
        match bits.bits(2)? {
            0 => {
                bits.align();
                let len = bits.bits(16)?;
                bits.bits(16)?;
                bits.at += len as usize * 8;
            }
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                walk_symbols(&mut bits, &Decoder::new(&lengths), &Decoder::new(&[5; 32]))?;
            }
            2 => {
                let (literals, distances) = dynamic_codes(&mut bits)?;
                walk_symbols(&mut bits, &literals, &distances)?;
            }
            _ => return None,
        }
        if last {
            return (bits.at <= stream.len() * 8).then_some((start, bits.at));
        }
    }
}

/// Clears the mark of the last block and ends the stream at a byte border, so that other blocks
/// may follow. `None` if this is no deflate stream.
pub(crate) fn reopen(mut stream: Vec<u8>) -> Option<Vec<u8>> {
    let (last, end) = last_block(&stream)?;
    stream[last / 8] &= !(1 << (last % 8));
    stream.truncate(end.div_ceil(8));
    if end % 8 != 0 {
        // An empty stored block: three zero bits, zeros to the byte border, its length. The bits
        // behind the end are zero already where they share its byte.
        let used = end % 8;
        let at = stream.len() - 1;
        stream[at] &= (1 << used) - 1;
        if used > 5 {
            stream.push(0);
        }
        stream.extend_from_slice(&[0, 0, 0xff, 0xff]);
    }
    Some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inflate(stream: &[u8]) -> Vec<u8> {
        use std::io::Read;
        let mut out = Vec::new();
        flate2::read::DeflateDecoder::new(stream).read_to_end(&mut out).unwrap();
        out
    }

    fn reopened(text: &[u8], level: i32) -> Vec<u8> {
        let mut compressor =
            libdeflater::Compressor::new(libdeflater::CompressionLvl::new(level).unwrap());
        let mut out = vec![0; compressor.deflate_compress_bound(text.len())];
        let len = compressor.deflate_compress(text, &mut out).unwrap();
        out.truncate(len);
        reopen(out).unwrap()
    }

    fn check(texts: &[(Vec<u8>, i32)]) {
        let mut stream: Vec<u8> =
            texts.iter().flat_map(|(text, level)| reopened(text, *level)).collect();
        stream.extend_from_slice(&[3, 0]);
        let text: Vec<u8> = texts.iter().flat_map(|(text, _)| text.clone()).collect();
        assert_eq!(inflate(&stream), text);
    }

    proptest! {
        #[test]
        fn reopened_streams_concatenate(
            texts in prop::collection::vec((
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..400),
                    "[0-9a-f]{0,3000}".prop_map(String::into_bytes),
                    "(60806040){0,200}".prop_map(String::into_bytes),
                ],
                0..=12i32,
            ), 1..6)
        ) {
            check(&texts);
        }
    }

    #[test]
    fn streams_of_many_blocks() {
        // Past libdeflate's block size, with statistics that change.
        let mut text: Vec<u8> = (0..700_000u32)
            .map(|i| b"0123456789abcdef"[(i.wrapping_mul(2_654_435_761) >> 28) as usize])
            .collect();
        text.extend((0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8));
        check(&[(text.clone(), 1), (text.clone(), 6), (text, 0)]);
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        assert_eq!(reopen(Vec::new()), None);
        assert_eq!(reopen(vec![0b111]), None);
        assert_eq!(reopen(vec![0b001, 5, 0, 0xfa, 0xff, b'x']), None);
    }
}

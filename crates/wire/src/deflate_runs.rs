//! Deflate for the own text of a rope, made for short runs of JSON between long codes.
//!
//! A general compressor loses on such text: it either reads the codes again, or forgets at each
//! code what came before. Here only the runs are read. Matches reach back over the codes in
//! between, whose lengths count in the distance, so the window is the same as if the whole text
//! had been compressed; and one pair of Huffman codes, made for all runs together, is sent in
//! front of each run, which is much cheaper to make than a pair a run.

use crate::{
    bits::BitWriter,
    huffman::{BlockCodes, DISTANCES, END_OF_BLOCK, LITERALS},
};

/// Own text that shares one pair of codes, at least. Shorter: more headers are made; longer: the
/// codes fit less well.
const GROUP_BYTES: usize = 512 * 1024;
/// Shortest match taken. Hex digits cost about 4.3 bits each, a match at least 17 bits or so, and
/// chance matches of 4 and 5 digits abound.
const MIN_MATCH: usize = 6;
const MAX_MATCH: usize = 258;
/// Window of deflate.
pub(crate) const WINDOW: u64 = 32 * 1024;
const HASH_BITS: u32 = 13;
/// Literals in a row after which the search takes larger steps.
const PATIENCE: u32 = 4;

/// A run of own text.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Bytes of codes in the text before it.
    pub(crate) skipped: u64,
    pub(crate) then: Then,
}

/// What stands behind a run.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// Bytes of others, or the end: blocks end here at a byte border.
    Border,
    /// A code that stands in the text already, so far back, within the window: it is copied like
    /// any match, and the blocks go on. The distance is given less one; the length is [`MIN_COPY`]
    /// at least.
    Copy { length: usize, distance: u16 },
}

/// Shortest copy that can be made of matches, whatever its length.
pub(crate) const MIN_COPY: usize = 8;

/// So many literals, then a match; a match of length zero at the end of a run.
#[derive(Clone, Copy)]
struct Step {
    literals: u32,
    length: u16,
    /// Less one.
    distance: u16,
    /// The match is of a code, which is not in the own text.
    is_code: bool,
}

/// Where text was seen: position in the own text, and number of its run.
#[derive(Clone, Copy, Default)]
struct Seen {
    at: u32,
    run: u32,
}

/// Compresses runs of `text`, each into blocks that end at a byte border and are not the last.
/// Gives the bytes, and where each stretch of runs up to a [`Then::Border`] ends in them.
pub(crate) fn deflate_runs(text: &[u8], runs: &[Run]) -> (Vec<u8>, Vec<u32>) {
    let fixed = BlockCodes::fixed();
    let mut out = BitWriter::new();
    out.reserve(text.len() / 3 + runs.len() * 16);
    let mut ends = Vec::with_capacity(runs.len());
    let mut finder = Finder::new(text, runs);
    // A run longer than a group is cut; its parts are blocks of one run.
    let mut parts = Vec::new();
    let mut group_bytes = 0;
    for (number, run) in runs.iter().enumerate() {
        let mut at = run.start;
        loop {
            let end = run.end.min(at + GROUP_BYTES);
            let then = (end == run.end).then_some(run.then);
            parts.push(Part { run: number, start: at, end, then });
            group_bytes += end - at;
            at = end;
            if group_bytes >= GROUP_BYTES {
                encode_group(&mut finder, &std::mem::take(&mut parts), &fixed, &mut out, &mut ends);
                group_bytes = 0;
            }
            if at == run.end {
                break;
            }
        }
    }
    encode_group(&mut finder, &parts, &fixed, &mut out, &mut ends);
    (out.into_bytes(), ends)
}

#[derive(Clone, Copy)]
struct Part {
    run: usize,
    start: usize,
    end: usize,
    /// What comes next, where the run ends here.
    then: Option<Then>,
}

fn encode_group(
    finder: &mut Finder<'_>,
    parts: &[Part],
    fixed: &BlockCodes,
    out: &mut BitWriter,
    ends: &mut Vec<u32>,
) {
    if parts.is_empty() {
        return;
    }
    let mut counts = Counts::new();
    let mut steps = Vec::new();
    let mut step_ends = Vec::with_capacity(parts.len());
    for part in parts {
        finder.find(part, &mut steps, &mut counts);
        if let Some(Then::Copy { length, distance }) = part.then {
            copy(length, distance, &mut steps, &mut counts);
        }
        step_ends.push(steps.len());
    }
    let codes = BlockCodes::of(&mut counts.literals, &mut counts.distances);
    let mut first_step = 0;
    let mut start = parts[0].start;
    for (at, (part, end)) in parts.iter().zip(step_ends).enumerate() {
        let border = matches!(part.then, Some(Then::Border));
        if !border && at + 1 < parts.len() {
            continue;
        }
        encode_block(&finder.text[start..part.end], &steps[first_step..end], &codes, fixed, out);
        (start, first_step) = (part.end, end);
        if border {
            out.align();
            ends.push(out.len() as u32);
        }
    }
}

/// A code as matches at one distance.
fn copy(mut length: usize, distance: u16, steps: &mut Vec<Step>, counts: &mut Counts) {
    while length > 0 {
        // What is left must not be too short for a match.
        let now = match length {
            0..=MAX_MATCH => length,
            259 | 260 => MAX_MATCH - 3,
            _ => MAX_MATCH,
        };
        let step = Step { literals: 0, length: now as u16, distance, is_code: true };
        counts.add_match(&step);
        steps.push(step);
        length -= now;
    }
}

/// Bits an encoder saves on a literal, about, by having codes made for the text.
const SAVED_PER_LITERAL: f32 = 3.6;

/// Writes a block of own text and copied codes, if there is anything to write.
fn encode_block(
    text: &[u8],
    steps: &[Step],
    codes: &BlockCodes,
    fixed: &BlockCodes,
    out: &mut BitWriter,
) {
    // Stored: 5 bytes and no flush after. Fixed: a byte a literal, and about 5 for block and flush.
    if steps.iter().all(|step| step.length == 0) && text.len() <= 4 {
        if text.is_empty() {
            return;
        }
        out.reserve(16);
        out.add(0, 3);
        out.pad();
        out.bytes(&(text.len() as u16).to_le_bytes());
        out.bytes(&(!(text.len() as u16)).to_le_bytes());
        out.bytes(text);
        return;
    }
    let literals: usize = steps.iter().map(|step| step.literals as usize).sum();
    let codes =
        if literals as f32 * SAVED_PER_LITERAL > codes.header_bits as f32 { codes } else { fixed };
    codes.write_header(out);
    // At most 12 bits a literal (9 with the fixed code), 49 a match.
    out.reserve(literals * 3 / 2 + steps.len() * 7 + 16);
    let mut rest = text;
    for step in steps {
        let (run, behind) = rest.split_at(step.literals as usize);
        let mut fours = run.chunks_exact(4);
        for four in &mut fours {
            for literal in four {
                let code = codes.literals[usize::from(*literal)];
                out.add(u64::from(code.bits), u32::from(code.len));
            }
            out.flush();
        }
        for literal in fours.remainder() {
            let code = codes.literals[usize::from(*literal)];
            out.add(u64::from(code.bits), u32::from(code.len));
        }
        out.flush();
        rest = behind;
        if step.length > 0 {
            let (symbol, extra, extra_bits) = length_symbol(step.length);
            let code = codes.literals[symbol];
            out.add(u64::from(code.bits), u32::from(code.len));
            out.add(extra, extra_bits);
            let (symbol, extra, extra_bits) = distance_symbol(step.distance);
            let code = codes.distances[symbol];
            out.add(u64::from(code.bits), u32::from(code.len));
            out.add(extra, extra_bits);
            out.flush();
            if !step.is_code {
                rest = &rest[usize::from(step.length)..];
            }
        }
    }
    let code = codes.literals[END_OF_BLOCK];
    out.add(u64::from(code.bits), u32::from(code.len));
    out.flush();
}

struct Counts {
    literals: [u32; LITERALS],
    distances: [u32; DISTANCES],
}

impl Counts {
    fn new() -> Self {
        Self { literals: [0; LITERALS], distances: [0; DISTANCES] }
    }

    #[inline]
    fn add_match(&mut self, step: &Step) {
        self.literals[length_symbol(step.length).0] += 1;
        self.distances[distance_symbol(step.distance).0] += 1;
    }
}

/// Symbol, extra bits and their number of a match length (RFC 1951 §3.2.5).
#[inline]
fn length_symbol(length: u16) -> (usize, u64, u32) {
    let value = u32::from(length) - 3;
    match value {
        0..=7 => (257 + value as usize, 0, 0),
        255 => (285, 0, 0),
        _ => {
            let extra_bits = value.ilog2() - 2;
            let symbol = 257 + 4 * extra_bits + (value >> extra_bits);
            (symbol as usize, u64::from(value & ((1 << extra_bits) - 1)), extra_bits)
        }
    }
}

/// Symbol, extra bits and their number of a distance less one (RFC 1951 §3.2.5).
#[inline]
fn distance_symbol(less_one: u16) -> (usize, u64, u32) {
    let value = u32::from(less_one);
    if value < 4 {
        return (value as usize, 0, 0);
    }
    let extra_bits = value.ilog2() - 1;
    let symbol = 2 * extra_bits + (value >> extra_bits);
    (symbol as usize, u64::from(value & ((1 << extra_bits) - 1)), extra_bits)
}

/// Finds matches, greedily, with one candidate a position.
struct Finder<'a> {
    text: &'a [u8],
    runs: &'a [Run],
    table: Vec<Seen>,
}

impl<'a> Finder<'a> {
    fn new(text: &'a [u8], runs: &'a [Run]) -> Self {
        // An entry never written points to the start of the first run, which is compared like any
        // other candidate.
        Self { text, runs, table: vec![Seen::default(); 1 << HASH_BITS] }
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.text[at..at + 8]);
        u64::from_le_bytes(word)
    }

    #[inline]
    fn hash(word: u64) -> usize {
        ((word << 16).wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - HASH_BITS)) as usize
    }

    fn find(&mut self, part: &Part, steps: &mut Vec<Step>, counts: &mut Counts) {
        let text = self.text;
        let run = self.runs[part.run];
        let mut anchor = part.start;
        let mut at = part.start;
        // A word has to fit into the text; matches may end at the part's end.
        let stop = part.end.min(text.len().saturating_sub(8));
        while at < stop {
            let word = self.word(at);
            let slot = Self::hash(word);
            let seen = std::mem::replace(
                &mut self.table[slot],
                Seen { at: at as u32, run: part.run as u32 },
            );
            let candidate = seen.at as usize;
            let source = self.runs[seen.run as usize];
            let distance = (at as u64 + run.skipped) - (candidate as u64 + source.skipped);
            if candidate < at
                && distance <= WINDOW
                && (self.word(candidate) ^ word) << 16 == 0
                && source.end - candidate >= MIN_MATCH
                && part.end - at >= MIN_MATCH
            {
                let most = MAX_MATCH.min(part.end - at).min(source.end - candidate);
                let mut length = common(&text[candidate..], &text[at..], most);
                // The step may have passed the match's start.
                let mut back = 0;
                let most_back = (at - anchor).min(candidate - source.start).min(MAX_MATCH - length);
                while back < most_back && text[at - back - 1] == text[candidate - back - 1] {
                    back += 1;
                }
                let start = at - back;
                length += back;
                for literal in &text[anchor..start] {
                    counts.literals[usize::from(*literal)] += 1;
                }
                let step = Step {
                    literals: (start - anchor) as u32,
                    length: length as u16,
                    distance: (distance - 1) as u16,
                    is_code: false,
                };
                counts.add_match(&step);
                steps.push(step);
                anchor = start + length;
                if anchor >= 2 && anchor - 2 > at && anchor < stop {
                    let slot = Self::hash(self.word(anchor - 2));
                    self.table[slot] = Seen { at: (anchor - 2) as u32, run: part.run as u32 };
                }
                at = anchor;
            } else {
                at += 1 + ((at - anchor) >> PATIENCE);
            }
        }
        for literal in &text[anchor..part.end] {
            counts.literals[usize::from(*literal)] += 1;
        }
        let literals = (part.end - anchor) as u32;
        steps.push(Step { literals, length: 0, distance: 0, is_code: false });
    }
}

/// How many bytes `a` and `b` share from their start, `most` at most, which both have.
#[inline]
fn common(a: &[u8], b: &[u8], most: usize) -> usize {
    let (a, b) = (&a[..most], &b[..most]);
    let mut length = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let mut words = [[0; 8]; 2];
        words[0].copy_from_slice(x);
        words[1].copy_from_slice(y);
        let differ = u64::from_le_bytes(words[0]) ^ u64::from_le_bytes(words[1]);
        if differ != 0 {
            return length + differ.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + a[length..].iter().zip(&b[length..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// A code: nothing that own text matches by chance.
    fn filler(len: usize) -> Vec<u8> {
        (0..len).map(|at| b"GHIJKLMNOPQRSTUVWXYZ"[(at * at + at / 7) % 20]).collect()
    }

    /// Puts codes between the runs, as stored blocks where they are not copied, and inflates.
    fn round_trip(pieces: &[(Vec<u8>, usize)]) {
        let mut text = Vec::new();
        let mut runs = Vec::new();
        let mut whole = Vec::new();
        let mut skipped = 0u64;
        let mut seen = std::collections::HashMap::new();
        let mut borders = Vec::new();
        for (at, (piece, code)) in pieces.iter().enumerate() {
            let start = text.len();
            text.extend_from_slice(piece);
            whole.extend_from_slice(piece);
            let distance = seen.insert(*code, whole.len()).map(|before| whole.len() - before);
            let then = match distance {
                Some(distance)
                    if distance <= 32_768 && *code >= MIN_COPY && at + 1 < pieces.len() =>
                {
                    Then::Copy { length: *code, distance: (distance - 1) as u16 }
                }
                _ => Then::Border,
            };
            if matches!(then, Then::Border) {
                borders.push(*code);
            }
            runs.push(Run { start, end: text.len(), skipped, then });
            skipped += *code as u64;
            whole.extend(filler(*code));
        }
        let (deflated, ends) = deflate_runs(&text, &runs);
        assert_eq!(ends.len(), borders.len());
        let mut stream = Vec::new();
        let mut start = 0;
        for (end, code) in ends.iter().zip(borders) {
            stream.extend_from_slice(&deflated[start..*end as usize]);
            start = *end as usize;
            for part in filler(code).chunks(65_535) {
                stream.push(0);
                stream.extend_from_slice(&(part.len() as u16).to_le_bytes());
                stream.extend_from_slice(&(!(part.len() as u16)).to_le_bytes());
                stream.extend_from_slice(part);
            }
        }
        assert_eq!(start, deflated.len());
        stream.extend_from_slice(&[3, 0]);
        let mut inflated = Vec::new();
        flate2::read::DeflateDecoder::new(&stream[..]).read_to_end(&mut inflated).unwrap();
        assert!(inflated == whole);
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[0-9a-f]{0,80}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..300),
            "(\"0x[01]{3}\":\\{\"balance\":\"0x0\",){0,20}".prop_map(String::into_bytes),
            Just(b"{\"nonce\":1,\"storage\":{\"0x0000000000000000000000000000000000000000000000000000000000000000\":".to_vec()),
            Just(Vec::new()),
        ]
    }

    proptest! {
        #[test]
        fn runs_inflate_to_their_text(pieces in prop::collection::vec((piece(), prop_oneof![Just(0usize), 1usize..20, 250usize..270, 510usize..530, Just(20_000usize), 30_000usize..70_000]), 0..40)) {
            round_trip(&pieces);
        }
    }

    #[test]
    fn long_runs_are_cut() {
        // A short rest behind a group's end is stored behind bits of the block before it.
        for rest in 0..6 {
            for noise in 0..9 {
                let mut text = vec![b'x'; GROUP_BYTES + rest];
                text[..noise].copy_from_slice(&b"abcdefghi"[..noise]);
                round_trip(&[(text, 5), (b"0123".to_vec(), 0)]);
            }
        }
        let line = |i: u32| {
            format!(
                "{{\"gas\":\"{:#x}\",\"to\":\"{:#042x}\"}},",
                i % 7919,
                i.wrapping_mul(2_654_435_761)
            )
        };
        let text: Vec<u8> = (0..80_000).map(line).collect::<String>().into_bytes();
        assert!(text.len() > 4 * GROUP_BYTES);
        round_trip(&[(text.clone(), 5), (text, 0)]);
        round_trip(&[(vec![0; GROUP_BYTES], 1), (vec![1; 3 * GROUP_BYTES + 1], 0)]);
    }

    #[test]
    fn symbols_follow_the_tables() {
        assert_eq!(length_symbol(3), (257, 0, 0));
        assert_eq!(length_symbol(10), (264, 0, 0));
        assert_eq!(length_symbol(11), (265, 0, 1));
        assert_eq!(length_symbol(18), (268, 1, 1));
        assert_eq!(length_symbol(257), (284, 30, 5));
        assert_eq!(length_symbol(258), (285, 0, 0));
        assert_eq!(distance_symbol(0), (0, 0, 0));
        assert_eq!(distance_symbol(4), (4, 0, 1));
        assert_eq!(distance_symbol(32_767), (29, 8191, 13));
    }
}

//! Prefix codes of deflate (RFC 1951 §3.2).

use crate::bits::BitWriter;

/// Literals, end of block and lengths.
pub(crate) const LITERALS: usize = 286;
/// Distances.
pub(crate) const DISTANCES: usize = 30;
/// Symbol that ends a block.
pub(crate) const END_OF_BLOCK: usize = 256;
/// Longest code given out. Deflate allows 15; with 12, four literals fit between two flushes of
/// the bit writer, and no code of a text like ours gains from more.
pub(crate) const MAX_CODE_BITS: u32 = 12;

/// Order in which lengths of the code length code are sent (RFC 1951 §3.2.7).
pub(crate) const LENGTH_CODE_ORDER: [usize; 19] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Code of a symbol, bits in the order they are written, and their number.
#[derive(Clone, Copy, Default)]
pub(crate) struct Code {
    pub(crate) bits: u16,
    pub(crate) len: u8,
}

/// Length-limited optimal code lengths (package-merge). Symbols that do not occur get none; at
/// least two symbols must occur, and no more than `2^limit`.
pub(crate) fn lengths(counts: &[u32], limit: u32) -> Vec<u8> {
    let mut leaves: Vec<(u64, usize)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, count)| (u64::from(*count), symbol))
        .collect();
    debug_assert!(leaves.len() >= 2 && leaves.len() <= 1 << limit);
    leaves.sort_unstable();
    // Of each level only what packages are made of is kept: a package of the level below, or a
    // symbol.
    let mut levels: Vec<Vec<(u64, Option<usize>)>> = Vec::with_capacity(limit as usize);
    for _ in 0..limit {
        let packages: Vec<u64> = levels.last().map_or_else(Vec::new, |below| {
            below.chunks_exact(2).map(|pair| pair[0].0 + pair[1].0).collect()
        });
        let mut level: Vec<_> = leaves
            .iter()
            .map(|(count, symbol)| (*count, Some(*symbol)))
            .chain(packages.into_iter().map(|weight| (weight, None)))
            .collect();
        level.sort_by_key(|(weight, _)| *weight);
        levels.push(level);
    }
    let mut lengths = vec![0; counts.len()];
    let mut take = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let mut packages = 0;
        for (_, symbol) in &level[..take] {
            match symbol {
                Some(symbol) => lengths[*symbol] += 1,
                None => packages += 1,
            }
        }
        take = 2 * packages;
    }
    lengths
}

/// Canonical codes of given lengths (RFC 1951 §3.2.2).
pub(crate) fn codes<const N: usize>(lengths: &[u8]) -> [Code; N] {
    let mut next = [0u32; 17];
    for len in lengths {
        next[usize::from(*len) + 1] += u32::from(*len > 0);
    }
    let mut first = 0;
    for slot in &mut next[1..] {
        first = (first + *slot) << 1;
        *slot = first;
    }
    // `next[len]` is now the first code of length `len`.
    let mut codes = [Code::default(); N];
    for (code, len) in codes.iter_mut().zip(lengths) {
        if *len > 0 {
            let bits = next[usize::from(*len)];
            next[usize::from(*len)] += 1;
            *code =
                Code { bits: (bits.reverse_bits() >> (32 - u32::from(*len))) as u16, len: *len };
        }
    }
    codes
}

/// The two codes of a block and the block's header.
pub(crate) struct BlockCodes {
    pub(crate) literals: [Code; LITERALS],
    pub(crate) distances: [Code; DISTANCES],
    header: Vec<u8>,
    pub(crate) header_bits: usize,
}

impl BlockCodes {
    /// The codes that every decoder knows (RFC 1951 §3.2.6).
    pub(crate) fn fixed() -> Self {
        let mut lengths = [8; 288];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        let all = codes::<288>(&lengths);
        let mut literals = [Code::default(); LITERALS];
        literals.copy_from_slice(&all[..LITERALS]);
        Self {
            literals,
            distances: codes(&[5; DISTANCES + 2][..DISTANCES]),
            header: vec![0b010],
            header_bits: 3,
        }
    }

    /// Codes made for what occurs. Every symbol counted gets a code.
    pub(crate) fn of(literals: &mut [u32; LITERALS], distances: &mut [u32; DISTANCES]) -> Self {
        literals[END_OF_BLOCK] = literals[END_OF_BLOCK].max(1);
        // A complete code needs two symbols, and decoders differ on incomplete ones.
        complete(literals);
        complete(distances);
        let literal_lengths = lengths(literals, MAX_CODE_BITS);
        let distance_lengths = lengths(distances, MAX_CODE_BITS);
        let (header, header_bits) = header(&literal_lengths, &distance_lengths);
        Self {
            literals: codes(&literal_lengths),
            distances: codes(&distance_lengths),
            header,
            header_bits,
        }
    }

    /// Starts a block that is not the last.
    pub(crate) fn write_header(&self, out: &mut BitWriter) {
        out.add_run(&self.header, self.header_bits);
    }
}

fn complete(counts: &mut [u32]) {
    let mut missing = 2usize.saturating_sub(counts.iter().filter(|count| **count > 0).count());
    for count in counts {
        if missing > 0 && *count == 0 {
            *count = 1;
            missing -= 1;
        }
    }
}

/// Header of a dynamic block (RFC 1951 §3.2.7).
fn header(literals: &[u8], distances: &[u8]) -> (Vec<u8>, usize) {
    let used = |lengths: &[u8], least: usize| {
        lengths.iter().rposition(|len| *len > 0).map_or(least, |last| (last + 1).max(least))
    };
    let (literal_count, distance_count) = (used(literals, 257), used(distances, 1));
    let all: Vec<u8> =
        literals[..literal_count].iter().chain(&distances[..distance_count]).copied().collect();
    let runs = run_lengths(&all);
    let mut counts = [0u32; 19];
    for (symbol, _, _) in &runs {
        counts[usize::from(*symbol)] += 1;
    }
    complete(&mut counts);
    let lengths = lengths(&counts, 7);
    let codes = codes::<19>(&lengths);
    let sent = LENGTH_CODE_ORDER
        .iter()
        .rposition(|symbol| lengths[*symbol] > 0)
        .map_or(4, |last| (last + 1).max(4));
    let mut out = BitWriter::new();
    out.reserve(512);
    out.add(0b100, 3);
    out.add((literal_count - 257) as u64, 5);
    out.add((distance_count - 1) as u64, 5);
    out.add((sent - 4) as u64, 4);
    for symbol in &LENGTH_CODE_ORDER[..sent] {
        out.flush();
        out.add(u64::from(lengths[*symbol]), 3);
    }
    for (symbol, extra, extra_bits) in runs {
        let code = codes[usize::from(symbol)];
        out.flush();
        out.add(u64::from(code.bits), u32::from(code.len));
        out.add(u64::from(extra), extra_bits);
    }
    out.into_bits()
}

/// Code lengths as symbols of the code length code, with value and number of extra bits.
fn run_lengths(lengths: &[u8]) -> Vec<(u8, u8, u32)> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < lengths.len() {
        let len = lengths[at];
        let mut run = lengths[at..].iter().take_while(|other| **other == len).count();
        at += run;
        if len == 0 {
            while run >= 11 {
                let now = run.min(138);
                runs.push((18, (now - 11) as u8, 7));
                run -= now;
            }
            if run >= 3 {
                runs.push((17, (run - 3) as u8, 3));
                run = 0;
            }
        } else {
            runs.push((len, 0, 0));
            run -= 1;
            while run >= 3 {
                let now = run.min(6);
                runs.push((16, (now - 3) as u8, 2));
                run -= now;
            }
        }
        runs.extend(std::iter::repeat_n((len, 0, 0), run));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Complete (Kraft's sum is one), within the limit, and no worse than the entropy allows.
        #[test]
        fn codes_are_complete_and_limited(counts in prop::collection::vec(0u32..100_000, 2..286)) {
            let mut counts = counts;
            complete(&mut counts);
            let lengths = lengths(&counts, MAX_CODE_BITS);
            let kraft: u32 = lengths.iter().filter(|l| **l > 0).map(|l| 1 << (MAX_CODE_BITS - u32::from(*l))).sum();
            prop_assert_eq!(kraft, 1 << MAX_CODE_BITS);
            for (count, len) in counts.iter().zip(&lengths) {
                prop_assert_eq!(*count > 0, *len > 0);
                prop_assert!(u32::from(*len) <= MAX_CODE_BITS);
            }
        }
    }

    #[test]
    fn the_codes_of_the_specification() {
        // RFC 1951 §3.2.2: lengths (3, 3, 3, 3, 3, 2, 4, 4).
        let codes = codes::<8>(&[3, 3, 3, 3, 3, 2, 4, 4]);
        let text: Vec<String> = codes
            .iter()
            .map(|code| {
                format!(
                    "{:0width$b}",
                    code.bits.reverse_bits() >> (16 - code.len),
                    width = code.len.into()
                )
            })
            .collect();
        assert_eq!(text, ["010", "011", "100", "101", "110", "00", "1110", "1111"]);
    }
}

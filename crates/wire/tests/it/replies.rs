//! Ropes, and replies spliced from them, against plain concatenation and other people's decoders.

use crate::sample::{Sample, rope};
use bytes::Buf;
use prestate_wire::{Body, BodyStream, Encoding, MIN_COMPRESS_BYTES, Rope, Splice};
use proptest::prelude::*;
use std::{
    io::{IoSlice, Read, Write},
    process::{Command, Stdio},
};

fn decode(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Identity => bytes.to_vec(),
        Encoding::Gzip => {
            // One member, and nothing behind it.
            let mut decoder = flate2::bufread::GzDecoder::new(bytes);
            let mut text = Vec::new();
            decoder.read_to_end(&mut text).unwrap();
            assert!(decoder.into_inner().is_empty(), "bytes behind the member");
            let mut other = vec![0; text.len()];
            libdeflater::Decompressor::new().gzip_decompress(bytes, &mut other).unwrap();
            assert!(text == other);
            text
        }
        Encoding::Zstd => zstd::decode_all(bytes).unwrap(),
    }
}

/// Writes through the buffer as a socket would, in about so many writes.
fn drain(body: Body, writes: u64) -> Vec<u8> {
    let len = body.len();
    let step = (len / writes) as usize + 1;
    let mut buf = body.into_buf();
    let mut out = Vec::new();
    while buf.has_remaining() {
        let mut slices = [IoSlice::new(&[]); 5];
        let filled = buf.chunks_vectored(&mut slices);
        assert!(filled > 0 && slices[..filled].iter().all(|slice| !slice.is_empty()));
        assert_eq!(&slices[0][..], buf.chunk());
        let mut left = step;
        for slice in &slices[..filled] {
            let now = left.min(slice.len());
            out.extend_from_slice(&slice[..now]);
            left -= now;
        }
        buf.advance(step - left);
    }
    assert!(buf.chunk().is_empty());
    assert_eq!(out.len() as u64, len);
    out
}

const ENCODINGS: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

fn splice(parts: &[(String, Sample)]) -> (Splice, Vec<u8>) {
    let (mut splice, mut text) = (Splice::new(), Vec::new());
    for (before, sample) in parts {
        splice.text(before.as_bytes());
        splice.rope(&sample.rope);
        text.extend_from_slice(before.as_bytes());
        text.extend_from_slice(&sample.text);
    }
    splice.text(b"}]");
    text.extend_from_slice(b"}]");
    (splice, text)
}

fn between() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\{\"jsonrpc\":\"2.0\",\"id\":\"[a-zé]{0,20}\",\"result\":",
        Just(format!("\"{}\"", "i".repeat(140_000))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_rope_is_its_text(sample in rope()) {
        prop_assert_eq!(sample.rope.len(), sample.text.len() as u64);
        prop_assert_eq!(sample.rope.is_empty(), sample.text.is_empty());
        prop_assert!(sample.rope.to_vec() == sample.text);
        let chunks: Vec<u8> = sample.rope.chunks().flatten().collect();
        prop_assert!(chunks == sample.text);
        prop_assert!(sample.rope.chunks().all(|chunk| !chunk.is_empty()));
        prop_assert_eq!(sample.rope.crc32(), crc32fast::hash(&sample.text));
    }

    #[test]
    fn ropes_concatenate(samples in prop::collection::vec(rope(), 0..4)) {
        samples.iter().for_each(|sample| sample.rope.prepare(Encoding::Gzip));
        let whole = Rope::concat(samples.iter().map(|sample| sample.rope.clone()));
        let text: Vec<u8> = samples.into_iter().flat_map(|sample| sample.text).collect();
        prop_assert!(whole.to_vec() == text);
        prop_assert_eq!(whole.crc32(), crc32fast::hash(&text));
    }

    #[test]
    fn replies_decode_to_their_text(
        parts in prop::collection::vec((between(), rope()), 0..4),
        writes in 1u64..300,
    ) {
        // Twice: small replies are compressed whole at first and from segments later.
        for round in 0..2 {
            for encoding in ENCODINGS {
                let (splice, text) = splice(&parts);
                let body = splice.into_body(encoding);
                prop_assert_eq!(body.text_len(), text.len() as u64);
                let compressed = text.len() as u64 >= MIN_COMPRESS_BYTES;
                let used = if compressed { encoding } else { Encoding::Identity };
                prop_assert_eq!(body.encoding(), used);
                let bytes = body.to_vec();
                prop_assert_eq!(body.len(), bytes.len() as u64);
                let chunks: Vec<u8> = body.chunks().flatten().collect();
                prop_assert!(chunks == bytes);
                prop_assert!(decode(used, &bytes) == text, "{} round {}", encoding, round);
                prop_assert!(drain(body, writes) == bytes);
            }
        }
    }

    #[test]
    fn streams_decode_as_they_come(parts in prop::collection::vec((between(), rope()), 0..4)) {
        for encoding in ENCODINGS {
            let mut stream = BodyStream::new(encoding).unwrap();
            let (mut sent, mut text) = (Vec::new(), Vec::new());
            for (before, sample) in &parts {
                sent.extend(stream.text(before.as_bytes()).unwrap().to_vec());
                sent.extend(stream.rope(&sample.rope).unwrap().to_vec());
                text.extend_from_slice(before.as_bytes());
                text.extend_from_slice(&sample.text);
                prop_assert_eq!(stream.text_len(), text.len() as u64);
                prop_assert!(decode_so_far(encoding, &sent) == text);
            }
            sent.extend(stream.finish(b"]").unwrap().to_vec());
            text.push(b']');
            prop_assert!(decode(encoding, &sent) == text);
        }
    }
}

/// What a client has of a stream that has not ended.
fn decode_so_far(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    match encoding {
        Encoding::Identity => text.extend_from_slice(bytes),
        Encoding::Gzip => {
            let mut decoder = flate2::write::GzDecoder::new(&mut text);
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
            drop(decoder);
        }
        Encoding::Zstd => {
            let mut decoder = zstd::stream::write::Decoder::new(&mut text).unwrap();
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
        }
    }
    text
}

/// Runs a command on bytes; `None` if it is not installed.
fn run(command: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let bytes = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{command:?} failed");
    Some(output.stdout)
}

#[test]
fn programs_of_others_decode_a_batch() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let parts = prop::collection::vec((between(), rope()), 3..4);
    let gzip: &[&[&str]] = &[
        &["gzip", "-dc"],
        &[
            "python3",
            "-c",
            "import sys, zlib; d = zlib.decompressobj(31); t = d.decompress(sys.stdin.buffer.read()); assert d.eof and not d.unused_data; sys.stdout.buffer.write(t)",
        ],
        &[
            "node",
            "-e",
            "process.stdout.write(require('zlib').gunzipSync(require('fs').readFileSync(0)))",
        ],
    ];
    let zstd: &[&[&str]] = &[&["zstd", "-dc"]];
    for _ in 0..4 {
        let parts = parts.new_tree(&mut runner).unwrap().current();
        for (encoding, commands) in [(Encoding::Gzip, gzip), (Encoding::Zstd, zstd)] {
            parts.iter().for_each(|(_, sample)| sample.rope.prepare(encoding));
            let (splice, text) = splice(&parts);
            if (text.len() as u64) < MIN_COMPRESS_BYTES {
                continue;
            }
            let bytes = splice.into_body(encoding).to_vec();
            for command in commands {
                match run(command, &bytes) {
                    Some(decoded) => assert!(decoded == text, "{command:?}"),
                    None => eprintln!("{} is not installed", command[0]),
                }
            }
        }
    }
}

#[test]
fn memory_is_counted_once() {
    use alloy_primitives::{Bytes, keccak256};
    use prestate_wire::{CodeTable, RopeBuilder};
    let table = CodeTable::new();
    let code = Bytes::from(crate::sample::code(2));
    let hash = keccak256(&code);
    let rope = |times: usize| {
        let mut out = RopeBuilder::new();
        for _ in 0..times {
            out.push(b"{\"code\":\"");
            out.push_code(table.intern(&hash, &code));
        }
        out.finish()
    };
    let (one, hundred) = (rope(1), rope(100));
    assert_eq!(hundred.codes().count(), 1);
    let segment = hundred.codes().next().unwrap().clone();
    assert!(std::sync::Arc::ptr_eq(&segment, one.codes().next().unwrap()));
    let text = segment.text().len() as u64;
    assert!(segment.memory_bytes() >= text && segment.memory_bytes() < text + 200);
    assert!(hundred.owned_bytes() < 10_000, "{}", hundred.owned_bytes());
    assert!(hundred.len() > 100 * text);
    let before = hundred.owned_bytes() + segment.memory_bytes();
    hundred.prepare(Encoding::Gzip);
    let fast = segment.memory_bytes();
    assert!(fast > text + 1000);
    assert!(hundred.owned_bytes() + fast > before);
    // The fast form stays counted while a rope holds it.
    one.prepare(Encoding::Gzip);
    assert_eq!((table.improve(10), table.improve(10)), (1, 0));
    assert!(segment.memory_bytes() > fast + 1000);
    drop((one, hundred));
    assert!(segment.memory_bytes() < fast);
    // A text not asked for between two calls goes, and comes back.
    let expected = segment.text();
    assert_eq!((table.release_texts(), table.release_texts()), (0, text));
    assert!(segment.memory_bytes() < fast - text);
    assert_eq!(segment.text(), expected);
    assert!(segment.memory_bytes() > text);
    assert_eq!(table.usage(), (1, segment.memory_bytes()));
    drop((segment, expected));
    assert_eq!(table.usage(), (0, 0));
    assert!(table.get(&hash).is_none());
}

/// Parts already compressed stay as they are when a stream's ropes become one.
#[test]
fn large_parts_are_shared() {
    let large = Rope::from("0123456789abcdef,".repeat(50_000));
    large.prepare(Encoding::Gzip);
    let held = large.owned_bytes();
    let whole = Rope::concat([Rope::from("["), large.clone(), Rope::from("]")]);
    assert!(whole.owned_bytes() > held, "{} {held}", whole.owned_bytes());
    let address = |rope: &Rope, at: usize| rope.chunks().nth(at).unwrap().as_ptr();
    assert_eq!(address(&whole, 1), address(&large, 0));
}

#[test]
fn threads_share_one_segment() {
    use alloy_primitives::keccak256;
    use prestate_wire::CodeTable;
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let table = CodeTable::new();
    let (code, rope) = (crate::sample::code(1), Rope::from("0123456789".repeat(1000)));
    is_shared(&rope);
    let hash = keccak256(&code);
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let segment = table.intern(&hash, &code);
                    (segment, rope.crc32(), {
                        let mut splice = Splice::new();
                        splice.rope(&rope);
                        splice.into_body(Encoding::Gzip).to_vec()
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(table.usage().0, 1);
    for (segment, crc, body) in &all {
        assert!(std::sync::Arc::ptr_eq(segment, &all[0].0));
        assert_eq!(*crc, rope.crc32());
        assert!(decode(Encoding::Gzip, body) == rope.to_vec());
    }
}

/// A long text written in small pieces is kept in parts, none of which is moved as it grows.
#[test]
fn long_texts_are_kept_in_parts() {
    let mut out = prestate_wire::RopeBuilder::new();
    let mut text = Vec::new();
    for line in 0..100_000u32 {
        let line = format!(
            "{{\"gas\":\"{line:#x}\",\"to\":\"{:#042x}\"}},",
            line.wrapping_mul(2_654_435_761)
        );
        out.push(&line);
        text.extend_from_slice(line.as_bytes());
    }
    let rope = out.finish();
    assert!(rope.chunks().all(|chunk| chunk.len() < 300_000));
    assert!(rope.to_vec() == text);
    assert!(rope.owned_bytes() < text.len() as u64 + 10_000);
    rope.prepare(Encoding::Gzip);
    let mut splice = Splice::new();
    splice.rope(&rope);
    let body = splice.into_body(Encoding::Gzip).to_vec();
    assert!(decode(Encoding::Gzip, &body) == text);
    assert!(body.len() < text.len() / 2, "{} of {}", body.len(), text.len());
}

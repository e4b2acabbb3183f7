use crate::{
    Body, Encoding, MIN_COMPRESS_BYTES, Rope,
    body::Part,
    crc::Crc,
    deflate::{GZIP_HEADER, gzip_once, push_gzip_trailer, push_stored},
    zstd::{push_frame_header, push_raw},
};
use bytes::Bytes;

/// Texts up to this size are compressed whole by libdeflate the first time they are sent, which
/// costs little and gives the smallest body; cached forms are made when they are sent again.
const ONE_SHOT_BYTES: u64 = 64 * 1024;

/// A reply put together from bytes made for the caller and ropes made once.
///
/// The bytes around, such as the head of a JSON-RPC reply with the caller's id, are never
/// compressed: they go into stored blocks between the ropes' own, so that a hit in the cache does
/// no work that grows with its size.
///
/// ```
/// use prestate_wire::{Encoding, Rope, Splice};
///
/// let result = Rope::from("\"0x1\"".to_owned());
/// let mut splice = Splice::new();
/// splice.text(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":");
/// splice.rope(&result);
/// splice.text(b"}");
/// let body = splice.into_body(Encoding::Gzip);
/// assert_eq!(body.encoding(), Encoding::Identity); // too small to compress
/// assert_eq!(body.to_vec(), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1\"}");
/// ```
#[derive(Debug, Default)]
pub struct Splice {
    /// Each rope with the text before it.
    ropes: Vec<(Vec<u8>, Rope)>,
    /// Text after the last rope.
    tail: Vec<u8>,
    text_len: u64,
}

impl Splice {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends text of this reply alone.
    pub fn text(&mut self, text: &[u8]) {
        self.tail.extend_from_slice(text);
        self.text_len += text.len() as u64;
    }

    /// Appends a rope.
    pub fn rope(&mut self, rope: &Rope) {
        self.ropes.push((std::mem::take(&mut self.tail), rope.clone()));
        self.text_len += rope.len();
    }

    /// Length of the text so far, before coding.
    pub fn text_len(&self) -> u64 {
        self.text_len
    }

    /// The body. A text shorter than [`MIN_COMPRESS_BYTES`] is not compressed, whatever was asked
    /// for: see [`Body::encoding`]. Compressed forms that the ropes lack are made now and kept.
    pub fn into_body(self, encoding: Encoding) -> Body {
        let text_len = self.text_len;
        let encoding = if text_len < MIN_COMPRESS_BYTES { Encoding::Identity } else { encoding };
        let parts = match encoding {
            Encoding::Identity => self.identity(),
            Encoding::Gzip if self.is_one_shot() => vec![Part::Bytes(self.gzip_whole().into())],
            Encoding::Gzip => self.gzip(),
            Encoding::Zstd => self.zstd(),
        };
        Body::new(parts, text_len, encoding)
    }

    fn identity(self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(2 * self.ropes.len() + 1);
        for (before, rope) in self.ropes {
            push_bytes(&mut parts, before);
            parts.extend(rope.leaves().iter().cloned().map(Part::text));
        }
        push_bytes(&mut parts, self.tail);
        parts
    }

    /// Small, and none of the ropes sent before.
    fn is_one_shot(&self) -> bool {
        self.text_len <= ONE_SHOT_BYTES
            && self.ropes.iter().fold(true, |all, (_, rope)| rope.is_first_use() && all)
    }

    fn gzip_whole(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text_len as usize);
        for (before, rope) in &self.ropes {
            text.extend_from_slice(before);
            rope.append_to(&mut text);
        }
        text.extend_from_slice(&self.tail);
        gzip_once(&text)
    }

    fn gzip(self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(2 * self.ropes.len() + 1);
        let mut frame = GZIP_HEADER.to_vec();
        let mut crc = Crc::EMPTY;
        for (before, rope) in self.ropes {
            push_stored(&mut frame, &before, false);
            crc = crc.then(Crc::of(&before)).then(rope.crc());
            push_bytes(&mut parts, std::mem::take(&mut frame));
            match rope.joined() {
                Some(joined) => parts.push(Part::Bytes(joined)),
                None => parts.extend(rope.leaves().iter().cloned().map(Part::Deflated)),
            }
        }
        push_stored(&mut frame, &self.tail, true);
        push_gzip_trailer(&mut frame, crc.then(Crc::of(&self.tail)), self.text_len);
        push_bytes(&mut parts, frame);
        parts
    }

    fn zstd(self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(2 * self.ropes.len() + 1);
        let mut frame = Vec::new();
        let last = self.ropes.len().saturating_sub(1);
        if self.ropes.is_empty() {
            push_frame_header(&mut frame, self.text_len);
        }
        for (at, (before, rope)) in self.ropes.into_iter().enumerate() {
            // Blocks of a frame lean on the repeat offsets that the blocks before them left
            // (RFC 8878 §3.1.1.5), and blocks of another rope leave others than those assumed. So
            // every rope is in a frame of its own, behind raw blocks only, which leave none.
            let behind = if at == last { self.tail.len() } else { 0 };
            push_frame_header(&mut frame, before.len() as u64 + rope.len() + behind as u64);
            push_raw(&mut frame, &before, false);
            push_bytes(&mut parts, std::mem::take(&mut frame));
            parts.push(Part::Bytes(rope.zstd_blocks()));
            if at != last {
                push_raw(&mut frame, &[], true);
            }
        }
        push_raw(&mut frame, &self.tail, true);
        push_bytes(&mut parts, frame);
        parts
    }
}

fn push_bytes(parts: &mut Vec<Part>, bytes: Vec<u8>) {
    if !bytes.is_empty() {
        parts.push(Part::Bytes(Bytes::from(bytes)));
    }
}

/// A reply of a head, ropes with separators, and a tail: `separator` stands between two ropes.
pub fn splice(
    head: &[u8],
    ropes: &[Rope],
    separator: &[u8],
    tail: &[u8],
    encoding: Encoding,
) -> Body {
    let mut splice = Splice::new();
    splice.text(head);
    for (at, rope) in ropes.iter().enumerate() {
        if at > 0 {
            splice.text(separator);
        }
        splice.rope(rope);
    }
    splice.text(tail);
    splice.into_body(encoding)
}

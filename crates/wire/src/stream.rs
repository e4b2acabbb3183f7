use crate::{
    Body, Encoding, Rope,
    body::Part,
    crc::Crc,
    deflate::{GZIP_HEADER, push_gzip_trailer, push_stored},
};
use std::{
    fmt,
    io::{self, Write},
};
use zstd::stream::write::Encoder;

/// A body of unknown length, coded as its text comes.
///
/// Every call gives bytes from which a client can decode all text given so far. In gzip the
/// ropes' own segments are used, and kept by the ropes.
///
/// ```
/// use prestate_wire::{BodyStream, Encoding, Rope};
///
/// let mut stream = BodyStream::new(Encoding::Gzip)?;
/// let mut sent = stream.text(b"[")?.to_vec();
/// sent.extend(stream.rope(&Rope::from("{}".to_owned()))?.to_vec());
/// sent.extend(stream.finish(b"]")?.to_vec());
/// # use std::io::Read;
/// let mut text = String::new();
/// flate2::read::GzDecoder::new(&sent[..]).read_to_string(&mut text)?;
/// assert_eq!(text, "[{}]");
/// # std::io::Result::Ok(())
/// ```
pub struct BodyStream {
    coder: Coder,
    /// Text so far.
    text_len: u64,
}

enum Coder {
    Identity,
    Gzip {
        crc: Crc,
        /// Whether the header is out.
        started: bool,
    },
    Zstd(Box<Encoder<'static, Vec<u8>>>),
}

impl BodyStream {
    /// A stream in this encoding. In zstd it holds the window, 8 MB, until it ends.
    ///
    /// # Errors
    /// zstd has no memory for its window.
    pub fn new(encoding: Encoding) -> io::Result<Self> {
        let coder = match encoding {
            Encoding::Identity => Coder::Identity,
            Encoding::Gzip => Coder::Gzip { crc: Crc::EMPTY, started: false },
            Encoding::Zstd => Coder::Zstd(Box::new(crate::zstd::encoder(None)?)),
        };
        Ok(Self { coder, text_len: 0 })
    }

    /// How the bytes are coded.
    pub fn encoding(&self) -> Encoding {
        match self.coder {
            Coder::Identity => Encoding::Identity,
            Coder::Gzip { .. } => Encoding::Gzip,
            Coder::Zstd(_) => Encoding::Zstd,
        }
    }

    /// Length of the text so far, before coding.
    pub fn text_len(&self) -> u64 {
        self.text_len
    }

    /// Appends text, which gzip stores as it is: for what stands around the ropes.
    ///
    /// # Errors
    /// zstd failed; the stream has to be broken off.
    pub fn text(&mut self, text: &[u8]) -> io::Result<Body> {
        let bytes = match &mut self.coder {
            Coder::Identity => text.to_vec(),
            Coder::Gzip { crc, started } => {
                let mut frame = gzip_start(started);
                push_stored(&mut frame, text, false);
                *crc = crc.then(Crc::of(text));
                frame
            }
            Coder::Zstd(encoder) => {
                encoder.write_all(text)?;
                encoder.flush()?;
                std::mem::take(encoder.get_mut())
            }
        };
        self.text_len += text.len() as u64;
        Ok(self.body(vec![Part::Bytes(bytes.into())], text.len() as u64))
    }

    /// Appends a rope.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn rope(&mut self, rope: &Rope) -> io::Result<Body> {
        let leaves = || rope.leaves().iter().cloned();
        let parts = match &mut self.coder {
            Coder::Identity => leaves().map(Part::text).collect(),
            Coder::Gzip { crc, started } => {
                let frame = gzip_start(started);
                *crc = crc.then(rope.crc());
                let start = (!frame.is_empty()).then(|| Part::Bytes(frame.into()));
                start.into_iter().chain(leaves().map(Part::Deflated)).collect()
            }
            Coder::Zstd(encoder) => {
                for chunk in rope.chunks() {
                    encoder.write_all(&chunk)?;
                }
                encoder.flush()?;
                vec![Part::Bytes(std::mem::take(encoder.get_mut()).into())]
            }
        };
        self.text_len += rope.len();
        Ok(self.body(parts, rope.len()))
    }

    /// Appends the last text and ends the stream.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn finish(mut self, text: &[u8]) -> io::Result<Body> {
        let text_len = self.text_len + text.len() as u64;
        let encoding = self.encoding();
        let bytes = match &mut self.coder {
            Coder::Identity => text.to_vec(),
            Coder::Gzip { crc, started } => {
                let mut frame = gzip_start(started);
                push_stored(&mut frame, text, true);
                push_gzip_trailer(&mut frame, crc.then(Crc::of(text)), text_len);
                frame
            }
            Coder::Zstd(encoder) => {
                encoder.write_all(text)?;
                encoder.do_finish()?;
                std::mem::take(encoder.get_mut())
            }
        };
        Ok(Body::new(vec![Part::Bytes(bytes.into())], text.len() as u64, encoding))
    }

    fn body(&self, parts: Vec<Part>, text_len: u64) -> Body {
        Body::new(parts, text_len, self.encoding())
    }
}

/// The gzip header, once.
fn gzip_start(started: &mut bool) -> Vec<u8> {
    if std::mem::replace(started, true) { Vec::new() } else { GZIP_HEADER.to_vec() }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyStream")
            .field("encoding", &self.encoding())
            .field("text_len", &self.text_len)
            .finish()
    }
}

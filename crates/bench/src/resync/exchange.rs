use crate::outcome::Failure;
use std::{
    fmt,
    io::Read,
    time::{Duration, Instant},
};

/// What a reply is asked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// As it is.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Identity, Self::Gzip, Self::Zstd];

    /// As in `Accept-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A reply as it came over the wire.
#[derive(Debug)]
pub(super) struct Exchange {
    /// From the first byte sent to the head of the reply.
    pub(super) first_byte: Duration,
    /// From there to the last byte of the body.
    pub(super) transfer: Duration,
    /// `Content-Encoding`, as the server names it.
    pub(super) coding: Option<String>,
    /// The body, as it came.
    pub(super) body: Vec<u8>,
}

/// Where the time of one reply went, and what it weighed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// From the first byte sent to the head of the reply.
    pub first_byte: Duration,
    /// From there to the last byte of the body.
    pub transfer: Duration,
    /// Taking the encoding off.
    pub decompress: Duration,
    /// Reading the JSON into values of slots.
    pub parse: Duration,
    /// Bytes of the body on the wire.
    pub wire_bytes: u64,
    /// Bytes of JSON.
    pub plain_bytes: u64,
}

impl Timed {
    /// From the first byte sent to values in hand.
    pub fn ready(&self) -> Duration {
        self.received() + self.decompress + self.parse
    }

    /// From the first byte sent to the last one received.
    pub fn received(&self) -> Duration {
        self.first_byte + self.transfer
    }
}

impl Exchange {
    /// Takes the encoding off and reads the text.
    pub(super) fn read<T>(
        self,
        parse: impl FnOnce(&[u8]) -> Result<T, Failure>,
    ) -> Result<(Timed, T), Failure> {
        let started = Instant::now();
        let wire_bytes = self.body.len() as u64;
        let text = decode(self.coding.as_deref(), self.body)?;
        let decompress = started.elapsed();
        let read = parse(&text)?;
        let timed = Timed {
            first_byte: self.first_byte,
            transfer: self.transfer,
            decompress,
            parse: started.elapsed() - decompress,
            wire_bytes,
            plain_bytes: text.len() as u64,
        };
        Ok((timed, read))
    }
}

fn decode(coding: Option<&str>, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::with_capacity(body.len() * 5);
    let decoded = match coding {
        None | Some("" | "identity") => return Ok(body),
        Some("gzip" | "x-gzip") => {
            flate2::read::MultiGzDecoder::new(&body[..]).read_to_end(&mut text)
        }
        Some("zstd") => zstd::stream::copy_decode(&body[..], &mut text).map(|()| text.len()),
        Some(_) => return Err(Failure::Json),
    };
    decoded.map(|_| text).map_err(|_| Failure::Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(coding: Option<&str>, body: Vec<u8>) -> Exchange {
        let time = Duration::from_millis(1);
        Exchange { first_byte: time, transfer: time, coding: coding.map(str::to_owned), body }
    }

    #[test]
    fn encodings_are_taken_off_or_refused() {
        let text = b"[1, 2, 3]".repeat(100);
        let mut gzip = flate2::read::GzEncoder::new(&text[..], flate2::Compression::fast());
        let mut gzipped = Vec::new();
        gzip.read_to_end(&mut gzipped).unwrap();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for (coding, body) in
            [(None, text.clone()), (Some("gzip"), gzipped.clone()), (Some("zstd"), zstd)]
        {
            let wire = body.len() as u64;
            let (timed, read) = exchange(coding, body).read(|read| Ok(read.to_vec())).unwrap();
            assert_eq!(read, text);
            assert_eq!((timed.wire_bytes, timed.plain_bytes), (wire, text.len() as u64));
            assert_eq!(timed.ready(), timed.received() + timed.decompress + timed.parse);
        }
        for (coding, body) in
            [("br", text), ("zstd", gzipped.clone()), ("gzip", gzipped[..20].to_vec())]
        {
            let read = exchange(Some(coding), body).read(|_| Ok(()));
            assert_eq!(read.unwrap_err(), Failure::Json, "{coding}");
        }
    }
}

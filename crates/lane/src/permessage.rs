//! permessage-deflate (RFC 7692): what is agreed on, requests in, results out.
//!
//! Messages never lean on earlier ones ("no context takeover", both ways): so the segments that
//! serve gzip bodies serve here too, and a socket holds no window while it is quiet.

use crate::coding::Part;
use bytes::{Buf, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use prestate_wire::{BodyBuf, BodyStream, Encoding};
use std::io;

/// Ends every message and is not sent (§7.2.1): the rest of an empty stored block.
const TAIL: [u8; 4] = [0x00, 0x00, 0xff, 0xff];
/// What of that block is sent: its header bits, byte-aligned.
pub(crate) const END: u8 = 0x00;
/// The header of a gzip member without fields (RFC 1952 §2.3).
const GZIP_HEADER_BYTES: usize = 10;
/// Grown by when inflating.
const STEP_BYTES: usize = 16 * 1024;

/// The answer to `Sec-WebSocket-Extensions`, if one of the offers can be met.
pub(crate) fn agree<'a>(offers: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    offers.into_iter().flat_map(|header| header.split(',')).find_map(accept)
}

fn accept(offer: &str) -> Option<&'static str> {
    let mut parts = offer.split(';').map(str::trim);
    if parts.next() != Some("permessage-deflate") {
        return None;
    }
    let mut seen = Vec::new();
    let mut answer = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
            None => (part, None),
        };
        // An offer with a parameter that is unknown, repeated or malformed is declined (§7.1).
        if seen.contains(&name) {
            return None;
        }
        seen.push(name);
        match (name, value) {
            ("server_no_context_takeover" | "client_no_context_takeover", None)
            | (
                "client_max_window_bits",
                None | Some("8" | "9" | "10" | "11" | "12" | "13" | "14" | "15"),
            ) => {}
            // The segments are made once, with the full window.
            ("server_max_window_bits", Some("15")) => {
                answer = "permessage-deflate; server_no_context_takeover; \
                          client_no_context_takeover; server_max_window_bits=15";
            }
            _ => return None,
        }
    }
    Some(answer)
}

/// Why a message is not inflated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InflateError {
    TooLarge,
    Corrupt,
}

/// A message of at most `limit` bytes.
pub(crate) fn inflate(deflated: &[u8], limit: usize) -> Result<BytesMut, InflateError> {
    let mut decoder = Decompress::new(false);
    let mut text = Vec::new();
    for part in [deflated, &TAIL] {
        let before = decoder.total_in();
        loop {
            let used = (decoder.total_in() - before) as usize;
            text.reserve(STEP_BYTES);
            let (len, room) = (text.len(), text.capacity());
            let status = decoder
                .decompress_vec(&part[used..], &mut text, FlushDecompress::Sync)
                .map_err(|_| InflateError::Corrupt)?;
            if text.len() > limit {
                return Err(InflateError::TooLarge);
            }
            let used_now = (decoder.total_in() - before) as usize > used;
            match status {
                // A final block may end a message too (§7.2.3.4).
                Status::StreamEnd => return Ok(text[..].into()),
                // All is read, and what came of it is out.
                _ if decoder.total_in() - before == part.len() as u64 && text.len() < room => break,
                _ if !used_now && text.len() == len => return Err(InflateError::Corrupt),
                _ => {}
            }
        }
    }
    Ok(text[..].into())
}

/// Makes the payload of one compressed message.
#[derive(Debug)]
pub(crate) struct Deflater {
    stream: BodyStream,
    begun: bool,
}

impl Deflater {
    pub(crate) fn new() -> io::Result<Self> {
        // A gzip stream without its header, which comes first, and its trailer, which comes with
        // a `finish` that is never called: what is left is deflate, byte-aligned after each part.
        Ok(Self { stream: BodyStream::new(Encoding::Gzip)?, begun: false })
    }

    /// The next part. What is given so far can be decoded by the other side.
    pub(crate) fn push(&mut self, part: &Part) -> io::Result<BodyBuf> {
        let body = match part {
            Part::Text(text) => self.stream.text(text)?,
            Part::Rope(rope) => self.stream.rope(rope)?,
        };
        let mut payload = body.into_buf();
        if !std::mem::replace(&mut self.begun, true) {
            payload.advance(GZIP_HEADER_BYTES);
        }
        Ok(payload)
    }
}

/// A whole message: its parts, behind which [`END`] has to come.
pub(crate) fn deflate(parts: &[Part]) -> io::Result<Vec<BodyBuf>> {
    let mut deflater = Deflater::new()?;
    parts.iter().map(|part| deflater.push(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prestate_wire::Rope;
    use proptest::prelude::*;

    #[test]
    fn offers_are_met_where_they_can_be() {
        let plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let bits = format!("{plain}; server_max_window_bits=15");
        for (offers, answer) in [
            (&["permessage-deflate"][..], Some(plain)),
            (&["permessage-deflate; client_max_window_bits"], Some(plain)),
            (&["permessage-deflate; client_max_window_bits=10"], Some(plain)),
            (
                &["permessage-deflate;server_no_context_takeover;client_no_context_takeover"],
                Some(plain),
            ),
            (&["permessage-deflate; server_max_window_bits=15"], Some(bits.as_str())),
            (&["permessage-deflate; server_max_window_bits=\"15\""], Some(bits.as_str())),
            // The first that can be met.
            (&["permessage-deflate; server_max_window_bits=10, permessage-deflate"], Some(plain)),
            (&["x-other", "permessage-deflate"], Some(plain)),
            (&[], None),
            (&["permessage-deflate; server_max_window_bits=10"], None),
            (&["permessage-deflate; server_max_window_bits"], None),
            (&["permessage-deflate; client_max_window_bits=16"], None),
            (&["permessage-deflate; client_max_window_bits=08"], None),
            (&["permessage-deflate; unknown"], None),
            (&["permessage-deflate; client_max_window_bits; client_max_window_bits"], None),
            (&["permessage-bzip2"], None),
        ] {
            assert_eq!(agree(offers.iter().copied()), answer, "{offers:?}");
        }
    }

    /// Examples of RFC 7692 §7.2.3.
    #[test]
    fn examples_of_the_rfc_inflate() {
        for deflated in [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            // A stored block, a final block, two blocks.
            &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
        ] {
            assert_eq!(inflate(deflated, 5).unwrap(), &b"Hello"[..]);
            assert_eq!(inflate(deflated, 4), Err(InflateError::TooLarge));
        }
        assert_eq!(inflate(&[0x00], 5).unwrap(), &b""[..]);
        assert_eq!(inflate(&[0xff, 0xff], 5), Err(InflateError::Corrupt));
    }

    /// Fifty megabytes in fifty kilobytes stop at the limit.
    #[test]
    fn bombs_do_not_go_off() {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &vec![b' '; 50_000_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 60_000);
        assert_eq!(inflate(&bomb, 1_000_000), Err(InflateError::TooLarge));
    }

    fn deflated(parts: &[Part]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for mut part in deflate(parts).unwrap() {
            while part.has_remaining() {
                bytes.extend_from_slice(part.chunk());
                part.advance(part.chunk().len());
            }
        }
        bytes.push(END);
        bytes
    }

    proptest! {
        /// What is sent inflates to what was meant, by our own reader and by the one sent from
        /// the other side.
        #[test]
        fn messages_inflate_to_their_text(
            texts in proptest::collection::vec((any::<bool>(), "[a-f0-9]{0,9}([a-z]{0,40}){0,90}"), 1..6)
        ) {
            let whole: String = texts.iter().map(|(_, text)| text.as_str()).collect();
            let parts: Vec<_> = texts
                .into_iter()
                .map(|(rope, text)| {
                    if rope { Part::Rope(Rope::from(text)) } else { Part::text(text) }
                })
                .collect();
            prop_assert_eq!(inflate(&deflated(&parts), whole.len()).unwrap(), whole.as_bytes());
        }
    }
}

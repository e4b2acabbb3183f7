//! WebSocket frames (RFC 6455 §5), server side: read with bounds, written without copying.

use crate::permessage;
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest header: two bytes, eight of length, four of mask.
const MAX_HEADER_BYTES: usize = 14;
/// Longest payload of a control frame (§5.5).
const MAX_CONTROL_BYTES: usize = 125;
/// Read from the socket at a time.
const READ_BYTES: usize = 16 * 1024;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

const FINAL: u8 = 0x80;
/// "Per-message compressed" (RFC 7692 §6).
const RSV1: u8 = 0x40;
const RSV2_3: u8 = 0x30;
const MASKED: u8 = 0x80;

/// Why a socket is closed (§7.4.1, and 1011 as registered).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCode {
    Normal = 1000,
    Away = 1001,
    Protocol = 1002,
    Invalid = 1007,
    Policy = 1008,
    Size = 1009,
    Error = 1011,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A whole message, decompressed.
    Message(Bytes),
    Ping(Bytes),
    Pong,
    Close,
}

/// Why no more can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The other side is gone.
    Gone,
    /// The other side is at fault.
    Close(CloseCode, &'static str),
}

const fn protocol(text: &'static str) -> Fault {
    Fault::Close(CloseCode::Protocol, text)
}

const TOO_LARGE: Fault = Fault::Close(CloseCode::Size, "message too large");

/// A message of which more frames are to come.
#[derive(Debug)]
struct Partial {
    text: bool,
    compressed: bool,
    bytes: BytesMut,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    partial: Option<Partial>,
    /// Bytes of a message, before and after decompression.
    limit: usize,
    /// Whether permessage-deflate was agreed on.
    deflate: bool,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    last: bool,
    compressed: bool,
    kind: u8,
    mask: [u8; 4],
    header_len: usize,
    len: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(io: R, limit: usize, deflate: bool) -> Self {
        Self { io, buffer: BytesMut::new(), partial: None, limit, deflate }
    }

    /// The next event. May be dropped and called again: nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<Event, Fault> {
        loop {
            match self.header()? {
                Some(header) if self.buffer.len() >= header.header_len + header.len => {
                    self.buffer.advance(header.header_len);
                    let mut payload = self.buffer.split_to(header.len);
                    unmask(&mut payload, header.mask);
                    if let Some(event) = self.take(header, payload)? {
                        return Ok(event);
                    }
                    continue;
                }
                Some(header) => {
                    let missing = header.header_len + header.len - self.buffer.len();
                    self.buffer.reserve(missing.min(READ_BYTES));
                }
                None => self.buffer.reserve(READ_BYTES),
            }
            match self.io.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(Fault::Gone),
                Ok(_) => {}
            }
        }
    }

    /// Reads on after our close, until the other side closes or is gone.
    pub(crate) async fn drain(&mut self) {
        loop {
            match self.next().await {
                Ok(Event::Close) | Err(Fault::Gone) => return,
                Ok(_) => {}
                // It makes no sense any more.
                Err(Fault::Close(..)) => break,
            }
        }
        loop {
            self.buffer.clear();
            self.buffer.reserve(READ_BYTES);
            if !matches!(self.io.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
        }
    }

    /// The header at the front of the buffer, if it is all there. Refuses what may not come
    /// before any of its payload is kept.
    fn header(&self) -> Result<Option<Header>, Fault> {
        let [first, second, ..] = self.buffer[..] else { return Ok(None) };
        let (last, kind) = (first & FINAL != 0, first & 0x0f);
        let compressed = first & RSV1 != 0;
        if first & RSV2_3 != 0 || (compressed && !self.deflate) {
            return Err(protocol("reserved bits set"));
        }
        if second & MASKED == 0 {
            return Err(protocol("frame is not masked"));
        }
        let (len, len_end) = match second & 0x7f {
            126 => match self.buffer.get(2..4) {
                Some(bytes) => (bytes.iter().fold(0, |len, &b| len << 8 | u64::from(b)), 4),
                None => return Ok(None),
            },
            127 => match self.buffer.get(2..10) {
                Some(bytes) => (bytes.iter().fold(0, |len, &b| len << 8 | u64::from(b)), 10),
                None => return Ok(None),
            },
            len => (u64::from(len), 2),
        };
        match kind {
            CLOSE | PING | PONG => {
                if !last || compressed || len > MAX_CONTROL_BYTES as u64 {
                    return Err(protocol("malformed control frame"));
                }
            }
            TEXT | BINARY if self.partial.is_some() => {
                return Err(protocol("message within a message"));
            }
            CONTINUATION if self.partial.is_none() || compressed => {
                return Err(protocol("continuation of nothing"));
            }
            TEXT | BINARY | CONTINUATION => {}
            _ => return Err(protocol("unknown kind of frame")),
        }
        let held = self.partial.as_ref().map_or(0, |partial| partial.bytes.len());
        let len = usize::try_from(len).map_err(|_| TOO_LARGE)?;
        if kind < CLOSE && len > self.limit - held {
            return Err(TOO_LARGE);
        }
        let Some(&[a, b, c, d]) = self.buffer.get(len_end..len_end + 4) else { return Ok(None) };
        debug_assert!(len_end + 4 <= MAX_HEADER_BYTES);
        Ok(Some(Header {
            last,
            compressed,
            kind,
            mask: [a, b, c, d],
            header_len: len_end + 4,
            len,
        }))
    }

    fn take(&mut self, header: Header, payload: BytesMut) -> Result<Option<Event>, Fault> {
        match header.kind {
            CLOSE => return Ok(Some(Event::Close)),
            PING => return Ok(Some(Event::Ping(payload.freeze()))),
            PONG => return Ok(Some(Event::Pong)),
            _ => {}
        }
        let mut message = match self.partial.take() {
            Some(mut partial) => {
                partial.bytes.unsplit(payload);
                partial
            }
            None => {
                Partial { text: header.kind == TEXT, compressed: header.compressed, bytes: payload }
            }
        };
        if !header.last {
            self.partial = Some(message);
            return Ok(None);
        }
        if message.compressed {
            message.bytes =
                permessage::inflate(&message.bytes, self.limit).map_err(|fault| match fault {
                    permessage::InflateError::TooLarge => TOO_LARGE,
                    permessage::InflateError::Corrupt => {
                        Fault::Close(CloseCode::Invalid, "deflate is corrupt")
                    }
                })?;
        }
        if message.text && std::str::from_utf8(&message.bytes).is_err() {
            return Err(Fault::Close(CloseCode::Invalid, "text is not UTF-8"));
        }
        Ok(Some(Event::Message(message.bytes.freeze())))
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    for four in payload.chunks_mut(4) {
        for (byte, mask) in four.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

/// How a data frame stands in its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) first: bool,
    pub(crate) last: bool,
    /// The message is compressed.
    pub(crate) compressed: bool,
}

/// Writes frames.
#[derive(Debug)]
pub(crate) struct FrameWriter<W> {
    io: W,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(crate) fn new(io: W) -> Self {
        Self { io }
    }

    /// Begins a frame of text; `len` bytes of payload have to follow.
    pub(crate) async fn begin(&mut self, place: Place, len: usize) -> io::Result<()> {
        let mut first = if place.first { TEXT } else { CONTINUATION };
        if place.last {
            first |= FINAL;
        }
        if place.first && place.compressed {
            first |= RSV1;
        }
        self.header(first, len).await
    }

    /// Some of the payload, written as it lies.
    pub(crate) async fn payload(&mut self, mut bytes: impl Buf) -> io::Result<()> {
        self.io.write_all_buf(&mut bytes).await
    }

    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.io.flush().await
    }

    async fn header(&mut self, first: u8, len: usize) -> io::Result<()> {
        let mut header = [first, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let header_len = match len {
            0..126 => {
                header[1] = len as u8;
                2
            }
            126..65536 => {
                header[1] = 126;
                header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                4
            }
            _ => {
                header[1] = 127;
                header[2..10].copy_from_slice(&(len as u64).to_be_bytes());
                10
            }
        };
        self.io.write_all(&header[..header_len]).await
    }

    async fn control(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        debug_assert!(payload.len() <= MAX_CONTROL_BYTES);
        self.header(FINAL | kind, payload.len()).await?;
        self.io.write_all(payload).await?;
        self.io.flush().await
    }

    pub(crate) async fn ping(&mut self) -> io::Result<()> {
        self.control(PING, &[]).await
    }

    pub(crate) async fn pong(&mut self, payload: &[u8]) -> io::Result<()> {
        self.control(PONG, payload).await
    }

    pub(crate) async fn close(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        let mut payload = (code as u16).to_be_bytes().to_vec();
        payload.extend_from_slice(reason.as_bytes());
        self.control(CLOSE, &payload).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            len @ 0..126 => frame.push(MASKED | len as u8),
            len @ 126..65536 => {
                frame.push(MASKED | 126);
                frame.extend_from_slice(&(len as u16).to_be_bytes());
            }
            len => {
                frame.push(MASKED | 127);
                frame.extend_from_slice(&(len as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        let mut payload = payload.to_vec();
        unmask(&mut payload, mask);
        frame.extend_from_slice(&payload);
        frame
    }

    async fn events(bytes: &[u8], limit: usize, deflate: bool) -> (Vec<Event>, Fault) {
        let mut reader = FrameReader::new(bytes, limit, deflate);
        let mut events = Vec::new();
        loop {
            match reader.next().await {
                Ok(event) => events.push(event),
                Err(fault) => return (events, fault),
            }
        }
    }

    #[tokio::test]
    async fn messages_come_in_fragments_with_control_frames_between() {
        let bytes = [
            frame(TEXT, b"one"),
            frame(FINAL | PING, b"p"),
            frame(CONTINUATION, b""),
            frame(FINAL | CONTINUATION, b" two"),
            frame(FINAL | BINARY, &vec![7; 70_000]),
            frame(FINAL | PONG, b""),
            frame(FINAL | CLOSE, &1000_u16.to_be_bytes()),
        ]
        .concat();
        let (events, fault) = events(&bytes, 70_000, false).await;
        assert_eq!(
            events,
            [
                Event::Ping(Bytes::from_static(b"p")),
                Event::Message(Bytes::from_static(b"one two")),
                Event::Message(vec![7; 70_000].into()),
                Event::Pong,
                Event::Close,
            ]
        );
        assert_eq!(fault, Fault::Gone);
    }

    #[tokio::test]
    async fn faults_have_their_codes() {
        let unmasked = [FINAL | TEXT, 1, b'x'].to_vec();
        let long = [FINAL | TEXT, MASKED | 127, 0x80, 0, 0, 0, 0, 0, 0, 0].to_vec();
        for (bytes, code) in [
            (unmasked, CloseCode::Protocol),
            (frame(FINAL | RSV1 | TEXT, b""), CloseCode::Protocol),
            (frame(FINAL | 0x10 | TEXT, b""), CloseCode::Protocol),
            (frame(FINAL | 0x3, b""), CloseCode::Protocol),
            (frame(FINAL | 0xb, b""), CloseCode::Protocol),
            (frame(PING, b""), CloseCode::Protocol),
            (frame(FINAL | PING, &[0; 126]), CloseCode::Protocol),
            (frame(FINAL | CONTINUATION, b""), CloseCode::Protocol),
            ([frame(TEXT, b""), frame(FINAL | TEXT, b"")].concat(), CloseCode::Protocol),
            (frame(FINAL | TEXT, &[0xff]), CloseCode::Invalid),
            (frame(FINAL | TEXT, &[b'x'; 11]), CloseCode::Size),
            ([frame(TEXT, &[b'x'; 6]), frame(FINAL, &[b'x'; 5])].concat(), CloseCode::Size),
            // Refused by its length, before any payload comes.
            (long, CloseCode::Size),
        ] {
            let (events, fault) = events(&bytes, 10, false).await;
            assert!(events.is_empty());
            assert!(
                matches!(fault, Fault::Close(found, _) if found == code),
                "{fault:?} {bytes:?}"
            );
        }
    }

    /// Compressed messages, as RFC 7692 §7.2.3.1 and .2 show them.
    #[tokio::test]
    async fn compressed_messages_are_inflated() {
        let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        let bytes = [
            frame(FINAL | RSV1 | TEXT, &hello),
            frame(RSV1 | TEXT, &hello[..3]),
            frame(FINAL | CONTINUATION, &hello[3..]),
            frame(FINAL | TEXT, b"plain"),
        ]
        .concat();
        let (found, _) = events(&bytes, 10, true).await;
        let message = |text: &'static str| Event::Message(Bytes::from_static(text.as_bytes()));
        assert_eq!(found, [message("Hello"), message("Hello"), message("plain")]);
        let (_, fault) = events(&bytes, 4, true).await;
        assert!(matches!(fault, Fault::Close(CloseCode::Size, _)));
        let (_, fault) = events(&frame(FINAL | RSV1 | TEXT, &[0xff; 9]), 10, true).await;
        assert!(matches!(fault, Fault::Close(CloseCode::Invalid, _)));
    }

    proptest! {
        /// Whatever comes is an event or a fault, never a panic, and never more than the limit.
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), deflate: bool) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (events, _) = runtime.block_on(events(&bytes, 64, deflate));
            for event in events {
                if let Event::Message(message) = event {
                    prop_assert!(message.len() <= 64);
                }
            }
        }
    }
}

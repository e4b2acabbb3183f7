//! One kept HTTP/1.1 connection that trusts nothing: what a server says of its reply's length is
//! held against what it sends, and a reply that is not one is a [`Failure`].

use crate::Failure;
use flate2::bufread::MultiGzDecoder;
use prestate_wire::Encoding;
use serde::{Deserialize, de::IgnoredAny};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// A reply that takes longer has failed.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// A reply's head, or the head of a chunk, that is longer is none.
const MAX_HEAD_BYTES: u64 = 64 * 1024;
/// Bodies up to this size are kept whatever was asked for: errors are short.
const SHORT_BYTES: usize = 4096;
/// The longest text that a body is unpacked to.
const MAX_TEXT_BYTES: u64 = 1 << 30;

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    buffer: Vec<u8>,
    keep: bool,
}

/// A reply read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Bytes of the body on the wire, without the framing of chunks.
    pub(crate) body_bytes: u64,
    /// The body, if it is short or bodies are kept; else empty.
    pub(crate) body: Vec<u8>,
    coding: Result<Encoding, Failure>,
    /// Whether the server ends the connection after it.
    pub(crate) last: bool,
}

impl Reply {
    /// Looks at a body that was kept: unpacks it, reads it as JSON, and takes JSON-RPC errors out.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(failure) = Failure::of_status(self.status) {
            return Err(failure);
        }
        #[derive(Deserialize)]
        struct Envelope {
            result: Option<IgnoredAny>,
            error: Option<RpcError>,
        }
        #[derive(Deserialize)]
        struct RpcError {
            code: i64,
            #[serde(default)]
            message: String,
        }
        let text = self.text()?;
        let envelope: Envelope = serde_json::from_slice(&text).map_err(|_| Failure::Json)?;
        match envelope {
            Envelope { error: Some(error), .. } => Err(Failure::of_rpc(error.code, &error.message)),
            Envelope { result: Some(_), .. } => Ok(()),
            // `"result": null` reads as none: the method knows no such block.
            Envelope { .. } => Err(Failure::Json),
        }
    }

    /// The body unpacked.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        let unpacked = match self.coding? {
            Encoding::Identity => return Ok(self.body.clone()),
            Encoding::Gzip => MultiGzDecoder::new(&self.body[..])
                .take(MAX_TEXT_BYTES)
                .read_to_end(&mut text)
                .map(drop),
            Encoding::Zstd => zstd::Decoder::with_buffer(&self.body[..])
                .and_then(|decoder| decoder.take(MAX_TEXT_BYTES).read_to_end(&mut text))
                .map(drop),
        };
        unpacked.map_err(|_| Failure::Json)?;
        Ok(text)
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::of_io(&error)
}

impl Connection {
    pub(crate) fn open(addr: SocketAddr) -> Result<Self, Failure> {
        Self::with_patience(addr, REPLY_TIMEOUT)
    }

    pub(crate) fn with_patience(addr: SocketAddr, patience: Duration) -> Result<Self, Failure> {
        let open = || {
            let stream = TcpStream::connect_timeout(&addr, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(BufReader::with_capacity(READ_BYTES, stream))
        };
        let stream = open().map_err(|_: io::Error| Failure::Connect)?;
        Ok(Self { stream, buffer: vec![0; READ_BYTES], keep: false })
    }

    /// Keeps bodies of any size from now on.
    pub(crate) fn keeping_bodies(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Sends a request and reads its reply. After an error the connection is of no use.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<Reply, Failure> {
        self.stream.get_mut().write_all(request).map_err(failed)?;
        let mut line = self.line()?;
        let status = line.strip_prefix("HTTP/1.").and_then(|line| line.split(' ').nth(1));
        let status = status.and_then(|status| status.parse().ok()).ok_or(Failure::Length)?;
        let (mut length, mut chunked, mut last) = (None, false, line.starts_with("HTTP/1.0"));
        let mut coding = Ok(Encoding::Identity);
        let mut head_bytes = 0;
        loop {
            line = self.line()?;
            head_bytes += line.len() as u64;
            if head_bytes > MAX_HEAD_BYTES {
                return Err(Failure::Length);
            }
            let header = line.to_ascii_lowercase();
            let Some((name, value)) = header.split_once(':') else {
                if header.is_empty() {
                    break;
                }
                return Err(Failure::Length);
            };
            match (name, value.trim()) {
                ("content-length", value) => {
                    length = Some(value.parse::<u64>().map_err(|_| Failure::Length)?);
                }
                ("transfer-encoding", value) => chunked |= value.contains("chunked"),
                ("connection", value) => last |= value.contains("close"),
                ("content-encoding", value) => {
                    coding = match value {
                        "gzip" => Ok(Encoding::Gzip),
                        "zstd" => Ok(Encoding::Zstd),
                        "identity" => Ok(Encoding::Identity),
                        _ => Err(Failure::Json),
                    };
                }
                _ => {}
            }
        }
        let mut body = Vec::new();
        let body_bytes = match (length, chunked) {
            (_, true) => self.take_chunks(&mut body)?,
            (Some(length), false) => self.take(length, &mut body)?,
            // It ends with the connection; only HTTP/1.0 servers do so.
            (None, false) => return Err(Failure::Length),
        };
        if !self.stream.buffer().is_empty() {
            // Nothing else was asked for.
            return Err(Failure::Length);
        }
        Ok(Reply { status, body_bytes, body, coding, last })
    }

    /// A line of a head, without its end.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(MAX_HEAD_BYTES).read_until(b'\n', &mut line);
        match read.map_err(failed)? as u64 {
            0 => Err(Failure::Cut),
            MAX_HEAD_BYTES => Err(Failure::Length),
            _ if line.pop() != Some(b'\n') => Err(Failure::Cut),
            _ => Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()),
        }
    }

    fn take(&mut self, length: u64, kept: &mut Vec<u8>) -> Result<u64, Failure> {
        let mut left = length;
        while left > 0 {
            let most = left.min(READ_BYTES as u64) as usize;
            let read = self.stream.read(&mut self.buffer[..most]).map_err(failed)?;
            if read == 0 {
                return Err(Failure::Cut);
            }
            if self.keep || kept.len() + read <= SHORT_BYTES {
                kept.extend_from_slice(&self.buffer[..read]);
            }
            left -= read as u64;
        }
        Ok(length)
    }

    fn take_chunks(&mut self, kept: &mut Vec<u8>) -> Result<u64, Failure> {
        let mut total = 0u64;
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| Failure::Length)?;
            total = total.checked_add(self.take(size, kept)?).ok_or(Failure::Length)?;
            if size == 0 {
                // Trailers end with an empty line.
                while !self.line()?.is_empty() {}
                return Ok(total);
            }
            if !self.line()?.is_empty() {
                return Err(Failure::Length);
            }
        }
    }
}

#[cfg(test)]
mod tests;

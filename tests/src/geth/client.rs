//! A blocking JSON-RPC client that hands out results as the bytes that came.

use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Mutex,
    time::Duration,
};

/// What a server said to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The `result` member, byte for byte.
    Result(String),
    /// The `error` member, byte for byte.
    Error(String),
}

impl Answer {
    /// The result, or `None` for an error.
    pub fn result(&self) -> Option<&str> {
        match self {
            Self::Result(json) => Some(json),
            Self::Error(_) => None,
        }
    }

    /// Code and message of an error, `None` for a result or an error object without them.
    pub fn error(&self) -> Option<(i64, String)> {
        let Self::Error(json) = self else { return None };
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        Some((value.get("code")?.as_i64()?, value.get("message")?.as_str()?.to_owned()))
    }
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed.
    #[error("{method}: {source}")]
    Io {
        /// The method called.
        method: String,
        /// What the socket said.
        source: io::Error,
    },
    /// The reply is no JSON-RPC reply.
    #[error("{method}: not a JSON-RPC reply: {body}")]
    Reply {
        /// The method called.
        method: String,
        /// The head of the body.
        body: String,
    },
}

/// One keep-alive connection to a JSON-RPC server on HTTP.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Mutex<Option<BufReader<TcpStream>>>,
}

/// Longer than any answer of the suites takes; a server that hangs fails the run.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// A client of the server at `address`. It connects at the first call.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: Mutex::new(None) }
    }

    /// Calls `method` with `params`, a JSON array as text (or whatever is to be sent in its place).
    pub fn call(&self, method: &str, params: &str) -> Result<Answer, ClientError> {
        let name = serde_json::Value::from(method);
        let body =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":{name},\"params\":{params}}}");
        let reply = self
            .post(body.as_bytes())
            .map_err(|source| ClientError::Io { method: method.to_owned(), source })?;
        let not_a_reply = || ClientError::Reply {
            method: method.to_owned(),
            body: reply.chars().take(400).collect(),
        };
        let members: HashMap<&str, &RawValue> =
            serde_json::from_str(&reply).map_err(|_| not_a_reply())?;
        match (members.get("result"), members.get("error")) {
            (_, Some(error)) => Ok(Answer::Error(error.get().to_owned())),
            (Some(result), None) => Ok(Answer::Result(result.get().to_owned())),
            (None, None) => Err(not_a_reply()),
        }
    }

    /// Posts a body as it is and returns the body of the reply.
    pub fn post(&self, body: &[u8]) -> io::Result<String> {
        let mut slot = self.connection.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mut kept) = slot.take() {
            // A kept connection may have been closed by the server meanwhile: once more on a new one.
            if let Ok(reply) = exchange(&mut kept, body) {
                *slot = Some(kept);
                return Ok(reply);
            }
        }
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut fresh = BufReader::with_capacity(1 << 16, stream);
        let reply = exchange(&mut fresh, body)?;
        *slot = Some(fresh);
        Ok(reply)
    }
}

fn exchange(connection: &mut BufReader<TcpStream>, body: &[u8]) -> io::Result<String> {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut request = head.into_bytes();
    request.extend_from_slice(body);
    connection.get_mut().write_all(&request)?;

    let mut line = String::new();
    let (mut length, mut chunked) = (None, false);
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().ok();
        }
        chunked |= header.starts_with("transfer-encoding:") && header.ends_with("chunked");
    }
    let mut reply = Vec::new();
    if chunked {
        loop {
            line.clear();
            connection.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "chunk size"))?;
            let start = reply.len();
            reply.resize(start + size, 0);
            connection.read_exact(&mut reply[start..])?;
            line.clear();
            connection.read_line(&mut line)?;
            if size == 0 {
                break;
            }
        }
    } else {
        reply.resize(length.ok_or(io::ErrorKind::InvalidData)?, 0);
        connection.read_exact(&mut reply)?;
    }
    String::from_utf8(reply).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

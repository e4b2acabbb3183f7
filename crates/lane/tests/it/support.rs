//! A small service, and a client that shows every byte.

use async_trait::async_trait;
use prestate_lane::{Lane, LaneConfig, Running, Stats};
use prestate_rpc::{Answer, Call, Outcome, Reply, Service, Subscribed, Timing};
use prestate_rpc_api::RpcError;
use prestate_wire::Rope;
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    panic,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// A block that is there.
pub(crate) const KNOWN: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";
/// A block that is not.
pub(crate) const UNKNOWN: &str =
    "0x2222222222222222222222222222222222222222222222222222222222222222";
/// A block that was.
pub(crate) const PRUNED: &str =
    "0x3333333333333333333333333333333333333333333333333333333333333333";

/// One whose transactions are 5,000 bytes, and whose diff is streamed in pieces of that.
pub(crate) const LARGE: &str = "0x4444444444444444444444444444444444444444444444444444444444444444";

/// What happened in the service.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) most_running: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) pieces: AtomicU64,
    pub(crate) streams_ended: AtomicU64,
    pub(crate) feeds_open: AtomicU64,
    pub(crate) fed: AtomicU64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TestService {
    pub(crate) seen: Arc<Seen>,
}

/// JSON of `len` bytes that does not compress to nothing.
pub(crate) fn big_json(len: usize) -> String {
    let mut text = String::with_capacity(len);
    text.push('"');
    let mut state = 0x9e37_79b9_u32;
    while text.len() < len - 1 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push(char::from(b"0123456789abcdef"[(state >> 28) as usize]));
    }
    text.push('"');
    text
}

struct Guard(Arc<Seen>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, SeqCst);
        }
    }
}

fn number(params: &Value, at: usize) -> u64 {
    params.get(at).and_then(Value::as_u64).unwrap_or(0)
}

#[async_trait]
impl Service for TestService {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        self.seen.calls.fetch_add(1, SeqCst);
        let running = self.seen.running.fetch_add(1, SeqCst) + 1;
        self.seen.most_running.fetch_max(running, SeqCst);
        let mut guard = Guard(Arc::clone(&self.seen), false);
        let text = call.params.map_or("[]", |params| params.get()).to_owned();
        let params: Value = serde_json::from_str(&text).unwrap();
        let kept = |json: String, outcome| Answer {
            reply: Reply::Whole(json.into()),
            outcome,
            timing: match outcome {
                Outcome::Miss => Timing {
                    execute: Duration::from_micros(1500),
                    encode: Duration::from_micros(250),
                },
                _ => Timing::default(),
            },
        };
        let answer = match call.method {
            "eth_chainId" => Ok(Answer::uncached("\"0x1\"")),
            "test_echo" => Ok(Answer::uncached(text)),
            "test_big" => Ok(kept(big_json(number(&params, 0) as usize), Outcome::Hit)),
            "test_miss" => Ok(kept(big_json(number(&params, 0) as usize), Outcome::Miss)),
            "test_sleep" => {
                tokio::time::sleep(Duration::from_millis(number(&params, 0))).await;
                Ok(Answer::uncached(number(&params, 0).to_string()))
            }
            "test_panic" => panic!("on request"),
            "test_error" => Err(RpcError::server("it \"failed\"")),
            // [pieces, bytes a piece, what happens after them: "end", "fail", "vanish", "hang"]
            "test_stream" => Ok(self.stream(&params)),
            "test_queue" => Err(RpcError::limit("too many wait", "queue", 1, 2)),
            "prestate_status" => Ok(Answer::uncached("{}")),
            "debug_traceBlockByHash" | "prestate_getBlockDiff" | "prestate_getTransactionDiffs" => {
                match params[0].as_str().unwrap() {
                    KNOWN => Ok(kept(format!("[\"{}\",{text}]", call.method), Outcome::Hit)),
                    LARGE if call.method == "prestate_getBlockDiff" => {
                        Ok(self.stream(&serde_json::json!([3, 5000])))
                    }
                    LARGE => Ok(kept(big_json(5000), Outcome::Hit)),
                    PRUNED => Err(RpcError::new(4444, "pruned history unavailable")),
                    hash => Err(RpcError::server(format!("block {hash} not found"))),
                }
            }
            other => Err(RpcError::method_not_found(other)),
        };
        guard.1 = true;
        answer
    }

    fn methods(&self) -> &[&'static str] {
        &[
            "debug_traceBlockByHash",
            "eth_chainId",
            "prestate_getBlockDiff",
            "prestate_getTransactionDiffs",
            "prestate_status",
            "test_big",
            "test_echo",
            "test_error",
            "test_miss",
            "test_panic",
            "test_queue",
            "test_sleep",
            "test_stream",
            "test_subscribe",
            "test_unsubscribe",
        ]
    }

    fn subscriptions(&self) -> &[&'static str] {
        &["test"]
    }

    /// [messages, bytes a message]: each an object with its number; `null` messages never end.
    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        let params: Value = serde_json::from_str(call.params.map_or("[]", |p| p.get())).unwrap();
        if params[0] == "nothing" {
            return Err(RpcError::invalid_params("no such subscription"));
        }
        let (most, size) = (params[0].as_u64(), number(&params, 1) as usize);
        let (sender, messages) = mpsc::channel(1);
        let seen = Arc::clone(&self.seen);
        seen.feeds_open.fetch_add(1, SeqCst);
        tokio::spawn(async move {
            for index in 0..most.unwrap_or(u64::MAX) {
                let message = format!("{{\"index\":{index},\"of\":{}}}", big_json(size));
                if sender.send(Rope::from(message)).await.is_err() {
                    break;
                }
                seen.fed.fetch_add(1, SeqCst);
            }
            seen.feeds_open.fetch_sub(1, SeqCst);
        });
        Ok(Subscribed { messages })
    }
}

impl TestService {
    fn stream(&self, params: &Value) -> Answer {
        let (pieces, size) = (number(params, 0), number(params, 1) as usize);
        let end = params.get(2).and_then(Value::as_str).unwrap_or("end").to_owned();
        let (sender, receiver) = mpsc::channel(1);
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            let send = async {
                for index in 0..pieces {
                    let open = if index == 0 { "[" } else { "," };
                    let piece = Rope::from(format!("{open}{}", big_json(size)));
                    sender.send(Ok(piece)).await.ok()?;
                    seen.pieces.fetch_add(1, SeqCst);
                }
                match end.as_str() {
                    "end" => sender.send(Ok(Rope::from("]"))).await.ok()?,
                    "fail" => sender.send(Err(RpcError::server("broke"))).await.ok()?,
                    "hang" => tokio::time::sleep(Duration::from_secs(3600)).await,
                    _ => {}
                }
                Some(())
            };
            tokio::select! {
                _ = send => {}
                () = sender.closed() => {}
            }
            seen.streams_ended.fetch_add(1, SeqCst);
        });
        Answer { reply: Reply::Stream(receiver), outcome: Outcome::Miss, timing: Timing::default() }
    }
}

/// What [`TestService`] streams.
pub(crate) fn streamed(pieces: usize, size: usize) -> String {
    format!("[{}]", vec![big_json(size); pieces].join(","))
}

/// A lane on a runtime of its own.
pub(crate) struct Server {
    pub(crate) seen: Arc<Seen>,
    pub(crate) addr: SocketAddr,
    running: Option<Running>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(LaneConfig::default())
    }

    pub(crate) fn with(config: LaneConfig) -> Self {
        let config = LaneConfig { addr: SocketAddr::from(([127, 0, 0, 1], 0)), ..config };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let service = TestService::default();
        let seen = Arc::clone(&service.seen);
        let running = runtime.block_on(Lane::bind(config, Arc::new(service))).unwrap();
        let addr = running.local_addr();
        Self { seen, addr, running: Some(running), runtime: Some(runtime) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.running.as_ref().unwrap().stats()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.addr).unwrap())
    }

    /// One call on a connection of its own; the body.
    pub(crate) fn call(&self, body: &str) -> String {
        let response = self.connect().post(body, "");
        assert_eq!(response.status, 200, "{response:?}");
        response.text()
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().unwrap().block_on(future)
    }

    pub(crate) fn shutdown(mut self, grace: Duration) {
        let running = self.running.take().unwrap();
        self.block_on(running.shutdown(grace));
    }

    /// Waits, within reason, until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < Duration::from_secs(20), "never came: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection; reads time out so that no test hangs.
#[derive(Debug)]
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body's framing was complete.
    pub(crate) whole: bool,
    /// Chunks that the body came in; 0 with `Content-Length`.
    pub(crate) chunks: usize,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        let first = found.next();
        assert!(found.next().is_none(), "{name} sent twice: {:?}", self.headers);
        first.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn json_decoded(&self) -> Value {
        serde_json::from_str(&self.decoded()).unwrap()
    }

    /// The body as a client shows it.
    pub(crate) fn decoded(&self) -> String {
        let mut text = String::new();
        match self.header("content-encoding") {
            None => text = self.text(),
            Some("gzip") => {
                let mut decoder = flate2::bufread::GzDecoder::new(&self.body[..]);
                decoder.read_to_string(&mut text).unwrap();
                assert!(decoder.into_inner().is_empty(), "bytes after the first gzip member");
            }
            Some("zstd") => {
                zstd::Decoder::new(&self.body[..]).unwrap().read_to_string(&mut text).unwrap();
            }
            Some(other) => panic!("coding {other}"),
        }
        text
    }
}

impl Client<TcpStream> {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Self::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// `headers` are whole lines.
    pub(crate) fn post(&mut self, body: &str, headers: &str) -> Response {
        self.write(request(body, headers));
        self.read()
    }

    pub(crate) fn get(&mut self, path: &str, headers: &str) -> Response {
        self.send("GET", path, headers)
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str) -> Response {
        self.write(format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"));
        self.read_for(method == "HEAD")
    }

    pub(crate) fn read(&mut self) -> Response {
        self.read_for(false)
    }

    /// More bytes into the buffer; `false` at the end of the connection.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 65536];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(len) => {
                self.buffer.extend_from_slice(&bytes[..len]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}; so far {:?}", String::from_utf8_lossy(&self.buffer)),
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = self.buffer.drain(..at + 2).take(at).collect();
                return Some(String::from_utf8(line).unwrap());
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn take(&mut self, len: usize) -> (Vec<u8>, bool) {
        while self.buffer.len() < len {
            if !self.fill() {
                return (std::mem::take(&mut self.buffer), false);
            }
        }
        (self.buffer.drain(..len).collect(), true)
    }

    fn read_for(&mut self, head: bool) -> Response {
        let status = self.line().expect("a status line");
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response =
            Response { status, headers: Vec::new(), body: Vec::new(), whole: true, chunks: 0 };
        loop {
            let line = self.line().expect("headers");
            let Some((name, value)) = line.split_once(':') else { break };
            response.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if status == 100 {
            return self.read_for(head);
        }
        let bodiless = head || status == 204 || status == 304 || status == 101;
        if bodiless {
        } else if let Some(len) = response.header("content-length") {
            (response.body, response.whole) = self.take(len.parse().unwrap());
        } else {
            assert_eq!(response.header("transfer-encoding"), Some("chunked"));
            loop {
                let Some(len) = self.line() else {
                    response.whole = false;
                    break;
                };
                let len = usize::from_str_radix(&len, 16).unwrap();
                let (chunk, whole) = self.take(len + 2);
                if !whole {
                    response.whole = false;
                    break;
                }
                if len == 0 {
                    break;
                }
                response.chunks += 1;
                response.body.extend_from_slice(&chunk[..len]);
            }
        }
        response
    }

    /// A WebSocket message and whether it was compressed. Frames of other kinds are no part of it.
    pub(crate) fn read_message(&mut self) -> (String, bool) {
        let (mut bytes, mut compressed) = (Vec::new(), false);
        loop {
            let (head, _) = self.take(2);
            let len = match head[1] {
                126 => self.take(2).0.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)),
                127 => self.take(8).0.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)),
                len => usize::from(len),
            };
            let (payload, whole) = self.take(len);
            assert!(whole && matches!(head[0] & 0x0f, 0..=2), "{head:02x?}");
            compressed |= head[0] & 0x40 != 0;
            bytes.extend_from_slice(&payload);
            if head[0] & 0x80 != 0 {
                break;
            }
        }
        if !compressed {
            return (String::from_utf8(bytes).unwrap(), false);
        }
        bytes.extend_from_slice(&[0, 0, 0xff, 0xff]);
        let mut text = Vec::with_capacity(64 << 20);
        flate2::Decompress::new(false)
            .decompress_vec(&bytes, &mut text, flate2::FlushDecompress::Sync)
            .unwrap();
        (String::from_utf8(text).unwrap(), true)
    }

    /// Whether the other side has ended the connection with nothing left to read.
    pub(crate) fn at_end(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill()
    }
}

/// A `POST /` of JSON.
pub(crate) fn request(body: &str, headers: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A call with id 1.
pub(crate) fn rpc(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// Its answer.
pub(crate) fn result(json: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{json}}}"#)
}

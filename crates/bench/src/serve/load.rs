use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Bytes a client reads at a time.
const READ_BYTES: usize = 256 * 1024;
/// A reply that takes longer counts as an error.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Clients that ask for the same thing over and over, each on its own kept connection.
#[derive(Debug, Clone)]
pub struct Load {
    /// Server.
    pub addr: SocketAddr,
    /// The request, head and body.
    pub request: Vec<u8>,
    /// How many clients.
    pub connections: usize,
    /// For how long.
    pub time: Duration,
}

/// What the clients saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadResult {
    /// Replies read whole.
    pub replies: u64,
    /// Bytes of their bodies as they came.
    pub body_bytes: u64,
    /// Replies that failed: connection broken, status other than 200, or too slow.
    pub errors: u64,
    /// How long it really took.
    pub time: Duration,
}

impl LoadResult {
    /// Replies a second.
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Load {
    /// Runs it.
    pub fn run(&self) -> LoadResult {
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(Barrier::new(self.connections + 1));
        let clients: Vec<_> = (0..self.connections)
            .map(|_| {
                let (load, stop, ready) = (self.clone(), Arc::clone(&stop), Arc::clone(&ready));
                thread::spawn(move || load.client(&stop, &ready))
            })
            .collect();
        ready.wait();
        let started = Instant::now();
        thread::sleep(self.time);
        stop.store(true, Ordering::Relaxed);
        let mut total =
            LoadResult { replies: 0, body_bytes: 0, errors: 0, time: started.elapsed() };
        for client in clients {
            let (replies, bytes, errors) = client.join().unwrap_or((0, 0, 1));
            total.replies += replies;
            total.body_bytes += bytes;
            total.errors += errors;
        }
        total
    }

    fn client(&self, stop: &AtomicBool, ready: &Barrier) -> (u64, u64, u64) {
        let (mut replies, mut bytes, mut errors) = (0, 0, 0);
        let mut connection = Connection::open(self.addr);
        ready.wait();
        while !stop.load(Ordering::Relaxed) {
            match connection.as_mut().map(|open| open.ask(&self.request)) {
                Ok(Ok(Reply { status: 200, body_bytes, .. })) => {
                    replies += 1;
                    bytes += body_bytes;
                }
                _ => {
                    errors += 1;
                    if errors > 100 {
                        break;
                    }
                    connection = Connection::open(self.addr);
                }
            }
        }
        (replies, bytes, errors)
    }
}

/// A kept connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
    /// Whether bodies are kept, to be looked at.
    keep: bool,
}

/// A reply read whole.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        Ok(Self { stream, body: vec![0; READ_BYTES], keep: false })
    }

    pub(crate) fn keeping_bodies(mut self) -> Self {
        self.keep = true;
        self
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no status line"))?;
        let (mut length, mut chunked) = (None, false);
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse::<u64>().ok();
            }
            chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
        }
        let mut body = Vec::new();
        let body_bytes = match (length, chunked) {
            (Some(length), false) => self.take(length, &mut body)?,
            (_, true) => self.take_chunks(&mut body)?,
            (None, false) => return Err(io::Error::other("no length")),
        };
        Ok(Reply { status, body_bytes, body })
    }

    fn take(&mut self, length: u64, kept: &mut Vec<u8>) -> io::Result<u64> {
        let mut left = length;
        while left > 0 {
            let most = left.min(READ_BYTES as u64) as usize;
            let read = self.stream.read(&mut self.body[..most])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.keep {
                kept.extend_from_slice(&self.body[..read]);
            }
            left -= read as u64;
        }
        Ok(length)
    }

    fn take_chunks(&mut self, kept: &mut Vec<u8>) -> io::Result<u64> {
        let mut total = 0;
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16)
                .map_err(io::Error::other)?;
            total += self.take(size, kept)?;
            line.clear();
            self.stream.read_line(&mut line)?;
            if size == 0 {
                return Ok(total);
            }
        }
    }
}

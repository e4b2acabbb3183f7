//! The timers of a connection. hyper's own header timer also runs on idle connections, and it has
//! none for idling or for readers that stop, so the lane keeps all of them.

use crate::LaneConfig;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// A reader has to take this much in every write timeout. Slow lines do; a stopped reader, or one
/// that takes a byte a minute to hold a reply, does not.
const WRITE_QUOTA_BYTES: usize = 256 * 1024;

/// Nothing is waiting.
const NEVER: u64 = u64::MAX;

/// What a connection did, and when. Times are milliseconds since it was opened.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    /// Requests whose reply is not out yet.
    open: AtomicUsize,
    /// When `open` last became zero.
    idle_since: AtomicU64,
    /// When the first byte came since then.
    bytes_since: AtomicU64,
    /// Whether any request has come.
    used: AtomicBool,
    http2: AtomicBool,
    /// HTTP/2 replies on their way: when the client last took a part of each.
    replies: Mutex<Vec<Weak<AtomicU64>>>,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The headers of a request did not come in time.
    Header,
    /// No request came.
    Idle,
    /// A reply is not read.
    Stalled,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            open: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            bytes_since: AtomicU64::new(NEVER),
            used: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            replies: Mutex::new(Vec::new()),
        })
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }

    /// A request's headers are here.
    pub(crate) fn begin(self: &Arc<Self>, http2: bool) -> RequestGuard {
        self.open.fetch_add(1, Relaxed);
        self.used.store(true, Relaxed);
        let taken = Arc::new(AtomicU64::new(NEVER));
        if http2 {
            self.http2.store(true, Relaxed);
            let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
            replies.retain(|reply| reply.strong_count() > 0);
            replies.push(Arc::downgrade(&taken));
        }
        RequestGuard { activity: Arc::clone(self), taken }
    }

    fn read(&self) {
        if self.open.load(Relaxed) == 0 {
            let _ = self.bytes_since.compare_exchange(NEVER, self.now(), Relaxed, Relaxed);
        }
    }

    fn expiry(&self, config: &LaneConfig) -> Option<Expiry> {
        let now = self.now();
        let over = |since: u64, limit: Duration| {
            since != NEVER && u128::from(now.saturating_sub(since)) >= limit.as_millis()
        };
        let http2 = self.http2.load(Relaxed);
        if self.open.load(Relaxed) == 0 {
            // Frames that are no requests come at any time in HTTP/2.
            let partial = !http2 && over(self.bytes_since.load(Relaxed), config.header_timeout);
            if partial || (!self.used.load(Relaxed) && over(0, config.header_timeout)) {
                return Some(Expiry::Header);
            }
            return over(self.idle_since.load(Relaxed), config.idle_timeout)
                .then_some(Expiry::Idle);
        }
        // A reader may stop one HTTP/2 stream by its window while the socket flows. In HTTP/1.1
        // the socket tells.
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let stalled = http2
            && replies
                .iter()
                .filter_map(Weak::upgrade)
                .any(|taken| over(taken.load(Relaxed), config.write_timeout));
        stalled.then_some(Expiry::Stalled)
    }

    /// Comes back when the connection has to be closed.
    pub(crate) async fn expired(&self, config: &LaneConfig) -> Expiry {
        let shortest = config.header_timeout.min(config.idle_timeout).min(config.write_timeout);
        let pause = (shortest / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        loop {
            tokio::time::sleep(pause).await;
            if let Some(expiry) = self.expiry(config) {
                return expiry;
            }
        }
    }
}

/// A request that is not finished: lives until the last byte of its reply is handed to the socket.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    activity: Arc<Activity>,
    taken: Arc<AtomicU64>,
}

impl RequestGuard {
    /// There are bytes for the client to take, or it has just taken some.
    pub(crate) fn waiting_for_reader(&self) {
        self.taken.store(self.activity.now(), Relaxed);
    }

    /// There is nothing to take.
    pub(crate) fn waiting_for_maker(&self) {
        self.taken.store(NEVER, Relaxed);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let now = self.activity.now();
        self.activity.idle_since.store(now, Relaxed);
        self.activity.bytes_since.store(NEVER, Relaxed);
        self.activity.open.fetch_sub(1, Relaxed);
    }
}

/// A socket that reports what it reads and breaks when the other side stops reading.
#[derive(Debug)]
pub(crate) struct TimedIo<S> {
    inner: S,
    activity: Arc<Activity>,
    write_timeout: Duration,
    /// Runs from the first refused write until all that was offered, or the quota, is taken.
    stall: Option<Pin<Box<Sleep>>>,
    taken: usize,
}

impl<S> TimedIo<S> {
    pub(crate) fn new(inner: S, activity: Arc<Activity>, write_timeout: Duration) -> Self {
        Self { inner, activity, write_timeout, stall: None, taken: 0 }
    }

    fn after_write(
        &mut self,
        cx: &mut Context<'_>,
        offered: usize,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(taken)) => {
                self.taken += taken;
                if taken >= offered || self.taken >= WRITE_QUOTA_BYTES {
                    self.stall = None;
                    self.taken = 0;
                }
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let timeout = self.write_timeout;
                let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                ready!(Future::poll(stall.as_mut(), cx));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read its reply",
                )))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.activity.read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.after_write(cx, buf.len(), result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.after_write(cx, offered, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

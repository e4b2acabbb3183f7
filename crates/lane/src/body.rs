use crate::{
    activity::RequestGuard,
    admission::{Bytes as Budget, Gates, Reservation, Turn},
    balance::Balance,
    stats::{Counters, count},
};
use bytes::Buf;
use http_body::{Frame, SizeHint};
use prestate_rpc::Piece;
use prestate_wire::{Body, BodyBuf, BodyStream, Encoding, Rope};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{sync::mpsc, time::Sleep};

/// A streamed reply was broken off; the transport must not end it cleanly.
#[derive(Debug, thiserror::Error)]
#[error("the reply was broken off: {reason}")]
pub(crate) struct BrokenOff {
    reason: String,
}

/// A reply's body.
#[derive(Debug)]
pub(crate) struct ReplyBody {
    kind: Kind,
    held: Option<Arc<Held>>,
}

#[derive(Debug)]
enum Kind {
    Whole { body: Option<Body>, reserved: Option<Reservation> },
    Stream(Box<StreamBody>),
}

/// What lives until the transport has let go of the last byte.
#[derive(Debug)]
pub(crate) struct Held {
    guard: RequestGuard,
    counters: Arc<Counters>,
    encoding: Encoding,
    /// Chunks the transport has not let go of.
    outstanding: AtomicUsize,
}

impl Held {
    pub(crate) fn new(guard: RequestGuard, counters: Arc<Counters>, encoding: Encoding) -> Self {
        Self { guard, counters, encoding, outstanding: AtomicUsize::new(0) }
    }
}

impl ReplyBody {
    /// A small body of its own.
    pub(crate) fn full(text: impl AsRef<[u8]>) -> Self {
        let mut splice = prestate_wire::Splice::new();
        splice.text(text.as_ref());
        Self::whole(splice.into_body(Encoding::Identity), None)
    }

    /// A body that is all there.
    pub(crate) fn whole(body: Body, reserved: Option<Reservation>) -> Self {
        let body = (!body.is_empty()).then_some(body);
        Self { kind: Kind::Whole { body, reserved }, held: None }
    }

    pub(crate) fn stream(stream: StreamBody) -> Self {
        Self { kind: Kind::Stream(Box::new(stream)), held: None }
    }

    /// Ties the request to the body.
    pub(crate) fn hold(&mut self, held: Held) {
        self.held = Some(Arc::new(held));
    }

    /// Length before the headers go out; `None` if it is not known then.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::Whole { body, .. } => Some(body.as_ref().map_or(0, Body::len)),
            Kind::Stream(_) => None,
        }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Chunk;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BrokenOff>>> {
        let this = &mut *self;
        let (body, reserved) = match &mut this.kind {
            Kind::Whole { body, reserved } => match body.take() {
                Some(body) => (body, reserved.take()),
                None => return Poll::Ready(None),
            },
            Kind::Stream(stream) => match ready!(stream.poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Ok((body, reserved))) => (body, Some(reserved)),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            },
        };
        let chunk = Chunk::new(body.into_buf(), this.held.clone(), reserved);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Whole { body: None, .. })
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Bytes that the transport writes when it can. They are counted as it does, and what belongs to
/// them is let go with them: the body itself is gone long before.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: BodyBuf,
    held: Option<Arc<Held>>,
    _reserved: Option<Reservation>,
}

impl Chunk {
    fn new(bytes: BodyBuf, held: Option<Arc<Held>>, reserved: Option<Reservation>) -> Self {
        if let Some(held) = &held {
            held.outstanding.fetch_add(1, Relaxed);
            held.guard.waiting_for_reader();
        }
        Self { bytes, held, _reserved: reserved }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(held) = &self.held {
            held.counters.sent(held.encoding, count as u64);
            held.guard.waiting_for_reader();
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(held) = &self.held
            && held.outstanding.fetch_sub(1, Relaxed) == 1
        {
            held.guard.waiting_for_maker();
        }
    }
}

/// A reply that is made while the client reads.
#[derive(Debug)]
pub(crate) struct StreamBody {
    /// `None` once the reply has ended.
    source: Option<Source>,
    /// Why it ended early, until the transport is told.
    broken: Option<BrokenOff>,
    patience: Duration,
    gates: Arc<Gates>,
    counters: Arc<Counters>,
    _turn: Option<Turn>,
}

/// Where a stream comes from.
#[derive(Debug)]
pub(crate) struct Source {
    /// Stands before the pieces.
    pub(crate) head: String,
    /// Pieces taken already.
    pub(crate) begun: VecDeque<Rope>,
    /// The pieces to come.
    pub(crate) pieces: mpsc::Receiver<Piece>,
    /// Stands behind the pieces.
    pub(crate) tail: &'static str,
    pub(crate) coder: BodyStream,
    balance: Balance,
    waiting: Pin<Box<Sleep>>,
}

impl Source {
    /// A stream of which nothing is sent yet.
    pub(crate) fn new(
        head: String,
        begun: Vec<Rope>,
        pieces: mpsc::Receiver<Piece>,
        tail: &'static str,
        coder: BodyStream,
    ) -> Self {
        let waiting = Box::pin(tokio::time::sleep(Duration::ZERO));
        let balance = Balance::default();
        Self { head, begun: begun.into(), pieces, tail, coder, balance, waiting }
    }

    fn push(&mut self, rope: &Rope) -> io::Result<Body> {
        self.balance.push_rope(rope);
        self.coder.rope(rope)
    }
}

impl StreamBody {
    /// `turn` is held until the end: a stream is work under way.
    pub(crate) fn new(
        mut source: Source,
        patience: Duration,
        gates: Arc<Gates>,
        counters: Arc<Counters>,
        turn: Option<Turn>,
    ) -> Self {
        source.waiting = Box::pin(tokio::time::sleep(patience));
        Self { source: Some(source), broken: None, patience, gates, counters, _turn: turn }
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Body, Reservation), BrokenOff>>> {
        let Some(source) = &mut self.source else {
            return Poll::Ready(self.broken.take().map(Err));
        };
        let coded = if !source.head.is_empty() {
            let head = std::mem::take(&mut source.head);
            source.coder.text(head.as_bytes())
        } else if let Some(rope) = source.begun.pop_front() {
            source.push(&rope)
        } else {
            match source.pieces.poll_recv(cx) {
                Poll::Ready(Some(Ok(rope))) => {
                    let deadline = tokio::time::Instant::now() + self.patience;
                    source.waiting.as_mut().reset(deadline);
                    source.push(&rope)
                }
                Poll::Ready(Some(Err(error))) => return self.broken(cx, error.message),
                Poll::Ready(None) if source.balance.is_whole() => {
                    let Some(source) = self.source.take() else { return Poll::Ready(None) };
                    source.coder.finish(source.tail.as_bytes())
                }
                // A maker that panicked hangs up without a word.
                Poll::Ready(None) => return self.broken(cx, "its maker is gone".to_owned()),
                Poll::Pending => {
                    ready!(Future::poll(source.waiting.as_mut(), cx));
                    count(&self.counters.timed_out);
                    return self.broken(cx, "request timed out".to_owned());
                }
            }
        };
        let mut reserved = self.gates.reserve(Budget::Replies);
        match coded {
            Err(error) => self.broken(cx, error.to_string()),
            Ok(body) => match reserved.grow(body.len()) {
                Err(error) => self.broken(cx, error.message),
                Ok(()) => Poll::Ready(Some(Ok((body, reserved)))),
            },
        }
    }

    /// The maker is told by the drop of its channel, the transport on the next poll: it sends what
    /// it has first, so that the client sees a reply that broke rather than none.
    fn broken<T>(&mut self, cx: &Context<'_>, reason: String) -> Poll<T> {
        self.source = None;
        count(&self.counters.broken_streams);
        tracing::warn!(%reason, "streamed reply broken off");
        self.broken = Some(BrokenOff { reason });
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

use crate::{
    activity::RequestGuard,
    admission::{Reservation, Turn},
    balance::Balance,
    coding::{Coded, Part, StreamCoder},
    stats::{Counters, count},
};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use prestate_rpc::Piece;
use prestate_wire::Encoding;
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{sync::mpsc, time::Sleep};

/// HTTP/2 bodies are handed out in slices of this size, so that a slow reader is told from one
/// that stopped.
const SLICE_BYTES: usize = 64 * 1024;

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
    held: Option<Held>,
}

#[derive(Debug)]
enum Kind {
    Whole { chunks: VecDeque<Bytes>, left: u64, _reserved: Option<Reservation> },
    Stream(Box<StreamBody>),
}

/// What lives as long as the body: dropped with it, whether it was read or not.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) guard: RequestGuard,
    pub(crate) counters: Arc<Counters>,
    pub(crate) encoding: Encoding,
    pub(crate) http2: bool,
}

impl ReplyBody {
    /// A small body of one chunk.
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        Self::whole(Coded { encoding: Encoding::Identity, len, chunks: vec![bytes] }, None)
    }

    /// A body that is all there.
    pub(crate) fn whole(coded: Coded, reserved: Option<Reservation>) -> Self {
        let chunks = coded.chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        Self { kind: Kind::Whole { chunks, left: coded.len, _reserved: reserved }, held: None }
    }

    pub(crate) fn stream(stream: StreamBody) -> Self {
        Self { kind: Kind::Stream(Box::new(stream)), held: None }
    }

    /// Ties the request to the body.
    pub(crate) fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// Length before the headers go out; `None` if it is not known then.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.kind {
            Kind::Whole { left, .. } => Some(*left),
            Kind::Stream(_) => None,
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        let chunk = match &mut this.kind {
            Kind::Whole { chunks, left, .. } => match next_slice(chunks, this.held.as_ref()) {
                Some(chunk) => {
                    *left = left.saturating_sub(chunk.len() as u64);
                    chunk
                }
                None => return Poll::Ready(None),
            },
            Kind::Stream(stream) => loop {
                if let Some(chunk) = next_slice(&mut stream.ready, this.held.as_ref()) {
                    stream.reserved.shrink(chunk.len() as u64);
                    break chunk;
                }
                match stream.poll_more(cx) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => return Poll::Ready(None),
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        if let Some(held) = &this.held {
                            held.guard.not_ready();
                        }
                        return Poll::Pending;
                    }
                }
            },
        };
        if let Some(held) = &mut this.held {
            held.counters.sent(held.encoding, chunk.len() as u64);
            if held.http2 {
                held.guard.handed_out();
            }
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Whole { chunks, .. } if chunks.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole { left, .. } => SizeHint::with_exact(*left),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

fn next_slice(chunks: &mut VecDeque<Bytes>, held: Option<&Held>) -> Option<Bytes> {
    let front = chunks.front_mut()?;
    if held.is_some_and(|held| held.http2) && front.len() > SLICE_BYTES {
        return Some(front.split_to(SLICE_BYTES));
    }
    chunks.pop_front()
}

/// A reply that is made while the client reads.
#[derive(Debug)]
pub(crate) struct StreamBody {
    ready: VecDeque<Bytes>,
    /// `None` once the reply has ended.
    source: Option<Source>,
    reserved: Reservation,
    counters: Arc<Counters>,
    _turn: Option<Turn>,
}

#[derive(Debug)]
struct Source {
    pieces: mpsc::Receiver<Piece>,
    coder: StreamCoder,
    tail: &'static str,
    balance: Balance,
    patience: Duration,
    waiting: Pin<Box<Sleep>>,
}

impl StreamBody {
    /// `begun` is what has been taken from `pieces` already, the head before it.
    #[expect(clippy::too_many_arguments, reason = "one caller, all of them needed")]
    pub(crate) fn new(
        head: String,
        begun: Vec<prestate_wire::Rope>,
        tail: &'static str,
        pieces: mpsc::Receiver<Piece>,
        encoding: Encoding,
        patience: Duration,
        reserved: Reservation,
        counters: Arc<Counters>,
        turn: Option<Turn>,
    ) -> Self {
        let mut body = Self {
            ready: VecDeque::new(),
            source: Some(Source {
                pieces,
                coder: StreamCoder::new(encoding),
                tail,
                balance: Balance::default(),
                patience,
                waiting: Box::pin(tokio::time::sleep(patience)),
            }),
            reserved,
            counters,
            _turn: turn,
        };
        if let Some(source) = &mut body.source {
            source.coder.push(Part::text(head), &mut body.ready);
            for rope in begun {
                source.push(rope, &mut body.ready);
            }
        }
        body
    }

    /// Fills `ready`; `false` at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, BrokenOff>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(false)) };
        let broken = match source.pieces.poll_recv(cx) {
            Poll::Ready(Some(Ok(rope))) => {
                let deadline = tokio::time::Instant::now() + source.patience;
                source.waiting.as_mut().reset(deadline);
                source.push(rope, &mut self.ready);
                let bytes: usize = self.ready.iter().map(Bytes::len).sum();
                match self.reserved.grow(bytes as u64) {
                    Ok(()) => return Poll::Ready(Ok(true)),
                    Err(error) => error.message,
                }
            }
            Poll::Ready(Some(Err(error))) => error.message,
            Poll::Ready(None) if source.balance.is_whole() => {
                let Some(mut source) = self.source.take() else { return Poll::Ready(Ok(false)) };
                source.coder.push(Part::text(source.tail), &mut self.ready);
                source.coder.finish(&mut self.ready);
                return Poll::Ready(Ok(true));
            }
            // A producer that panicked hangs up without a word.
            Poll::Ready(None) => "its maker is gone".to_owned(),
            Poll::Pending => {
                ready!(Future::poll(source.waiting.as_mut(), cx));
                count(&self.counters.timed_out);
                "request timed out".to_owned()
            }
        };
        self.source = None;
        self.ready.clear();
        count(&self.counters.broken_streams);
        tracing::warn!(reason = %broken, "streamed reply broken off");
        Poll::Ready(Err(BrokenOff { reason: broken }))
    }
}

impl Source {
    fn push(&mut self, rope: prestate_wire::Rope, out: &mut VecDeque<Bytes>) {
        for chunk in rope.chunks() {
            self.balance.push(&chunk);
        }
        self.coder.push(Part::Rope(rope), out);
    }
}

//! JSON-RPC over WebSocket (RFC 6455) on the same port: the same calls, batches, ids and errors.

use crate::{
    activity::RequestGuard,
    admission::Bytes as Budget,
    balance::Balance,
    coding::{self, Part},
    dispatch::{Answered, Answering, TAIL, error_without_id},
    envelope::{self, Incoming},
    frames::{CloseCode, Event, Fault, FrameReader, FrameWriter, Place},
    front::{Connection, Phase},
    permessage::{self, Deflater},
    reply::{self, Reply},
    stats::count,
    subscriptions::{Feed, Opening, Subscriptions},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, Bytes};
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{FuturesUnordered, SelectAll},
};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Version,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use hyper::{body::Incoming as RequestBody, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use prestate_rpc::Piece;
use prestate_rpc_api::RpcError;
use prestate_wire::{Encoding, MIN_COMPRESS_BYTES, Rope};
use sha1::{Digest, Sha1};
use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    io::{ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, timeout, timeout_at},
};

/// Messages of one socket that are worked on at a time; more wait in the socket.
const MAX_CONCURRENT: usize = 16;
/// Time the other side gets to answer our close.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// What a server appends to the key (RFC 6455 §1.3).
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

type Reader = FrameReader<ReadHalf<TokioIo<Upgraded>>>;
type Writer = FrameWriter<WriteHalf<TokioIo<Upgraded>>>;

/// Whether a request asks for a WebSocket.
pub(crate) fn wants_upgrade<B>(request: &Request<B>) -> bool {
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && lists(request.headers(), CONNECTION.as_str(), "upgrade")
        && lists(request.headers(), UPGRADE.as_str(), "websocket")
}

fn lists(headers: &HeaderMap, name: &str, wanted: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(wanted))
}

/// Answers the handshake (RFC 6455 §4.2).
pub(crate) fn upgrade(connection: &Connection, mut request: Request<RequestBody>) -> Reply {
    let headers = request.headers();
    if headers.get(SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes) != Some(b"13") {
        let mut refused = reply::text(
            StatusCode::UPGRADE_REQUIRED,
            "websocket: unsupported version: 13 not found in 'Sec-Websocket-Version' header",
        );
        refused.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return refused;
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        let text = "websocket: 'Sec-WebSocket-Key' header is missing";
        return reply::text(StatusCode::BAD_REQUEST, text);
    };
    if !connection.lane.cors.allows_socket(headers) {
        return reply::text(StatusCode::FORBIDDEN, "websocket: origin not allowed");
    }
    let digest = Sha1::new().chain_update(key).chain_update(ACCEPT_SUFFIX).finalize();
    let Ok(accept) = HeaderValue::from_str(&STANDARD.encode(digest)) else {
        return reply::empty(StatusCode::BAD_REQUEST);
    };
    let agreed = if connection.lane.config.compression {
        let offers = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter();
        permessage::agree(offers.filter_map(|offer| offer.to_str().ok()))
    } else {
        None
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let connection = connection.clone();
    tokio::spawn(async move {
        match upgraded.await {
            Ok(io) => run(connection, io, agreed.is_some()).await,
            Err(error) => tracing::debug!(%error, "websocket upgrade failed"),
        }
    });
    let mut switching = reply::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = switching.headers_mut();
    headers.remove(http::header::CONTENT_LENGTH);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(agreed) = agreed {
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(agreed));
    }
    switching
}

async fn run(connection: Connection, io: Upgraded, deflate: bool) {
    let lane = &connection.lane;
    count(&lane.counters.sockets);
    // Its own share of the connection's life: the HTTP part of it has ended.
    let _busy: RequestGuard = connection.activity.begin(false);
    let limit = usize::try_from(lane.config.max_request_bytes).unwrap_or(usize::MAX);
    let (read, write) = tokio::io::split(TokioIo::new(io));
    let mut session = Session {
        connection: &connection,
        reader: FrameReader::new(read, limit, deflate),
        writer: FrameWriter::new(write),
        deflate,
        answers: FuturesUnordered::new(),
        subscriptions: Subscriptions::new(lane.config.max_subscriptions, lane.counters.clone()),
        feeds: SelectAll::new(),
        ready: VecDeque::new(),
        owed_pong: None,
        heard: true,
    };
    let mut phase = lane.phase.clone();
    let served = async {
        let Err(Fault::Close(code, reason)) = session.serve().await else { return };
        let closed = async {
            session.writer.close(code, reason).await.ok()?;
            // If it is ours, until the other side closes too: ending with unread bytes would
            // reset the socket and the reason might be lost.
            if code != CloseCode::Normal {
                session.reader.drain().await;
            }
            Some(())
        };
        let _ = timeout(CLOSE_TIME, closed).await;
    };
    tokio::select! {
        () = served => {}
        () = Phase::closed(&mut phase) => {}
    }
}

/// An answer on its way out.
enum Outgoing {
    /// `opened` notify from then on.
    Whole {
        parts: Vec<Part>,
        opened: Vec<Feed>,
    },
    Stream {
        head: String,
        begun: Vec<Rope>,
        pieces: mpsc::Receiver<Piece>,
    },
}

/// An open socket.
struct Session<'a> {
    connection: &'a Connection,
    reader: Reader,
    writer: Writer,
    /// Whether permessage-deflate was agreed on.
    deflate: bool,
    /// Messages that are worked on.
    answers: FuturesUnordered<BoxFuture<'a, Option<Outgoing>>>,
    subscriptions: Arc<Subscriptions>,
    /// The notifications of those whose opening is answered.
    feeds: SelectAll<Feed>,
    /// Answers that wait for the socket.
    ready: VecDeque<Outgoing>,
    /// The last ping that is not answered.
    owed_pong: Option<Bytes>,
    /// Whether anything came since our last ping.
    heard: bool,
}

impl Session<'_> {
    /// Serves until the socket ends: the error says how.
    async fn serve(&mut self) -> Result<Infallible, Fault> {
        let lane = &self.connection.lane;
        let mut phase = lane.phase.clone();
        let pause = lane.config.ping_interval;
        let mut ping = interval_at(Instant::now() + pause, pause);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closing = false;
        loop {
            self.pong().await?;
            if let Some(answer) = self.ready.pop_front() {
                self.send(answer).await?;
                continue;
            }
            if closing && self.answers.is_empty() {
                return Err(Fault::Close(CloseCode::Away, "server is shutting down"));
            }
            tokio::select! {
                received = self.receive(!closing) => received?,
                _ = ping.tick() => {
                    if !std::mem::take(&mut self.heard) && self.answers.is_empty() {
                        return Err(Fault::Close(CloseCode::Policy, "no pong"));
                    }
                    self.writer.ping().await.map_err(gone)?;
                }
                () = Phase::closing(&mut phase), if !closing => closing = true,
            }
        }
    }

    /// Waits for one thing to happen: a frame, or the end of a call. Writes nothing, so it may be
    /// dropped.
    async fn receive(&mut self, read: bool) -> Result<(), Fault> {
        let room = self.answers.len() + self.ready.len() < MAX_CONCURRENT;
        tokio::select! {
            event = self.reader.next(), if read && room => {
                self.heard = true;
                match event? {
                    Event::Message(message) => {
                        let opening = Opening::new(&self.subscriptions);
                        self.answers.push(Box::pin(answer(self.connection, message, opening)));
                    }
                    Event::Ping(payload) => self.owed_pong = Some(payload),
                    Event::Pong => {}
                    Event::Close => return Err(Fault::Close(CloseCode::Normal, "")),
                }
            }
            Some(answer) = self.answers.next() => self.ready.extend(answer),
            // One at a time: what a slow client does not take waits with the service.
            Some(parts) = self.feeds.next(), if self.ready.is_empty() => {
                self.ready.push_back(Outgoing::Whole { parts, opened: Vec::new() });
            }
            else => std::future::pending::<()>().await,
        }
        Ok(())
    }

    async fn pong(&mut self) -> Result<(), Fault> {
        match self.owed_pong.take() {
            Some(payload) => self.writer.pong(&payload).await.map_err(gone),
            None => Ok(()),
        }
    }

    /// Sends one answer as one message.
    async fn send(&mut self, answer: Outgoing) -> Result<(), Fault> {
        match answer {
            Outgoing::Whole { parts, opened } => {
                self.send_whole(parts).await?;
                self.feeds.extend(opened);
                Ok(())
            }
            Outgoing::Stream { head, begun, pieces } => self.send_stream(head, begun, pieces).await,
        }
    }

    async fn send_whole(&mut self, mut parts: Vec<Part>) -> Result<(), Fault> {
        let lane = &self.connection.lane;
        let mut reserved = lane.gates.reserve(Budget::Replies);
        if let Err(error) = reserved.grow(parts.iter().map(Part::len).sum()) {
            count(&lane.counters.overloaded);
            parts = vec![Part::text(error_without_id(&error))];
        }
        let compressed =
            self.deflate && parts.iter().map(Part::len).sum::<u64>() >= MIN_COMPRESS_BYTES;
        let mut payload = if compressed {
            coding::deflate(parts).await.map_err(broken)?
        } else {
            vec![coding::encode(parts, Encoding::Identity).await.into_buf()]
        };
        let len = payload.iter().map(Buf::remaining).sum::<usize>() + usize::from(compressed);
        let place = Place { first: true, last: true, compressed };
        let written = async {
            self.writer.begin(place, len).await?;
            for part in payload.drain(..) {
                self.writer.payload(part).await?;
            }
            if compressed {
                self.writer.payload(&[permessage::END][..]).await?;
            }
            self.writer.flush().await
        };
        written.await.map_err(gone)?;
        lane.counters.sent(self.coding(compressed), len as u64);
        Ok(())
    }

    /// One message in fragments, each flushed. Pings are answered between them, calls that come
    /// meanwhile run, their answers wait.
    async fn send_stream(
        &mut self,
        head: String,
        begun: Vec<Rope>,
        mut pieces: mpsc::Receiver<Piece>,
    ) -> Result<(), Fault> {
        let lane = &self.connection.lane;
        let patience = lane.config.call_timeout;
        let mut balance = Balance::default();
        let mut deflater = match self.deflate {
            true => Some(Deflater::new().map_err(broken)?),
            false => None,
        };
        self.fragment(&mut deflater, Part::text(head), true, false).await?;
        for rope in begun {
            balance.push_rope(&rope);
            self.fragment(&mut deflater, Part::Rope(rope), false, false).await?;
        }
        let mut deadline = Instant::now() + patience;
        loop {
            let piece = tokio::select! {
                piece = timeout_at(deadline, pieces.recv()) => piece,
                received = self.receive(true) => {
                    received?;
                    self.pong().await?;
                    continue;
                }
            };
            deadline = Instant::now() + patience;
            match piece {
                Ok(Some(Ok(rope))) => {
                    balance.push_rope(&rope);
                    self.fragment(&mut deflater, Part::Rope(rope), false, false).await?;
                }
                Ok(None) if balance.is_whole() => {
                    return self.fragment(&mut deflater, Part::text(TAIL), false, true).await;
                }
                // The message cannot be finished, and must not look finished.
                _ => {
                    count(&lane.counters.broken_streams);
                    return Err(Fault::Close(CloseCode::Error, "the reply was broken off"));
                }
            }
        }
    }

    async fn fragment(
        &mut self,
        deflater: &mut Option<Deflater>,
        part: Part,
        first: bool,
        last: bool,
    ) -> Result<(), Fault> {
        let compressed = deflater.is_some();
        let payload = match deflater {
            Some(deflater) => deflater.push(&part).map_err(broken)?,
            None => coding::encode(vec![part], Encoding::Identity).await.into_buf(),
        };
        let end: &[u8] = if compressed && last { &[permessage::END] } else { &[] };
        let len = payload.remaining() + end.len();
        let written = async {
            self.writer.begin(Place { first, last, compressed }, len).await?;
            self.writer.payload(payload).await?;
            self.writer.payload(end).await?;
            self.writer.flush().await
        };
        written.await.map_err(gone)?;
        self.connection.lane.counters.sent(self.coding(compressed), len as u64);
        Ok(())
    }

    fn coding(&self, compressed: bool) -> Encoding {
        if compressed { Encoding::Gzip } else { Encoding::Identity }
    }
}

fn gone(error: io::Error) -> Fault {
    tracing::debug!(%error, "websocket broke");
    Fault::Gone
}

fn broken(error: io::Error) -> Fault {
    tracing::error!(%error, "compression failed");
    Fault::Close(CloseCode::Error, "the reply was broken off")
}

/// Runs one message; `None` if it held notifications only.
async fn answer(connection: &Connection, message: Bytes, opening: Opening) -> Option<Outgoing> {
    let lane = &connection.lane;
    lane.counters.bytes_in.fetch_add(message.len() as u64, Relaxed);
    let overload = |error: &RpcError| {
        count(&lane.counters.overloaded);
        let parts = vec![Part::text(error_without_id(error))];
        Some(Outgoing::Whole { parts, opened: Vec::new() })
    };
    let mut held = lane.gates.reserve(Budget::Requests);
    if let Err(error) = held.grow(message.len() as u64) {
        return overload(&error);
    }
    let _turn = match lane.gates.enter().await {
        Ok(turn) => turn,
        Err(error) => return overload(&error),
    };
    let Answered { body, .. } = match envelope::parse(&message, lane.config.max_batch_len) {
        Ok(Incoming::Single(entry)) => lane.dispatcher.single(&entry, Some(&opening)).await,
        Ok(Incoming::Batch(entries)) => lane.dispatcher.batch(&entries, Some(&opening)).await,
        Err(refusal) => lane.dispatcher.refuse(&refusal),
    };
    match body {
        // Nobody was told of the subscriptions that a notification opened: they end here.
        Answering::Nothing => None,
        Answering::Whole(parts) => {
            let opened = opening.finish();
            Some(Outgoing::Whole { parts, opened })
        }
        Answering::Stream { head, begun, pieces } => Some(Outgoing::Stream { head, begun, pieces }),
    }
}

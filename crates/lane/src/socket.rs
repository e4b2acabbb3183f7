//! JSON-RPC over WebSocket (RFC 6455) on the same port: the same calls, batches, ids and errors.

use crate::{
    activity::RequestGuard,
    admission::Bytes as Budget,
    balance::Balance,
    coding::Part,
    dispatch::{Answering, TAIL, error_without_id},
    envelope::{self, Incoming},
    front::{Connection, Phase},
    reply::{self, Reply},
    stats::count,
};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt, stream::FuturesUnordered};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Version,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use hyper::body::Incoming as RequestBody;
use hyper_util::rt::TokioIo;
use prestate_rpc_api::RpcError;
use prestate_wire::{Encoding, Rope};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        error::CapacityError,
        handshake::derive_accept_key,
        protocol::{
            CloseFrame, Role, WebSocketConfig,
            frame::{
                Frame,
                coding::{CloseCode, Data, OpCode},
            },
        },
    },
};

/// Messages of one socket that are worked on at a time; more wait in the socket.
const MAX_CONCURRENT: usize = 16;
/// Time the other side gets to answer our close.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// A message goes out in frames of about this size, so that a reply is not copied as one.
const FRAME_BYTES: usize = 256 * 1024;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

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
    let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
        return reply::empty(StatusCode::BAD_REQUEST);
    };
    let upgraded = hyper::upgrade::on(&mut request);
    let connection = connection.clone();
    tokio::spawn(async move {
        match upgraded.await {
            Ok(io) => run(connection, io).await,
            Err(error) => tracing::debug!(%error, "websocket upgrade failed"),
        }
    });
    let mut switching = reply::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = switching.headers_mut();
    headers.remove(http::header::CONTENT_LENGTH);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    switching
}

async fn run(connection: Connection, io: hyper::upgrade::Upgraded) {
    let lane = &connection.lane;
    count(&lane.counters.sockets);
    // Its own share of the connection's life: the HTTP part of it has ended.
    let _busy: RequestGuard = connection.activity.begin(false);
    let limit = usize::try_from(lane.config.max_request_bytes).unwrap_or(usize::MAX);
    let config = WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit))
        // Frames go out at once; the write timeout sees a reader that stopped.
        .write_buffer_size(0);
    let mut socket =
        WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, Some(config)).await;
    let mut phase = lane.phase.clone();
    let session = async {
        let Some((code, reason)) = serve(&connection, &mut socket).await else { return };
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = tokio::time::timeout(lane.config.write_timeout, socket.close(Some(frame))).await;
        // Until the other side closes too: closing with unread bytes would reset the socket and
        // the reason might be lost.
        let _ = tokio::time::timeout(CLOSE_TIME, async {
            while let Some(Ok(_)) = socket.next().await {}
        })
        .await;
    };
    tokio::select! {
        () = session => {}
        () = Phase::closed(&mut phase) => {}
    }
}

/// Serves until the socket ends; a code if we are the ones to end it.
async fn serve(connection: &Connection, socket: &mut Socket) -> Option<(CloseCode, &'static str)> {
    let lane = &connection.lane;
    let mut phase = lane.phase.clone();
    let pause = lane.config.ping_interval;
    let mut ping = interval_at(Instant::now() + pause, pause);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Whether anything came since the last ping.
    let mut heard = true;
    let mut closing = false;
    let mut answers = FuturesUnordered::new();
    loop {
        if closing && answers.is_empty() {
            return Some((CloseCode::Away, "server is shutting down"));
        }
        tokio::select! {
            message = socket.next(), if !closing && answers.len() < MAX_CONCURRENT => {
                heard = true;
                match message {
                    Some(Ok(Message::Text(text))) => {
                        answers.push(answer(connection, text.into()));
                    }
                    Some(Ok(Message::Binary(bytes))) => answers.push(answer(connection, bytes)),
                    // Pings are answered, and closes too, by the library while it reads.
                    Some(Ok(_)) => {}
                    Some(Err(tungstenite::Error::Capacity(CapacityError::MessageTooLong {
                        ..
                    }))) => return Some((CloseCode::Size, "message too large")),
                    Some(Err(tungstenite::Error::Utf8(_))) => {
                        return Some((CloseCode::Invalid, "text is not UTF-8"));
                    }
                    Some(Err(tungstenite::Error::Protocol(_))) => {
                        return Some((CloseCode::Protocol, "protocol error"));
                    }
                    Some(Err(_)) | None => return None,
                }
            }
            Some(answer) = answers.next() => {
                if let Some(answer) = answer
                    && let Err(close) = send(connection, socket, answer).await
                {
                    return close;
                }
            }
            _ = ping.tick() => {
                if !std::mem::take(&mut heard) && answers.is_empty() {
                    return Some((CloseCode::Policy, "no pong"));
                }
                if socket.send(Message::Ping(Bytes::new())).await.is_err() {
                    return None;
                }
            }
            () = Phase::closing(&mut phase), if !closing => closing = true,
        }
    }
}

/// Runs one message.
async fn answer(connection: &Connection, message: Bytes) -> Option<Answering> {
    let lane = &connection.lane;
    lane.counters.bytes_in.fetch_add(message.len() as u64, Relaxed);
    let overload = |error: &RpcError| {
        count(&lane.counters.overloaded);
        Some(Answering::Whole(vec![Part::text(error_without_id(error))]))
    };
    let mut held = lane.gates.reserve(Budget::Requests);
    if let Err(error) = held.grow(message.len() as u64) {
        return overload(&error);
    }
    let _turn = match lane.gates.enter().await {
        Ok(turn) => turn,
        Err(error) => return overload(&error),
    };
    let answered = match envelope::parse(&message, lane.config.max_batch_len) {
        Ok(Incoming::Single(entry)) => lane.dispatcher.single(&entry).await,
        Ok(Incoming::Batch(entries)) => lane.dispatcher.batch(&entries).await,
        Err(refusal) => lane.dispatcher.refuse(&refusal),
    };
    match answered.body {
        Answering::Nothing => None,
        body => Some(body),
    }
}

/// Sends one answer as one message. An error ends the socket, with a code if one can be sent.
async fn send(
    connection: &Connection,
    socket: &mut Socket,
    answer: Answering,
) -> Result<(), Option<(CloseCode, &'static str)>> {
    let lane = &connection.lane;
    let mut reserved = lane.gates.reserve(Budget::Replies);
    let mut message = Fragments { socket, begun: false, pending: BytesMut::new(), sent: 0 };
    let sent = match answer {
        Answering::Nothing => return Ok(()),
        Answering::Whole(parts) => {
            let len = parts.iter().map(Part::len).sum();
            let parts = match reserved.grow(len) {
                Ok(()) => parts,
                Err(error) => {
                    count(&lane.counters.overloaded);
                    vec![Part::text(error_without_id(&error))]
                }
            };
            for part in parts {
                let pushed = match part {
                    Part::Text(text) => message.push(text).await,
                    Part::Rope(rope) => message.push_rope(&rope).await,
                };
                pushed.map_err(|_| None)?;
            }
            message.finish().await
        }
        Answering::Stream { head, begun, mut pieces } => {
            let mut balance = Balance::default();
            message.push(head.into()).await.map_err(|_| None)?;
            for rope in begun {
                balance.push_rope(&rope);
                message.push_rope(&rope).await.map_err(|_| None)?;
            }
            loop {
                let piece = tokio::time::timeout(lane.config.call_timeout, pieces.recv()).await;
                match piece {
                    Ok(Some(Ok(rope))) => {
                        balance.push_rope(&rope);
                        message.push_rope(&rope).await.map_err(|_| None)?;
                        message.flush().await.map_err(|_| None)?;
                    }
                    Ok(None) if balance.is_whole() => break,
                    // The message cannot be finished, and must not look finished.
                    _ => {
                        count(&lane.counters.broken_streams);
                        return Err(Some((CloseCode::Error, "the reply was broken off")));
                    }
                }
            }
            message.push(TAIL.into()).await.map_err(|_| None)?;
            message.finish().await
        }
    };
    let sent = sent.map_err(|_| None)?;
    lane.counters.sent(Encoding::Identity, sent);
    Ok(())
}

/// A text message on its way, in frames.
struct Fragments<'a> {
    socket: &'a mut Socket,
    begun: bool,
    pending: BytesMut,
    sent: u64,
}

impl Fragments<'_> {
    async fn push(&mut self, chunk: Bytes) -> Result<(), tungstenite::Error> {
        self.sent += chunk.len() as u64;
        if chunk.len() >= FRAME_BYTES {
            self.flush().await?;
            return self.frame(chunk, false).await;
        }
        self.pending.extend_from_slice(&chunk);
        if self.pending.len() >= FRAME_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn push_rope(&mut self, rope: &Rope) -> Result<(), tungstenite::Error> {
        for chunk in rope.chunks() {
            self.push(chunk).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), tungstenite::Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = self.pending.split().freeze();
        self.frame(chunk, false).await
    }

    async fn finish(mut self) -> Result<u64, tungstenite::Error> {
        let chunk = self.pending.split().freeze();
        self.frame(chunk, true).await?;
        Ok(self.sent)
    }

    async fn frame(&mut self, chunk: Bytes, last: bool) -> Result<(), tungstenite::Error> {
        let kind = if self.begun { Data::Continue } else { Data::Text };
        self.begun = true;
        self.socket.send(Message::Frame(Frame::message(chunk, OpCode::Data(kind), last))).await
    }
}

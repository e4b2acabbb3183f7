//! HTTP answers: status, headers, body.

use crate::{
    admission::{Bytes as Budget, Gates, Turn},
    body::{ReplyBody, Source, StreamBody},
    coding,
    dispatch::{Answered, Answering, Summary, TAIL, error_without_id},
    metrics,
    stats::{Counters, count},
};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use prestate_rpc_api::RpcError;
use prestate_wire::{BodyStream, Encoding};
use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// What a reply needs of its request and of the lane.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) encoding: Encoding,
    pub(crate) parse: Duration,
    pub(crate) patience: Duration,
    pub(crate) turn: Option<Turn>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) counters: Arc<Counters>,
}

pub(crate) type Reply = Response<ReplyBody>;

fn response(status: StatusCode, kind: Option<HeaderValue>, body: ReplyBody) -> Reply {
    let length = body.len();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(kind) = kind {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    if let Some(length) = length.filter(|_| status != StatusCode::NO_CONTENT) {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    response
}

/// Nothing but a status.
pub(crate) fn empty(status: StatusCode) -> Reply {
    response(status, None, ReplyBody::full(""))
}

/// One line of text, as Go's `http.Error` sends it.
pub(crate) fn text(status: StatusCode, line: &str) -> Reply {
    response(status, Some(TEXT), ReplyBody::full(format!("{line}\n")))
}

/// A page.
pub(crate) fn html(page: &'static str) -> Reply {
    response(StatusCode::OK, Some(HTML), ReplyBody::full(page))
}

/// Prometheus' text (its exposition formats, "Basic info").
pub(crate) fn metrics(text: String) -> Reply {
    const KIND: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response(StatusCode::OK, Some(KIND), ReplyBody::full(text))
}

/// Small JSON of our own.
pub(crate) fn json(status: StatusCode, body: String) -> Reply {
    response(status, Some(JSON), ReplyBody::full(body))
}

/// A JSON-RPC error with a status of its own.
pub(crate) fn refusal(status: StatusCode, error: &RpcError) -> Reply {
    json(status, error_without_id(error))
}

/// Too much going on: always the same form (erigon#20303).
pub(crate) fn overload(error: &RpcError, counters: &Counters) -> Reply {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, error);
    come_back(&mut response, counters);
    response
}

/// Makes a reply one of overload, whatever its body says.
pub(crate) fn come_back(response: &mut Reply, counters: &Counters) {
    count(&counters.overloaded);
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
}

/// The answer to a JSON-RPC request or, without a head, a bare result.
pub(crate) async fn answer(answered: Answered, context: Context) -> Reply {
    let Answered { body, summary, overload } = answered;
    let mut reserved = context.gates.reserve(Budget::Replies);
    match body {
        Answering::Nothing => empty(StatusCode::NO_CONTENT),
        Answering::Whole(parts) => {
            let begun = Instant::now();
            let body = coding::encode(parts, context.encoding).await;
            let compress = begun.elapsed();
            if let Err(error) = reserved.grow(body.len()) {
                return self::overload(&error, &context.counters);
            }
            let (encoding, text_len) = (body.encoding(), body.text_len());
            let mut response =
                response(StatusCode::OK, Some(JSON), ReplyBody::whole(body, Some(reserved)));
            metrics::compressed(encoding, compress);
            let timed = (encoding != Encoding::Identity).then_some(compress);
            describe(&mut response, &summary, context.parse, timed);
            response.headers_mut().insert("x-response-size", text_len.into());
            encoded(&mut response, encoding);
            if overload {
                come_back(&mut response, &context.counters);
            }
            response
        }
        Answering::Stream { head, begun, pieces } => {
            let tail = if head.is_empty() { "" } else { TAIL };
            let coder = match BodyStream::new(context.encoding) {
                Ok(coder) => coder,
                Err(error) => {
                    tracing::error!(%error, "no memory to compress a stream");
                    return self::overload(&RpcError::server("out of memory"), &context.counters);
                }
            };
            let Context { patience, gates, counters, turn, encoding, parse } = context;
            let source = Source::new(head, begun, pieces, tail, coder);
            let stream = StreamBody::new(source, patience, gates, counters, turn);
            let mut response = response(StatusCode::OK, Some(JSON), ReplyBody::stream(stream));
            describe(&mut response, &summary, parse, None);
            encoded(&mut response, encoding);
            response
        }
    }
}

fn encoded(response: &mut Reply, encoding: Encoding) {
    if let Some(name) = encoding.header() {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
}

/// `Server-Timing` (milliseconds, W3C) and the header that debug-trace-server sends.
fn describe(response: &mut Reply, summary: &Summary, parse: Duration, compress: Option<Duration>) {
    let Summary { timing, hits, misses } = summary;
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let mut value = format!("parse;dur={:.3}", ms(parse));
    for (name, duration) in [("exec", timing.execute), ("encode", timing.encode)] {
        if !duration.is_zero() {
            let _ = write!(value, ", {name};dur={:.3}", ms(duration));
        }
    }
    if let Some(compress) = compress {
        let _ = write!(value, ", compress;dur={:.3}", ms(compress));
    }
    match (hits, misses) {
        (0, 0) => {}
        (_, 0) => value.push_str(", cache;desc=hit"),
        _ => value.push_str(", cache;desc=miss"),
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert("server-timing", value);
    }
    let execution = u64::try_from(timing.execute.as_nanos()).unwrap_or(u64::MAX);
    headers.insert("x-execution-time-ns", execution.into());
}

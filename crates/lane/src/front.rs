//! From an HTTP request to a reply.

use crate::{
    LaneConfig, MetricsText,
    activity::{Activity, RequestGuard},
    admission::{Bytes as Budget, Gates, Reservation, Turn},
    body::Held,
    cors::Cors,
    dispatch::{Answered, Answering, Dispatcher, Summary, is_overload},
    envelope::{self, Incoming, Refusal},
    metrics,
    reply::{self, Context, Reply},
    request_body::{self, BodyFault},
    resources::{self, Resource},
    server::Slot,
    socket,
    stats::{Counters, count},
    vhost::VirtualHosts,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Version,
    header::{
        ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG,
        ORIGIN, VARY,
    },
};
use hyper::body::Incoming as RequestBody;
use prestate_rpc::Call;
use prestate_rpc_api::{RpcError, code};
use prestate_wire::{Encoding, NotAcceptable, negotiate};
use serde_json::value::RawValue;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use tokio::sync::watch;

/// `Content-Type`s that are JSON-RPC: Geth's list (`rpc/http.go`, acceptedContentTypes).
const CONTENT_TYPES: [&str; 3] =
    ["application/json", "application/json-rpc", "application/jsonrequest"];

/// How far the lane is with ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// No new requests, those begun are finished.
    Closing,
    /// Everything is dropped.
    Closed,
}

impl Phase {
    /// Comes back once the lane has left [`Phase::Open`].
    pub(crate) async fn closing(phase: &mut watch::Receiver<Self>) {
        // An error says the lane is gone altogether.
        let _ = phase.wait_for(|phase| *phase != Self::Open).await;
    }

    /// Comes back once the lane has reached [`Phase::Closed`].
    pub(crate) async fn closed(phase: &mut watch::Receiver<Self>) {
        let _ = phase.wait_for(|phase| *phase == Self::Closed).await;
    }
}

/// All that connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: LaneConfig,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) cors: Cors,
    pub(crate) vhosts: VirtualHosts,
    pub(crate) gates: Arc<Gates>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// What a connection's requests share.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) lane: Arc<Shared>,
    pub(crate) activity: Arc<Activity>,
    /// A unix socket: who may open it is a matter of the file's mode, `Host` means nothing there.
    pub(crate) local: bool,
    /// Kept by a WebSocket that outlives its HTTP connection.
    pub(crate) _slot: Arc<Slot>,
}

impl Connection {
    /// Serves one request.
    pub(crate) async fn serve(self, request: Request<RequestBody>) -> Reply {
        let http2 = request.version() == Version::HTTP_2;
        let guard = self.activity.begin(http2);
        count(&self.lane.counters.requests);
        let origin = request.headers().get(ORIGIN).cloned();
        let mut reply = self.route(request).await;
        self.finish(&mut reply, origin.as_ref(), guard);
        reply
    }

    /// What every reply carries.
    fn finish(&self, reply: &mut Reply, origin: Option<&HeaderValue>, guard: RequestGuard) {
        let lane = &self.lane;
        // A preflight has said all of this already.
        if !reply.headers().contains_key(VARY) {
            lane.cors.decorate(origin, reply.headers_mut());
            // One header, always: caches must not mix up codings or origins.
            let vary =
                if lane.cors.is_off() { "accept-encoding" } else { "accept-encoding, origin" };
            reply.headers_mut().insert(VARY, HeaderValue::from_static(vary));
        }
        let encoding = match reply.headers().get("content-encoding").map(HeaderValue::as_bytes) {
            Some(b"gzip") => Encoding::Gzip,
            Some(b"zstd") => Encoding::Zstd,
            _ => Encoding::Identity,
        };
        if reply.status() != StatusCode::SWITCHING_PROTOCOLS {
            let counters = Arc::clone(&lane.counters);
            reply.body_mut().hold(Held::new(guard, counters, encoding));
        }
    }

    async fn route(&self, request: Request<RequestBody>) -> Reply {
        let lane = &self.lane;
        if !self.local && !lane.vhosts.allows(request.uri(), request.headers()) {
            return reply::text(StatusCode::FORBIDDEN, "invalid host specified");
        }
        // Before the token: browsers send none with a preflight.
        if let Some(headers) = lane.cors.preflight(&request) {
            let mut preflight = reply::empty(StatusCode::OK);
            preflight.headers_mut().extend(headers);
            preflight.headers_mut().insert(
                VARY,
                HeaderValue::from_static(
                    "accept-encoding, origin, access-control-request-method, \
                     access-control-request-headers",
                ),
            );
            return preflight;
        }
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        // For load balancers, which hold no token.
        match request.uri().path() {
            "/health" if read => return reply::json(StatusCode::OK, r#"{"status":"ok"}"#.into()),
            "/ready" if read => return self.ready().await,
            "/metrics" if read && lane.config.metrics.is_some() => return self.metrics(),
            _ => {}
        }
        if let Err(fault) = self.authorize(request.headers()) {
            return reply::text(StatusCode::UNAUTHORIZED, fault);
        }
        match request.uri().path() {
            "/" if socket::wants_upgrade(&request) => socket::upgrade(self, request),
            "/" if request.method() == Method::POST => self.rpc(request).await,
            "/" if read => reply::html(include_str!("page.html")),
            // Geth answers any OPTIONS with an empty 200.
            "/" if request.method() == Method::OPTIONS => reply::empty(StatusCode::OK),
            "/" => not_allowed("GET, HEAD, POST, OPTIONS"),
            "/metrics" if lane.config.metrics.is_some() => not_allowed("GET, HEAD"),
            "/health" | "/ready" => not_allowed("GET, HEAD"),
            path => match Resource::parse(path) {
                None => reply::empty(StatusCode::NOT_FOUND),
                Some(_) if !read => not_allowed("GET, HEAD"),
                Some(resource) => self.resource(&resource, request.headers()).await,
            },
        }
    }

    fn metrics(&self) -> Reply {
        let lane = &self.lane;
        metrics::publish(&lane.counters.read(), lane.gates.waiting());
        let text = lane.config.metrics.as_ref().map(MetricsText::render);
        reply::metrics(text.unwrap_or_default())
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let Some(secret) = &self.lane.config.jwt_secret else { return Ok(()) };
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        secret.check(value, now)
    }

    /// Whether calls are answered: `prestate_status` is asked where the service has it.
    async fn ready(&self) -> Reply {
        let lane = &self.lane;
        let fault = if *lane.phase.borrow() != Phase::Open {
            Some(RpcError::server("server is shutting down"))
        } else if lane.dispatcher.has("prestate_status") {
            lane.dispatcher
                .run_unrestricted(Call { method: "prestate_status", params: None })
                .await
                .err()
        } else {
            None
        };
        match fault {
            None => reply::json(StatusCode::OK, r#"{"status":"ready"}"#.into()),
            Some(error) => reply::json(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(r#"{{"status":"not ready","error":{}}}"#, error.to_json()),
            ),
        }
    }

    /// Waits for a turn.
    async fn turn(&self) -> Result<Turn, Reply> {
        self.lane.gates.enter().await.map_err(|error| reply::overload(&error, &self.lane.counters))
    }

    fn coding(&self, headers: &HeaderMap) -> Result<Encoding, NotAcceptable> {
        if !self.lane.config.compression {
            return Ok(Encoding::Identity);
        }
        let mut values = headers.get_all(ACCEPT_ENCODING).iter();
        let Some(first) = values.next() else { return Ok(Encoding::Identity) };
        // Several headers are one list (RFC 9110 §5.3). What is no ASCII names no coding of ours.
        let mut joined = first.to_str().unwrap_or_default().to_owned();
        for value in values {
            joined.push(',');
            joined.push_str(value.to_str().unwrap_or_default());
        }
        negotiate(Some(&joined))
    }

    fn context(&self, encoding: Encoding, turn: Turn) -> Context {
        Context {
            encoding,
            parse: Default::default(),
            patience: self.lane.config.call_timeout,
            turn: Some(turn),
            gates: Arc::clone(&self.lane.gates),
            counters: Arc::clone(&self.lane.counters),
        }
    }

    async fn rpc(&self, request: Request<RequestBody>) -> Reply {
        let lane = &self.lane;
        if !is_json(request.headers()) {
            return reply::text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "invalid content type, only application/json is supported",
            );
        }
        let encoding = match self.coding(request.headers()) {
            Ok(encoding) => encoding,
            Err(refused) => return not_acceptable(refused),
        };
        let (body, held) = match self.body(request).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let turn = match self.turn().await {
            Ok(turn) => turn,
            Err(refused) => return refused,
        };
        let begun = Instant::now();
        let incoming = envelope::parse(&body, lane.config.max_batch_len);
        let parse = begun.elapsed();
        let answered = match &incoming {
            Ok(Incoming::Single(entry)) => lane.dispatcher.single(entry, None).await,
            Ok(Incoming::Batch(entries)) => lane.dispatcher.batch(entries, None).await,
            Err(refusal) => lane.dispatcher.refuse(refusal),
        };
        drop(incoming);
        drop((body, held));
        reply::answer(answered, Context { parse, ..self.context(encoding, turn) }).await
    }

    async fn body(&self, request: Request<RequestBody>) -> Result<(Bytes, Reservation), Reply> {
        let lane = &self.lane;
        let config = &lane.config;
        let mut reserved = lane.gates.reserve(Budget::Requests);
        let limit = config.max_request_bytes;
        let taken =
            request_body::collect(request.into_body(), limit, config.body_timeout, &mut reserved)
                .await;
        let refused = match taken {
            Ok(body) => {
                lane.counters.bytes_in.fetch_add(body.len() as u64, Relaxed);
                return Ok((body, reserved));
            }
            Err(BodyFault::TooLarge { given }) => {
                // Geth's text.
                let text = format!("content length too large ({given}>{limit})");
                let error = RpcError::limit(text, "http-body-limit", limit, given);
                reply::refusal(StatusCode::PAYLOAD_TOO_LARGE, &error)
            }
            Err(BodyFault::TimedOut) => {
                let error = RpcError::new(code::TIMEOUT, "request body timed out");
                reply::refusal(StatusCode::REQUEST_TIMEOUT, &error)
            }
            Err(BodyFault::Overload(error)) => reply::overload(&error, &lane.counters),
            Err(BodyFault::Broken) => {
                let error = RpcError::new(code::PARSE, "read error");
                reply::refusal(StatusCode::BAD_REQUEST, &error)
            }
        };
        Err(closing(refused))
    }

    async fn resource(&self, resource: &Resource, headers: &HeaderMap) -> Reply {
        let lane = &self.lane;
        let encoding = match self.coding(headers) {
            Ok(encoding) => encoding,
            Err(refused) => return not_acceptable(refused),
        };
        let immutable = |reply: &mut Reply, encoding| {
            if let Ok(etag) = HeaderValue::from_str(&resource.etag(encoding)) {
                reply.headers_mut().insert(ETAG, etag);
            }
            reply.headers_mut().insert(CACHE_CONTROL, resources::IMMUTABLE);
        };
        if resource.is_held(headers) {
            let mut unchanged = reply::empty(StatusCode::NOT_MODIFIED);
            unchanged.headers_mut().remove("content-length");
            immutable(&mut unchanged, encoding);
            return unchanged;
        }
        let turn = match self.turn().await {
            Ok(turn) => turn,
            Err(refused) => return refused,
        };
        let (method, params) = resource.call();
        let params = RawValue::from_string(params).ok();
        let call = Call { method, params: params.as_deref() };
        match lane.dispatcher.resource(call).await {
            Err(error) => {
                let status = resources::status(&error);
                let mut failed = reply::json(status, format!("{{\"error\":{}}}", error.to_json()));
                failed.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                if is_overload(&error) {
                    reply::come_back(&mut failed, &lane.counters);
                }
                failed
            }
            Ok((body, summary)) => {
                let answered = Answered { body, summary, overload: false };
                let mut found = reply::answer(answered, self.context(encoding, turn)).await;
                if found.status() == StatusCode::OK {
                    let encoding = if found.headers().contains_key("content-encoding") {
                        encoding
                    } else {
                        Encoding::Identity
                    };
                    immutable(&mut found, encoding);
                }
                found
            }
        }
    }
}

impl Dispatcher {
    pub(crate) fn refuse(&self, refusal: &Refusal<'_>) -> Answered {
        use crate::coding::Part;
        let error = refusal.error();
        let parts = match refusal {
            Refusal::BatchTooLong { id, .. } => {
                let mut parts = vec![Part::text("[")];
                parts.extend(self.error(id, &error));
                parts.push(Part::text("]"));
                parts
            }
            _ => self.error(envelope::NULL_ID, &error),
        };
        Answered { body: Answering::Whole(parts), summary: Summary::default(), overload: false }
    }
}

fn not_acceptable(refused: NotAcceptable) -> Reply {
    reply::text(StatusCode::NOT_ACCEPTABLE, &refused.to_string())
}

fn not_allowed(methods: &'static str) -> Reply {
    let mut refused = reply::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    closing(refused)
}

/// The rest of the request is not read: no further one can follow it.
fn closing(mut refused: Reply) -> Reply {
    refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    refused
}

/// The media type alone counts, its parameters do not.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(CONTENT_TYPE).map(HeaderValue::to_str) else { return false };
    let kind = value.split(';').next().unwrap_or_default().trim();
    CONTENT_TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

use crate::JwtSecret;
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// `--http.port`: the port every Ethereum client listens on.
pub const DEFAULT_PORT: u16 = 8545;
/// `--http.vhosts`: Geth's default; guards a local node against DNS rebinding.
pub const DEFAULT_VHOST: &str = "localhost";
/// `--rpc.http-body-limit`: Geth's default (`rpc/http.go`, `defaultBodyLimit`).
pub const DEFAULT_MAX_REQUEST_BYTES: u64 = 5 * 1024 * 1024;
/// `--rpc.batch-request-limit`: Geth's default.
pub const DEFAULT_MAX_BATCH_LEN: usize = 1000;
/// `--rpc.max-response-size`: reth's default, 160 MB. Traces of 106-160 MB are met in practice
/// (paradigmxyz/reth#3847, #6268); what is larger comes from streamed methods.
pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = 160 * 1024 * 1024;
/// `--rpc.batch-response-max-size`: room for 50 blocks of 5 MB. Geth's 25 MB would hold five.
pub const DEFAULT_MAX_BATCH_RESPONSE_BYTES: u64 = 256 * 1024 * 1024;
/// Entries of one batch that run at a time: debug-trace-server's `--batch-item-concurrency`.
pub const DEFAULT_BATCH_CONCURRENCY: usize = 16;
/// `--rpc.max-connections`: reth's default.
pub const DEFAULT_MAX_CONNECTIONS: usize = 500;
/// `--rpc.max-subscriptions-per-connection`: reth's default.
pub const DEFAULT_MAX_SUBSCRIPTIONS: usize = 1024;
/// Requests that run at a time: debug-trace-server's `--admission-max-concurrent`. It bounds
/// memory, not work: work is bounded where it is done, and a hit costs microseconds.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 640;
/// Requests that wait for their turn: debug-trace-server's `--admission-max-queue`.
pub const DEFAULT_MAX_QUEUE: usize = 8192;
/// Bytes of request bodies and messages held at a time: 50 bodies of the largest size.
pub const DEFAULT_REQUEST_BYTES_IN_FLIGHT: u64 = 256 * 1024 * 1024;
/// Bytes of replies held for clients that have not read them: 25 of the largest size. Much of it
/// is shared with the cache.
pub const DEFAULT_RESPONSE_BYTES_IN_FLIGHT: u64 = 4 * 1024 * 1024 * 1024;
/// Time for a request's headers to arrive: Geth's `ReadHeaderTimeout`.
pub const DEFAULT_HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a request's body to arrive: Geth's `ReadTimeout`.
pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time an idle connection stays open: Geth's `IdleTimeout`. Clients keep idle sockets for 90 s
/// (reqwest, Go); a server that closes earlier breaks the request that races the close
/// (hyperium/hyper#2136).
pub const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time a client may take for the next 256 KiB of its reply: Geth's `WriteTimeout`, but renewed by
/// progress, so that slow clients finish and stopped ones do not pin a reply.
pub const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time a call may run, or a streamed one may take for its next piece: Erigon's
/// `--rpc.evmtimeout`.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Pause between WebSocket pings, and the time the pong may take: Geth's `wsPingInterval`.
pub const DEFAULT_PING_INTERVAL: Duration = Duration::from_secs(30);

/// What `/metrics` answers: Prometheus' text format, version 0.0.4. Called for every scrape.
///
/// The lane records into the `metrics` facade and knows no exporter; the program brings one:
///
/// ```ignore
/// let recorder = PrometheusBuilder::new().build_recorder();
/// let handle = recorder.handle();
/// metrics::set_global_recorder(recorder)?;
/// let metrics = MetricsText::new(move || handle.render());
/// ```
#[derive(Clone)]
pub struct MetricsText(Arc<dyn Fn() -> String + Send + Sync>);

impl MetricsText {
    /// From what renders the series.
    pub fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    pub(crate) fn render(&self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsText")
    }
}

/// Where and how to serve. Field names follow Geth's and reth's flags, the comments name them.
#[derive(Debug, Clone)]
pub struct LaneConfig {
    /// `--http.addr`, `--http.port`; port 0 takes a free one.
    pub addr: SocketAddr,
    /// `--http.uds`: also serve HTTP on this unix socket, mode 0600, without Host check.
    pub uds: Option<PathBuf>,
    /// `--http.corsdomain`: origins that may call from a browser; `*` for any. Empty: none.
    pub corsdomain: Vec<String>,
    /// `--http.vhosts`: values of `Host` that are served, lower-cased and without port; `*` for
    /// any. IP literals always pass.
    pub vhosts: Vec<String>,
    /// `--http.api`: namespaces (`debug`) or methods (`debug_traceTransaction`) to serve. `None`:
    /// all of the service. Others answer as unknown methods do.
    pub api: Option<Vec<String>>,
    /// `--http.jwtsecret`: ask for a bearer token (HS256) on every request but `/health`,
    /// `/ready`, `/metrics` and CORS preflights.
    pub jwt_secret: Option<JwtSecret>,
    /// What `/metrics` answers; 404 without. Series are looked up when the lane is bound, so the
    /// recorder is to be installed before.
    ///
    /// No token is asked for: a scraper cannot make one anew for every scrape, and the text holds
    /// counts only. The `Host` check applies, so a scraper that comes by a name needs it among
    /// `vhosts`. Where the port is open to the world, a proxy in front keeps the path back.
    pub metrics: Option<MetricsText>,
    /// `--http.compression`: answer in gzip or zstd when the client asks.
    pub compression: bool,
    /// `--rpc.http-body-limit`: bytes of one request body or WebSocket message.
    pub max_request_bytes: u64,
    /// `--rpc.batch-request-limit`: entries of one batch.
    pub max_batch_len: usize,
    /// Entries of one batch that run at a time.
    pub batch_concurrency: usize,
    /// `--rpc.max-response-size`: bytes of one result before compression. Streamed results are
    /// not held and not limited by it.
    pub max_response_bytes: u64,
    /// `--rpc.batch-response-max-size`: bytes of all results of one batch before compression.
    pub max_batch_response_bytes: u64,
    /// `--rpc.max-connections`, WebSockets included.
    pub max_connections: usize,
    /// `--rpc.max-subscriptions-per-connection`: open at a time.
    pub max_subscriptions: usize,
    /// Requests that run at a time.
    pub max_in_flight: usize,
    /// Requests that may wait for their turn; one more answers 503.
    pub max_queue: usize,
    /// Bytes of request bodies held at a time; more answers 503.
    pub max_request_bytes_in_flight: u64,
    /// Bytes of replies that wait for their readers; more answers 503.
    pub max_response_bytes_in_flight: u64,
    /// Time for a request's headers to arrive.
    pub header_timeout: Duration,
    /// Time for a request's body to arrive.
    pub body_timeout: Duration,
    /// Time an idle connection stays open.
    pub idle_timeout: Duration,
    /// Time a client may take for the next 256 KiB of its reply.
    pub write_timeout: Duration,
    /// Time a call may run before it answers -32002 and is dropped.
    pub call_timeout: Duration,
    /// Pause between WebSocket pings, and the time the pong may take.
    pub ping_interval: Duration,
}

impl Default for LaneConfig {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            uds: None,
            corsdomain: Vec::new(),
            vhosts: vec![DEFAULT_VHOST.to_owned()],
            api: None,
            jwt_secret: None,
            metrics: None,
            compression: true,
            max_request_bytes: DEFAULT_MAX_REQUEST_BYTES,
            max_batch_len: DEFAULT_MAX_BATCH_LEN,
            batch_concurrency: DEFAULT_BATCH_CONCURRENCY,
            max_response_bytes: DEFAULT_MAX_RESPONSE_BYTES,
            max_batch_response_bytes: DEFAULT_MAX_BATCH_RESPONSE_BYTES,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_subscriptions: DEFAULT_MAX_SUBSCRIPTIONS,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            max_queue: DEFAULT_MAX_QUEUE,
            max_request_bytes_in_flight: DEFAULT_REQUEST_BYTES_IN_FLIGHT,
            max_response_bytes_in_flight: DEFAULT_RESPONSE_BYTES_IN_FLIGHT,
            header_timeout: DEFAULT_HEADER_TIMEOUT,
            body_timeout: DEFAULT_BODY_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            write_timeout: DEFAULT_WRITE_TIMEOUT,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            ping_interval: DEFAULT_PING_INTERVAL,
        }
    }
}

use crate::{
    LaneConfig, LaneError, Stats,
    activity::{Activity, Expiry, TimedIo},
    admission::Gates,
    cors::Cors,
    dispatch::{Dispatcher, error_without_id},
    front::{Connection, Phase, Shared},
    metrics,
    stats::{Counters, count},
    vhost::VirtualHosts,
};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use prestate_rpc::Service;
use prestate_rpc_api::RpcError;
use std::{
    collections::{BTreeSet, HashSet},
    convert::Infallible,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
};

/// Connections that are being told "too many" at a time; more are just closed.
const MAX_REFUSALS: usize = 64;
/// Time a refused connection gets to read that.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Pause after the system would not hand out a connection (out of descriptors): it does so again
/// at once, and the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time an expired connection gets to flush before it is dropped.
const LINGER: Duration = Duration::from_secs(1);
/// Streams of one HTTP/2 connection at a time; a batch says more for less.
const MAX_HTTP2_STREAMS: u32 = 128;

/// The HTTP and WebSocket front of a [`Service`].
#[derive(Debug)]
pub struct Lane;

/// A place among the connections; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    /// Lives until the last connection is gone; see [`Running::shutdown`].
    _alive: mpsc::Sender<Infallible>,
    counters: Arc<Counters>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.counters.connections_open.fetch_sub(1, Relaxed);
    }
}

/// A lane that serves. Dropping it ends it at once; [`Running::shutdown`] lets requests finish.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    uds: Option<PathBuf>,
    counters: Arc<Counters>,
    phase: watch::Sender<Phase>,
    gone: mpsc::Receiver<Infallible>,
}

impl Lane {
    /// Listens, and serves from now on. Needs a tokio runtime with timers and I/O; everything runs
    /// on the one it is called from.
    ///
    /// # Errors
    /// An address that cannot be bound, or a configuration that makes no sense. Nothing listens
    /// then.
    ///
    /// ```
    /// use prestate_lane::{Lane, LaneConfig};
    /// use prestate_rpc::{Answer, Call, Service};
    /// use prestate_rpc_api::RpcError;
    /// use std::{sync::Arc, time::Duration};
    ///
    /// struct One;
    ///
    /// #[async_trait::async_trait]
    /// impl Service for One {
    ///     async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
    ///         match call.method {
    ///             "eth_chainId" => Ok(Answer::uncached("\"0x1\"")),
    ///             other => Err(RpcError::method_not_found(other)),
    ///         }
    ///     }
    ///
    ///     fn methods(&self) -> &[&'static str] {
    ///         &["eth_chainId"]
    ///     }
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), prestate_lane::LaneError> {
    /// let config = LaneConfig { addr: ([127, 0, 0, 1], 0).into(), ..LaneConfig::default() };
    /// let running = Lane::bind(config, Arc::new(One)).await?;
    /// println!("POST http://{}/", running.local_addr());
    /// running.shutdown(Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bind(config: LaneConfig, service: Arc<dyn Service>) -> Result<Running, LaneError> {
        check(&config)?;
        let allowed = allowed(config.api.as_deref(), service.methods())?;
        let cors = Cors::new(&config.corsdomain)?;
        let vhosts = VirtualHosts::new(&config.vhosts);
        let tcp = TcpListener::bind(config.addr)
            .await
            .map_err(|source| LaneError::Bind { addr: config.addr, source })?;
        let addr =
            tcp.local_addr().map_err(|source| LaneError::Bind { addr: config.addr, source })?;
        let unix = match &config.uds {
            Some(path) => Some(
                bind_unix(path)
                    .map_err(|source| LaneError::BindUnix { path: path.clone(), source })?,
            ),
            None => None,
        };

        let counters = Arc::new(Counters::default());
        let (phase, observed) = watch::channel(Phase::Open);
        let (alive, gone) = mpsc::channel(1);
        let uds = config.uds.clone();
        let shared = Arc::new(Shared {
            dispatcher: Dispatcher::new(service, allowed, &config, Arc::clone(&counters)),
            cors,
            vhosts,
            gates: Arc::new(Gates::new(&config, Arc::clone(&counters))),
            counters: Arc::clone(&counters),
            phase: observed,
            config,
        });
        let slots = Slots {
            places: Arc::new(Semaphore::new(
                shared.config.max_connections.min(Semaphore::MAX_PERMITS),
            )),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            alive,
        };
        tokio::spawn(publish(Arc::clone(&shared)));
        if let Some(unix) = unix {
            let accept = async move || unix.accept().await.map(|(stream, _)| stream);
            tokio::spawn(accept_loop(accept, Arc::clone(&shared), slots.clone(), true));
        }
        let accept = async move || {
            let (stream, _) = tcp.accept().await?;
            // Replies go out as they are flushed, not when the last packet is acknowledged.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        };
        tokio::spawn(accept_loop(accept, shared, slots, false));
        Ok(Running { addr, uds, counters, phase, gone })
    }
}

impl Running {
    /// Where it listens; the port chosen if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The counters now.
    pub fn stats(&self) -> Stats {
        self.counters.read()
    }

    /// Ends: no new connections, requests begun are finished, WebSockets are closed with 1001.
    /// What still runs after `grace` is dropped. Comes back when all connections are gone.
    pub async fn shutdown(mut self, grace: Duration) {
        self.phase.send_replace(Phase::Closing);
        if tokio::time::timeout(grace, self.gone.recv()).await.is_err() {
            self.phase.send_replace(Phase::Closed);
            self.gone.recv().await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Closed);
        if let Some(path) = &self.uds {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn check(config: &LaneConfig) -> Result<(), LaneError> {
    let least = |option, given: u64, least| {
        if given < least { Err(LaneError::TooSmall { option, least, given }) } else { Ok(()) }
    };
    least("max_request_bytes", config.max_request_bytes, 1)?;
    least("max_batch_len", config.max_batch_len as u64, 1)?;
    least("batch_concurrency", config.batch_concurrency as u64, 1)?;
    least("max_response_bytes", config.max_response_bytes, 1)?;
    least("max_batch_response_bytes", config.max_batch_response_bytes, 1)?;
    least("max_connections", config.max_connections as u64, 1)?;
    least("max_in_flight", config.max_in_flight as u64, 1)?;
    let (bytes, body) = (config.max_request_bytes_in_flight, config.max_request_bytes);
    least("max_request_bytes_in_flight", bytes, body)?;
    let timers = [
        ("header_timeout", config.header_timeout),
        ("body_timeout", config.body_timeout),
        ("idle_timeout", config.idle_timeout),
        ("write_timeout", config.write_timeout),
        ("call_timeout", config.call_timeout),
        ("ping_interval", config.ping_interval),
    ];
    for (option, timer) in timers {
        least(option, timer.as_millis().try_into().unwrap_or(u64::MAX), 1)?;
    }
    Ok(())
}

/// The methods that `--http.api` names, `None` for all.
fn allowed(
    api: Option<&[String]>,
    methods: &[&'static str],
) -> Result<Option<HashSet<&'static str>>, LaneError> {
    let Some(api) = api else { return Ok(None) };
    let namespace = |method: &'static str| method.split('_').next().unwrap_or(method);
    let mut allowed = HashSet::new();
    for name in api {
        let before = allowed.len();
        allowed.extend(methods.iter().filter(|&&m| m == name || namespace(m) == name));
        let known = methods.iter().any(|&m| m == name || namespace(m) == name);
        if allowed.len() == before && !known {
            let known: BTreeSet<_> = methods.iter().map(|&method| namespace(method)).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(LaneError::UnknownApi { name: name.clone(), known });
        }
    }
    Ok(Some(allowed))
}

/// Binds a socket that only its owner may open (as Geth's IPC endpoint, `rpc/ipc_unix.go`).
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file that is no socket is in its place",
            ));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on it"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Keeps the recorder up to date, whoever reads it, until the lane ends.
async fn publish(shared: Arc<Shared>) {
    let mut phase = shared.phase.clone();
    loop {
        metrics::publish(&shared.counters.read(), shared.gates.waiting());
        tokio::select! {
            () = tokio::time::sleep(metrics::PUBLISH_PAUSE) => {}
            () = Phase::closed(&mut phase) => return,
        }
    }
}

#[derive(Clone)]
struct Slots {
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    alive: mpsc::Sender<Infallible>,
}

async fn accept_loop<A, S>(accept: A, shared: Arc<Shared>, slots: Slots, local: bool)
where
    A: AsyncFn() -> io::Result<S>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut phase = shared.phase.clone();
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            () = Phase::closing(&mut phase) => return,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match Arc::clone(&slots.places).try_acquire_owned() {
            Ok(permit) => {
                count(&shared.counters.connections);
                count(&shared.counters.connections_open);
                let slot = Arc::new(Slot {
                    _permit: permit,
                    _alive: slots.alive.clone(),
                    counters: Arc::clone(&shared.counters),
                });
                tokio::spawn(connection(stream, Arc::clone(&shared), slot, local));
            }
            Err(_) => {
                count(&shared.counters.connections_refused);
                if let Ok(permit) = Arc::clone(&slots.refusals).try_acquire_owned() {
                    let limit = shared.config.max_connections as u64;
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(REFUSAL_TIME, refuse(stream, limit)).await;
                        drop(permit);
                    });
                }
            }
        }
    }
}

/// Tells a connection over the cap so, in the form of any other overload.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, limit: u64) -> io::Result<()> {
    let error = RpcError::limit("too many connections", "max-connections", limit, limit + 1);
    let body = error_without_id(&error);
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nretry-after: 1\r\nvary: accept-encoding\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    // Read first: closing a socket with unread bytes resets it, and the answer may be lost.
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await?;
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut request).await? > 0 {}
    Ok(())
}

async fn connection<S>(stream: S, shared: Arc<Shared>, slot: Arc<Slot>, local: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let io = TimedIo::new(stream, Arc::clone(&activity), shared.config.write_timeout);
    let requests = Connection {
        lane: Arc::clone(&shared),
        activity: Arc::clone(&activity),
        local,
        _slot: slot,
    };
    let service = service_fn(move |request| {
        let requests = requests.clone();
        async move { Ok::<_, Infallible>(requests.serve(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_HTTP2_STREAMS);
    let mut serving =
        std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(io), service));
    let mut phase = shared.phase.clone();
    let expired = async {
        // In two steps: an idle connection may be about to get a request.
        let expiry = activity.expired(&shared.config).await;
        count(&shared.counters.connections_timed_out);
        expiry
    };
    let mut expired = std::pin::pin!(expired);
    tokio::select! {
        result = serving.as_mut() => return closed(result),
        expiry = expired.as_mut() => {
            tracing::debug!(?expiry, "connection expired");
            if expiry != Expiry::Idle {
                return;
            }
            serving.as_mut().graceful_shutdown();
            if let Ok(result) = tokio::time::timeout(LINGER, serving.as_mut()).await {
                closed(result);
            }
            return;
        }
        () = Phase::closing(&mut phase) => {}
    }
    // The lane closes. A connection without a request has nothing to finish.
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        result = serving.as_mut() => closed(result),
        _ = expired.as_mut() => {}
        () = Phase::closed(&mut phase) => {}
    }
}

fn closed<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection broke");
    }
}

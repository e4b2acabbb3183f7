use crate::{errors::CommandError, shape::Shape, telemetry};
use clap::Args;
use prestate_host::Host;
use prestate_lane::{JwtSecret, Lane, LaneConfig, LaneError};
use prestate_rpc::{Joined, Rpc, RpcConfig, Service, Sources};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

/// Time that requests under way get when the program is told to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Where the lane listens when clients come over a line of some shape.
const NEAR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How to serve; names follow Geth and reth.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ServeArgs {
    /// Address to listen on
    #[arg(long = "http.addr", value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    http_addr: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long = "http.port", visible_alias = "port", value_name = "PORT", default_value_t = prestate_lane::DEFAULT_PORT)]
    http_port: u16,
    /// Also serve HTTP on this unix socket
    #[arg(long = "http.uds", value_name = "PATH")]
    http_uds: Option<PathBuf>,
    /// Namespaces or methods to serve, comma separated [default: all]
    #[arg(long = "http.api", value_name = "LIST", value_delimiter = ',')]
    http_api: Option<Vec<String>>,
    /// Origins that may call from a browser, comma separated, `*` for any
    #[arg(long = "http.corsdomain", value_name = "LIST", value_delimiter = ',')]
    http_corsdomain: Vec<String>,
    /// Host names to serve, comma separated, `*` for any; IP literals always pass
    #[arg(long = "http.vhosts", value_name = "LIST", value_delimiter = ',', default_value = prestate_lane::DEFAULT_VHOST)]
    http_vhosts: Vec<String>,
    /// File with a 256-bit secret in hex: ask for a bearer token (HS256) on every request
    #[arg(long = "http.jwtsecret", value_name = "FILE")]
    http_jwtsecret: Option<PathBuf>,
    /// Never compress replies
    #[arg(long = "http.disable-compression")]
    http_disable_compression: bool,
    /// Largest request body
    #[arg(long = "rpc.http-body-limit", value_name = "BYTES", default_value_t = prestate_lane::DEFAULT_MAX_REQUEST_BYTES)]
    body_limit: u64,
    /// Most calls in a batch
    #[arg(long = "rpc.batch-request-limit", value_name = "N", default_value_t = prestate_lane::DEFAULT_MAX_BATCH_LEN)]
    batch_limit: usize,
    /// Largest result, uncompressed
    #[arg(long = "rpc.max-response-size", value_name = "BYTES", default_value_t = prestate_lane::DEFAULT_MAX_RESPONSE_BYTES)]
    response_limit: u64,
    /// Most subscriptions that one connection may hold
    #[arg(long = "rpc.max-subscriptions-per-connection", value_name = "N", default_value_t = prestate_lane::DEFAULT_MAX_SUBSCRIPTIONS)]
    max_subscriptions: usize,
    /// Most connections
    #[arg(long = "rpc.max-connections", value_name = "N", default_value_t = prestate_lane::DEFAULT_MAX_CONNECTIONS)]
    max_connections: usize,
    /// Blocks executed at the same time [default: cores - 1]
    #[arg(long = "rpc.max-tracing-requests", value_name = "N")]
    max_executions: Option<usize>,
    /// Reproduce Geth's three artefacts that contradict the state in every prestateTracer answer
    #[arg(long)]
    geth_exact: bool,
    /// Behave like a provider far away, to try a client against one:
    /// `rtt=30ms,rate=100/s,bandwidth=50mbit`, or some of them. Every item of a batch counts
    /// against the rate; the bandwidth is each connection's, each way
    #[arg(long, value_name = "SHAPE")]
    shape: Option<Shape>,
}

impl ServeArgs {
    /// Serves until told to stop (SIGINT, SIGTERM), then ends the pipeline. `before` are asked
    /// before the product's own namespaces. `banner` is printed when all is up, with the URL.
    pub(crate) fn run(
        self,
        sources: Sources,
        before: Vec<Arc<dyn Service>>,
        banner: impl FnOnce(&str) -> String,
    ) -> Result<ExitCode, CommandError> {
        let rpc_config = {
            let defaults = RpcConfig::default();
            RpcConfig {
                geth_exact: self.geth_exact,
                max_executions: self.max_executions.unwrap_or(defaults.max_executions),
                ..defaults
            }
        };
        let shape = self.shape.unwrap_or_default();
        let addr = SocketAddr::new(self.http_addr, self.http_port);
        let jwt_secret = self.http_jwtsecret.as_deref().map(JwtSecret::from_file).transpose()?;
        let lane_config = LaneConfig {
            addr: if shape.is_far() { NEAR } else { addr },
            uds: self.http_uds,
            corsdomain: self.http_corsdomain,
            vhosts: self.http_vhosts,
            api: self.http_api,
            jwt_secret,
            metrics: Some(telemetry::install()?),
            compression: !self.http_disable_compression,
            max_request_bytes: self.body_limit,
            max_batch_len: self.batch_limit,
            max_response_bytes: self.response_limit,
            max_connections: self.max_connections,
            max_subscriptions: self.max_subscriptions,
            ..LaneConfig::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(CommandError::Runtime)?;
        let pipeline = sources.pipeline.clone();
        let served = runtime.block_on(async move {
            let rpc = Rpc::new(sources, rpc_config);
            tokio::spawn(rpc.clone().keep_house());
            let service = Joined::new(Arc::new(rpc), []).preferring(before);
            let running = Lane::bind(lane_config, shape.limit(Arc::new(service))).await?;
            let mut served_at = running.local_addr();
            if shape.is_far() {
                let bind = |source| LaneError::Bind { addr, source };
                let listener = TcpListener::bind(addr).await.map_err(bind)?;
                let near = std::mem::replace(&mut served_at, listener.local_addr().map_err(bind)?);
                tokio::spawn(shape.carry_to(listener, near));
            }
            let url = format!("http://{served_at}");
            eprintln!("{}", banner(&url));
            stopped().await?;
            running.shutdown(SHUTDOWN_GRACE).await;
            Ok(ExitCode::SUCCESS)
        });
        if let Some(pipeline) = pipeline {
            pipeline.shutdown();
        }
        served
    }
}

/// Blocks looked at for one worth showing.
const LOOKED_AT: usize = 256;

/// The newest block with transactions among the last ones; the head if none has any.
fn newest_with_transactions(host: &dyn Host) -> Result<u64, CommandError> {
    let head = host.head()?.number;
    let earliest = host.earliest()?.number;
    for number in (earliest..=head).rev().take(LOOKED_AT) {
        let block = match host.canonical_hash(number)? {
            Some(hash) => host.block(hash)?,
            None => None,
        };
        if block.is_some_and(|block| !block.body().transactions.is_empty()) {
            return Ok(number);
        }
    }
    Ok(head)
}

/// What is served, and three calls to try on its newest block with transactions.
pub(crate) fn banner(
    host: &dyn Host,
    what: String,
) -> Result<impl FnOnce(&str) -> String + use<>, CommandError> {
    let block = newest_with_transactions(host)?;
    Ok(move |url: &str| {
        let calls = [
            curl(url, "prestate_status", ""),
            curl(url, "prestate_getBlockDiff", &format!("\"0x{block:x}\"")),
            curl(url, "debug_traceBlockByNumber", &format!("\"0x{block:x}\",{DIFF_MODE}")),
        ];
        format!("serving {what} on {url}\n\n{}", calls.join("\n"))
    })
}

/// The configuration that asks the prestate tracer for diffs.
pub(crate) const DIFF_MODE: &str =
    "{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}}";

/// A call that can be pasted into a shell.
pub(crate) fn curl(url: &str, method: &str, params: &str) -> String {
    format!(
        "  curl -s --compressed {url} -H 'content-type: application/json' -d \
         '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":[{params}]}}'"
    )
}

async fn stopped() -> Result<(), CommandError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CommandError::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(CommandError::Runtime)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use jsonrpsee::{
    RpcModule,
    server::{ServerBuilder, ServerConfig},
};
use libdeflater::{CompressionLvl, Compressor};
use prestate_host::Host;
use prestate_lane::{Lane, LaneConfig};
use prestate_rpc::{Rpc, RpcConfig};
use serde_json::value::RawValue;
use std::{cell::RefCell, convert::Infallible, io, net::SocketAddr, str::FromStr, sync::Arc};
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;

/// A way to serve a result that is held as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RivalKind {
    /// libdeflate over every reply, at this level (Erigon's way; its level was 6).
    Libdeflate(i32),
    /// A `RawValue` through jsonrpsee and tower-http's gzip at its default level (reth's way).
    Jsonrpsee,
}

impl FromStr for RivalKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "jsonrpsee" => Ok(Self::Jsonrpsee),
            Some(("libdeflate", level)) => {
                level.parse().map(Self::Libdeflate).map_err(|_| format!("no level: {level}"))
            }
            _ => Err(format!("no such rival: {text}")),
        }
    }
}

impl RivalKind {
    /// As [`FromStr`] reads it.
    pub fn name(self) -> String {
        match self {
            Self::Libdeflate(level) => format!("libdeflate={level}"),
            Self::Jsonrpsee => "jsonrpsee".to_owned(),
        }
    }
}

/// Serves `result` until the process ends; prints the address first.
///
/// # Errors
/// An address that cannot be bound.
pub async fn run_rival(kind: RivalKind, result: String) -> io::Result<()> {
    match kind {
        RivalKind::Libdeflate(level) => libdeflate(level, result).await,
        RivalKind::Jsonrpsee => jsonrpsee_tower(result).await,
    }
}

/// Serves a host through the lane, as `prestate replay` does, until the process ends; prints the
/// address first.
///
/// # Errors
/// An address that cannot be bound.
pub async fn run_lane(host: Arc<dyn Host>) -> io::Result<()> {
    let config = LaneConfig { addr: SocketAddr::from(([127, 0, 0, 1], 0)), ..Default::default() };
    let rpc = Rpc::new(host, RpcConfig::default());
    tokio::spawn(rpc.clone().keep_house());
    let running = Lane::bind(config, Arc::new(rpc)).await.map_err(io::Error::other)?;
    announce(running.local_addr());
    std::future::pending().await
}

fn announce(addr: SocketAddr) {
    println!("{addr}");
}

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor>> = const { RefCell::new(None) };
}

async fn libdeflate(level: i32, result: String) -> io::Result<()> {
    let level = CompressionLvl::new(level).map_err(|_| io::Error::other("no such level"))?;
    let text: Arc<[u8]> =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}").into_bytes().into();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let text = Arc::clone(&text);
        tokio::spawn(async move {
            let answer = service_fn(move |_: Request<Incoming>| {
                let text = Arc::clone(&text);
                async move {
                    let body = COMPRESSOR.with_borrow_mut(|compressor| {
                        let compressor = compressor.get_or_insert_with(|| Compressor::new(level));
                        let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
                        let length = compressor.gzip_compress(&text, &mut out).unwrap_or_default();
                        out.truncate(length);
                        out
                    });
                    let mut response = Response::new(Full::new(Bytes::from(body)));
                    let headers = response.headers_mut();
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                    Ok::<_, Infallible>(response)
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

async fn jsonrpsee_tower(result: String) -> io::Result<()> {
    let raw = RawValue::from_string(result).map_err(io::Error::other)?;
    let mut module = RpcModule::new(Arc::new(raw));
    module
        .register_method("result", |_, raw, _| {
            Ok::<_, jsonrpsee::types::ErrorObjectOwned>(Box::<RawValue>::clone(raw))
        })
        .map_err(io::Error::other)?;
    let config = ServerConfig::builder().max_response_body_size(u32::MAX).build();
    let server = ServerBuilder::with_config(config)
        .set_http_middleware(tower::ServiceBuilder::new().layer(CompressionLayer::new().gzip(true)))
        .build("127.0.0.1:0")
        .await?;
    announce(server.local_addr()?);
    server.start(module).stopped().await;
    Ok(())
}

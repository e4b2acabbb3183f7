use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
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
    types::ErrorObjectOwned,
};
use libdeflater::{CompressionLvl, Compressor};
use prestate_host::{ChainSpec, Host};
use prestate_host_embedded::BlockFile;
use prestate_lane::{Lane, LaneConfig};
use prestate_rpc::{Rpc, RpcConfig};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::{
    cell::RefCell, convert::Infallible, io, io::Write as _, net::SocketAddr, str::FromStr,
    sync::Arc,
};
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;

/// A way to serve a result that is held as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RivalKind {
    /// libdeflate over every reply, at this level (Erigon's way; its level was 6).
    Libdeflate(i32),
    /// zlib-rs over every reply, at this level (Erigon's way before, which was Go's
    /// `compress/gzip` at level 6).
    Zlib(u32),
    /// A `RawValue` copied into jsonrpsee, and tower-http's gzip at its default level (reth's way).
    Jsonrpsee,
    /// A cache of `Arc<Box<RawValue>>` that jsonrpsee splices (debug-trace-server's way), and
    /// tower-http's gzip when asked for.
    Raw,
    /// A cache of text, made a `serde_json::Value` again on every hit (debug-trace-server's way
    /// before).
    Reparsed,
}

impl FromStr for RivalKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no_level = |level| move |_| format!("no level: {level}");
        match text.split_once('=') {
            None if text == "jsonrpsee" => Ok(Self::Jsonrpsee),
            None if text == "raw" => Ok(Self::Raw),
            None if text == "reparsed" => Ok(Self::Reparsed),
            Some(("libdeflate", level)) => {
                level.parse().map(Self::Libdeflate).map_err(no_level(level))
            }
            Some(("zlib", level)) => level
                .parse()
                .ok()
                .filter(|level| *level <= 9)
                .map(Self::Zlib)
                .ok_or_else(|| format!("no level: {level}")),
            _ => Err(format!("no such rival: {text}")),
        }
    }
}

impl RivalKind {
    /// As [`FromStr`] reads it.
    pub fn name(self) -> String {
        match self {
            Self::Libdeflate(level) => format!("libdeflate={level}"),
            Self::Zlib(level) => format!("zlib={level}"),
            Self::Jsonrpsee => "jsonrpsee".to_owned(),
            Self::Raw => "raw".to_owned(),
            Self::Reparsed => "reparsed".to_owned(),
        }
    }

    /// As people read it.
    pub fn title(self) -> String {
        match self {
            Self::Libdeflate(level) => format!("libdeflate {level} per reply"),
            Self::Zlib(level) => format!("zlib {level} per reply"),
            Self::Jsonrpsee => "jsonrpsee + tower-http".to_owned(),
            Self::Raw => "raw-value cache".to_owned(),
            Self::Reparsed => "text cache, re-parsed".to_owned(),
        }
    }
}

/// Serves `result` until the process ends; prints the address first.
///
/// # Errors
/// An address that cannot be bound.
pub async fn run_rival(kind: RivalKind, result: String) -> io::Result<()> {
    match kind {
        RivalKind::Libdeflate(level) => {
            CompressionLvl::new(level).map_err(|_| io::Error::other("no such level"))?;
            per_reply(result, move |text| libdeflate(level, text)).await
        }
        RivalKind::Zlib(level) => per_reply(result, move |text| zlib(level, text)).await,
        RivalKind::Jsonrpsee => {
            let raw = RawValue::from_string(result).map_err(io::Error::other)?;
            jsonrpsee_tower(move || Ok(Box::<RawValue>::clone(&raw))).await
        }
        RivalKind::Raw => {
            let raw = RawValue::from_string(result).map_err(io::Error::other)?;
            let cached = RawJson(Arc::new(raw));
            jsonrpsee_tower(move || Ok(cached.clone())).await
        }
        RivalKind::Reparsed => {
            jsonrpsee_tower(move || {
                serde_json::from_str::<serde_json::Value>(&result)
                    .map_err(|error| ErrorObjectOwned::owned(-32603, error.to_string(), None::<()>))
            })
            .await
        }
    }
}

/// Traces a block anew for every request, by revm-inspectors and serde_json, through jsonrpsee and
/// tower-http (reth's way, which keeps no result); prints the address first.
///
/// # Errors
/// An address that cannot be bound.
pub async fn run_traced(spec: ChainSpec, file: BlockFile) -> io::Result<()> {
    let parent = Arc::new(file.prestate);
    let block = file.block;
    jsonrpsee_tower(move || {
        let execution = prestate_diff::Execution { spec: &spec, block: &block };
        crate::encode::rival_traces(execution, &parent)
            .map_err(|error| ErrorObjectOwned::owned(-32603, error.to_string(), None::<()>))
    })
    .await
}

/// Serves a host through the lane, as `prestate replay` does, until the process ends; prints the
/// address first.
///
/// # Errors
/// An address that cannot be bound.
pub async fn run_lane(host: Arc<dyn Host>, config: RpcConfig) -> io::Result<()> {
    let lane = LaneConfig { addr: SocketAddr::from(([127, 0, 0, 1], 0)), ..Default::default() };
    let rpc = Rpc::new(host, config);
    tokio::spawn(rpc.clone().keep_house());
    let running = Lane::bind(lane, Arc::new(rpc)).await.map_err(io::Error::other)?;
    announce(running.local_addr());
    std::future::pending().await
}

fn announce(addr: SocketAddr) {
    println!("{addr}");
}

/// As debug-trace-server's `RawJson`: a hit is a clone of the `Arc`.
#[derive(Debug, Clone)]
struct RawJson(Arc<Box<RawValue>>);

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::serialize(&self.0, serializer)
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor>> = const { RefCell::new(None) };
}

fn libdeflate(level: i32, text: &[u8]) -> Vec<u8> {
    let Ok(level) = CompressionLvl::new(level) else { return Vec::new() };
    COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = compressor.get_or_insert_with(|| Compressor::new(level));
        let mut out = vec![0; compressor.gzip_compress_bound(text.len())];
        let length = compressor.gzip_compress(text, &mut out).unwrap_or_default();
        out.truncate(length);
        out
    })
}

/// As one gzip member by zlib-rs, in one go.
pub(crate) fn zlib(level: u32, text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::new(level));
    // Writing to memory does not fail.
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

async fn per_reply(
    result: String,
    compress: impl Fn(&[u8]) -> Vec<u8> + Clone + Send + 'static,
) -> io::Result<()> {
    let text: Arc<[u8]> =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}").into_bytes().into();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (text, compress) = (Arc::clone(&text), compress.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |_: Request<Incoming>| {
                let body = compress(&text);
                async move {
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

async fn jsonrpsee_tower<T: Serialize + Clone + Send + 'static>(
    result: impl Fn() -> Result<T, ErrorObjectOwned> + Send + Sync + 'static,
) -> io::Result<()> {
    let mut module = RpcModule::new(result);
    module.register_method("result", |_, result, _| result()).map_err(io::Error::other)?;
    let config = ServerConfig::builder().max_response_body_size(u32::MAX).build();
    let server = ServerBuilder::with_config(config)
        .set_http_middleware(tower::ServiceBuilder::new().layer(CompressionLayer::new().gzip(true)))
        .build("127.0.0.1:0")
        .await?;
    announce(server.local_addr()?);
    server.start(module).stopped().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in [
            RivalKind::Libdeflate(6),
            RivalKind::Zlib(6),
            RivalKind::Jsonrpsee,
            RivalKind::Raw,
            RivalKind::Reparsed,
        ] {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for name in ["", "zlib", "zlib=10", "libdeflate=x", "nginx"] {
            assert!(name.parse::<RivalKind>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_cached_raw_value_is_serialised_as_it_is() {
        let text = "{\"b\": 1,  \"a\":[2]}";
        let raw = RawJson(Arc::new(RawValue::from_string(text.to_owned()).unwrap()));
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
        assert_eq!(serde_json::to_string(&vec![raw]).unwrap(), format!("[{text}]"));
    }
}

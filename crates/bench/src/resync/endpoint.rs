use super::{
    exchange::{Coding, Exchange, Timed},
    question::{self, Question, Slot, Values},
    run::ResyncBenchError,
};
use crate::{outcome::Failure, report::without_secrets};
use alloy_primitives::B256;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use serde::Deserialize;
use serde_json::Value;
use std::{
    error::Error as _,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};
use url::Url;

/// A URL that keeps its secrets: only scheme, host and port are ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl(Url);

impl EndpointUrl {
    /// Takes a URL, `http` or `https`.
    ///
    /// # Errors
    /// What is wrong with it, without repeating it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
        match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(_)) => Ok(Self(url)),
            (scheme, _) => Err(format!("{scheme}: a URL of http or https is wanted")),
        }
    }

    fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(self.0.as_str()))
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(self.0.as_str()))
    }
}

/// A server that is measured, over kept connections of HTTP/1.1.
#[derive(Debug)]
pub(crate) struct Endpoint {
    url: EndpointUrl,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Duration,
}

impl Endpoint {
    /// Nothing is connected yet.
    pub(crate) fn open(url: EndpointUrl, patience: Duration) -> Result<Self, ResyncBenchError> {
        let made = Self::new(url.clone(), patience);
        made.map_err(|source| ResyncBenchError::Client { url, source })
    }

    fn new(url: EndpointUrl, patience: Duration) -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(patience));
        let builder = HttpsConnectorBuilder::new();
        let provider = ring::default_provider();
        let https = if url.is_tls() {
            builder.with_provider_and_native_roots(provider)?
        } else {
            // The system's certificates may be missing where nobody needs them.
            let config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            builder.with_tls_config(config)
        };
        let https = https.https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Self { url, client: Client::builder(TokioExecutor::new()).build(https), patience })
    }

    pub(super) fn url(&self) -> &EndpointUrl {
        &self.url
    }

    /// Sends a body and takes the answer as it comes, nothing decoded.
    pub(super) async fn ask(&self, body: &Bytes, coding: Coding) -> Result<Exchange, Failure> {
        match tokio::time::timeout(self.patience, self.exchange(body, coding)).await {
            Ok(exchange) => exchange,
            Err(_) => Err(Failure::Timeout),
        }
    }

    /// The result of a call that is not measured.
    pub(crate) async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        method: &str,
        params: Value,
    ) -> Result<T, Failure> {
        let body = question::call(1, method, params).to_string().into();
        let exchange = self.ask(&body, Coding::Gzip).await?;
        Ok(exchange.read(|text| question::result(text))?.1)
    }

    /// The values of slots after a block, and what they took.
    pub(crate) async fn values(
        &self,
        question: Question,
        block: u64,
        parent: B256,
        slots: &[Slot],
    ) -> Result<(Timed, Values), Failure> {
        let body = question.body(block, parent, slots);
        let exchange = self.ask(&body, question.coding()).await?;
        exchange.read(|text| question.read(text, slots))
    }

    async fn exchange(&self, body: &Bytes, coding: Coding) -> Result<Exchange, Failure> {
        let request = self.request(body, coding).map_err(|_| Failure::Connect)?;
        let started = Instant::now();
        let response = self.client.request(request).await.map_err(|error| of_request(&error))?;
        let first_byte = started.elapsed();
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let used = header(CONTENT_ENCODING).map(str::to_owned);
        let length = header(CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        let mut body = Vec::with_capacity(length.unwrap_or_default().min(1 << 28));
        let mut stream = response.into_body();
        while let Some(frame) = stream.frame().await {
            if let Ok(data) = frame.map_err(|error| of_hyper(&error))?.into_data() {
                body.extend_from_slice(&data);
            }
        }
        let transfer = started.elapsed() - first_byte;
        if let Some(failure) = Failure::of_status(status) {
            return Err(failure);
        }
        Ok(Exchange { first_byte, transfer, coding: used, body })
    }

    fn request(&self, body: &Bytes, coding: Coding) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut url = self.url.0.clone();
        let basic = basic_authorization(&url);
        // Neither fails for a URL with a host.
        let _ = (url.set_username(""), url.set_password(None));
        url.set_fragment(None);
        let host = url.host_str().unwrap_or_default().to_owned();
        let host = url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(url.as_str())
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT_ENCODING, coding.name());
        if let Some(basic) = basic {
            request = request.header(hyper::header::AUTHORIZATION, basic);
        }
        request.body(Full::new(body.clone()))
    }
}

fn of_request(error: &hyper_util::client::legacy::Error) -> Failure {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    match cause {
        _ if error.is_connect() => Failure::Connect,
        Some(cause) => of_hyper(cause),
        None => Failure::Cut,
    }
}

/// A length or a chunk's size that cannot be read, or a connection that ended too early.
fn of_hyper(error: &hyper::Error) -> Failure {
    if error.is_parse() || is_io(error, io::ErrorKind::InvalidInput) {
        Failure::Length
    } else {
        Failure::Cut
    }
}

/// hyper reports chunks that cannot be read as errors of input.
fn is_io(error: &hyper::Error, kind: io::ErrorKind) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == kind)
}

/// `user:password@` of a URL as the header it stands for (RFC 7617).
fn basic_authorization(url: &Url) -> Option<String> {
    use base64::Engine as _;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let mut pair = decode(url.username());
    pair.push(b':');
    pair.extend(decode(url.password().unwrap_or_default()));
    Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let url = EndpointUrl::parse("https://user:pw@eth.example.com:8443/v2/KEY?token=KEY");
        let url = url.unwrap();
        assert_eq!(url.to_string(), "https://eth.example.com:8443/…");
        assert_eq!(format!("{url:?}"), "https://eth.example.com:8443/…");
        assert_eq!(
            EndpointUrl::parse("http://127.0.0.1:8545").unwrap().to_string(),
            "http://127.0.0.1:8545"
        );
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_its_secrets() {
        for text in ["KEY", "ws://h.io/KEY", "file:///KEY", ""] {
            let error = EndpointUrl::parse(text).unwrap_err();
            assert!(!error.contains("KEY"), "{error}");
        }
    }
}

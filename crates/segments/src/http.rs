//! The HTTP client under S3: hyper, with TLS by rustls over ring.
//!
//! Not reqwest, whose TLS features hold for every user of it in a program: one without aws-lc-rs
//! has clients elsewhere panic unless a provider was installed for the whole process.

use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector as TcpConnector},
    rt::TokioExecutor,
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::{io, sync::Arc, time::Duration};

/// Time for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a request to be sent and answered: a segment of 100 MB at 4 Mbit/s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(240);

/// Makes one client for all requests to a bucket.
#[derive(Debug)]
pub(crate) struct Connector {
    /// Whether the service is reached over TLS; the system's certificates are wanted then.
    pub(crate) tls: bool,
}

#[derive(Debug)]
struct Service(Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

impl Connector {
    fn client(&self) -> io::Result<Service> {
        let mut tcp = TcpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let builder = HttpsConnectorBuilder::new();
        let provider = ring::default_provider();
        let https = if self.tls {
            builder.with_provider_and_native_roots(provider)?
        } else {
            let config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            builder.with_tls_config(config)
        };
        // Over http as well: keys of a machine role come from it.
        let https = https.https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Service(Client::builder(TokioExecutor::new()).build(https)))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        self.client()
            .map(HttpClient::new)
            .map_err(|error| object_store::Error::Generic { store: "S3", source: Box::new(error) })
    }
}

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, self.0.request(request)).await;
        let response = answered
            .map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?
            .map_err(|error| {
                let kind = if error.is_connect() {
                    HttpErrorKind::Connect
                } else {
                    HttpErrorKind::Request
                };
                HttpError::new(kind, error)
            })?;
        let (head, body) = response.into_parts();
        let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}

use alloy_network::Ethereum;
use alloy_provider::RootProvider;
use alloy_rpc_client::RpcClient;
use std::time::Duration;
use url::Url;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a whole answer: a trace of a heavy block takes providers tens of seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A provider over HTTP as this crate wants it: zstd and gzip are asked for on every request (a
/// block's diff traces shrink to a quarter), connections are kept, and no request waits for ever.
///
/// Providers made otherwise ask for both as well, since the features of `reqwest` are on wherever
/// this crate is linked. An `https` URL needs the feature `https`, or any TLS
/// feature of `reqwest`'s or alloy's own.
///
/// # Errors
/// The client cannot be made: the system's certificates or resolver settings cannot be read.
pub fn connect_http(url: Url) -> Result<RootProvider<Ethereum>, reqwest::Error> {
    prepare_tls();
    let http = reqwest::Client::builder()
        .gzip(true)
        .zstd(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .build()?;
    Ok(RootProvider::new(RpcClient::builder().http_with_client(http, url)))
}

/// Chooses the cryptography for TLS, unless the program did.
pub(crate) fn prepare_tls() {
    #[cfg(feature = "tls")]
    {
        // An error says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

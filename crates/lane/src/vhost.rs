//! The Host allow-list: a page that rebinds its name to 127.0.0.1 must not reach a local node
//! (go-ethereum#15962).

use http::{HeaderMap, Uri, header::HOST, uri::Authority};
use std::{collections::HashSet, net::IpAddr};

/// `--http.vhosts` (Geth `node/rpcstack.go`, `virtualHostHandler`).
#[derive(Debug)]
pub(crate) struct VirtualHosts {
    /// `None`: any.
    names: Option<HashSet<String>>,
}

impl VirtualHosts {
    pub(crate) fn new(names: &[String]) -> Self {
        let any = names.iter().any(|name| name == "*");
        Self { names: (!any).then(|| names.iter().map(|n| n.to_ascii_lowercase()).collect()) }
    }

    /// Whether a request may pass. HTTP/2 names the host in the target, HTTP/1.1 in the header.
    pub(crate) fn allows(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(names) = &self.names else { return true };
        let value = match uri.authority() {
            Some(authority) => authority.as_str(),
            None => match headers.get(HOST).map(|value| value.to_str()) {
                Some(Ok(value)) => value,
                Some(Err(_)) => return false,
                // HTTP/1.0 knows no Host; Geth lets it pass.
                None => return true,
            },
        };
        let host = value.parse::<Authority>().map_or(value.to_owned(), |a| a.host().to_owned());
        // Browsers do not rebind addresses, only names.
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || names.contains(&host.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(names: &[&str], host: &str) -> bool {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        VirtualHosts::new(&names).allows(&Uri::from_static("/"), &headers)
    }

    // go-ethereum#34693, #15962, #32488.
    #[test]
    fn host_is_lower_cased_and_addresses_pass() {
        for host in ["localhost", "LOCALHOST:8545", "localhost:1", "127.0.0.1:8545", "[::1]:8545"] {
            assert!(allows(&["localhost"], host), "{host}");
        }
        for host in ["EVIL.example", "localhost.evil.example:8545", "127.0.0.1.evil.example", ""] {
            assert!(!allows(&["localhost"], host), "{host}");
        }
        assert!(allows(&["Node.Example"], "node.example:8545"));
        assert!(!allows(&["node.example"], "localhost"));
        assert!(allows(&["*"], "evil.example"));
        assert!(!allows(&[], "localhost"));
    }

    #[test]
    fn host_of_the_target_counts_in_http2() {
        let hosts = VirtualHosts::new(&["localhost".to_owned()]);
        let uri = Uri::from_static("http://evil.example/");
        assert!(!hosts.allows(&uri, &HeaderMap::new()));
        assert!(hosts.allows(&Uri::from_static("http://localhost:8545/"), &HeaderMap::new()));
        assert!(hosts.allows(&Uri::from_static("/"), &HeaderMap::new()));
    }
}

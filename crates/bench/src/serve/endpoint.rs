use prestate_wire::Encoding;
use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    str::FromStr,
};

/// Where requests go. Shown, it is the host alone: providers put keys into paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    addr: SocketAddr,
    host: String,
    path: String,
}

/// Why a URL is not asked. The URL itself is not in it: it may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The load is plain HTTP/1.1: what TLS costs is not what is compared.
    #[error("only http://HOST[:PORT][/PATH] is measured, without TLS, names and passwords")]
    Unsupported,
    /// The host has no address.
    #[error("{host} has no address")]
    NoAddress {
        /// The host.
        host: String,
    },
}

impl Endpoint {
    /// A server of this machine, asked at `/`.
    pub fn local(addr: SocketAddr) -> Self {
        Self { addr, host: addr.to_string(), path: "/".to_owned() }
    }

    /// Its address.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// A JSON-RPC request, head and body.
    pub(crate) fn post(&self, body: &str, coding: Encoding) -> Vec<u8> {
        let Self { host, path, .. } = self;
        format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{}\
             content-length: {}\r\n\r\n{body}",
            accept(coding),
            body.len()
        )
        .into_bytes()
    }

    /// A request for a file.
    pub(crate) fn get(&self, path: &str, coding: Encoding) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{}\r\n", self.host, accept(coding)).into_bytes()
    }
}

fn accept(coding: Encoding) -> String {
    coding.header().map(|name| format!("accept-encoding: {name}\r\n")).unwrap_or_default()
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/…", self.host)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, EndpointError> {
        let rest = url.strip_prefix("http://").ok_or(EndpointError::Unsupported)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let bad = |text: &str| text.contains(|c: char| c.is_whitespace() || c.is_control());
        if host.is_empty() || host.contains('@') || bad(rest) {
            return Err(EndpointError::Unsupported);
        }
        // A colon behind the last bracket of an IPv6 address.
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if has_port { "" } else { ":80" };
        let addr = format!("{host}{port}").to_socket_addrs().ok().and_then(|mut all| all.next());
        let addr = addr.ok_or_else(|| EndpointError::NoAddress { host: host.to_owned() })?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { addr, host: host.to_owned(), path: format!("{slash}{path}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_never_shown() {
        let read = |url: &str| url.parse::<Endpoint>();
        let node = read("http://127.0.0.1:8545/v2/SECRET?key=SECRET").unwrap();
        assert_eq!(node.addr(), SocketAddr::from(([127, 0, 0, 1], 8545)));
        let request = String::from_utf8(node.post("{}", Encoding::Gzip)).unwrap();
        assert!(request.starts_with("POST /v2/SECRET?key=SECRET HTTP/1.1\r\nhost: 127.0.0.1:8545"));
        assert!(request.ends_with("accept-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}"));
        assert!(!format!("{node:?}").contains("SECRET"));
        assert_eq!(read("http://127.0.0.1").unwrap().addr().port(), 80);
        assert_eq!(read("http://[::1]:9").unwrap().addr().port(), 9);
        for url in
            ["https://h", "ftp://h", "h:80", "http://", "http://u:p@h/", "http://h /\r\nx: y"]
        {
            assert_eq!(read(url), Err(EndpointError::Unsupported), "{url}");
        }
        let nowhere = read("http://nowhere.invalid/SECRET").unwrap_err();
        assert!(!nowhere.to_string().contains("SECRET"), "{nowhere}");
    }
}

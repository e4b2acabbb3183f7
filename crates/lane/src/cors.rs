//! Cross-origin requests, with the headers Geth sends (`node/rpcstack.go`, `newCorsHandler`).

use crate::LaneError;
use http::{
    HeaderMap, HeaderValue, Method, Request, Uri,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN,
    },
};

/// Seconds a browser may keep a preflight's answer: Geth's.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// What scripts may read of our own headers.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("etag, server-timing, x-execution-time-ns, x-response-size");

/// `--http.corsdomain`.
#[derive(Debug)]
pub(crate) enum Cors {
    /// Nothing is said, browsers refuse.
    Off,
    Any,
    Origins(Vec<String>),
}

impl Cors {
    pub(crate) fn new(origins: &[String]) -> Result<Self, LaneError> {
        if origins.is_empty() {
            return Ok(Self::Off);
        }
        if origins.iter().any(|origin| origin == "*") {
            return Ok(Self::Any);
        }
        let origin = |given: &String| {
            let lower = given.trim_end_matches('/').to_ascii_lowercase();
            match lower.parse::<Uri>() {
                Ok(uri) if uri.scheme().is_some() && uri.authority().is_some() => Ok(lower),
                _ => Err(LaneError::BadOrigin { origin: given.clone() }),
            }
        };
        Ok(Self::Origins(origins.iter().map(origin).collect::<Result<_, _>>()?))
    }

    pub(crate) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// `Access-Control-Allow-Origin` for an origin, if it may call.
    fn allow(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        match self {
            Self::Off => None,
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Origins(origins) => {
                let text = origin.to_str().ok()?;
                origins.iter().any(|o| o.eq_ignore_ascii_case(text)).then(|| origin.clone())
            }
        }
    }

    /// Adds what an ordinary answer carries.
    pub(crate) fn decorate(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if let Some(allow) = origin.and_then(|origin| self.allow(origin)) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allow);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// The headers that answer a preflight, if the request is one. An origin or method that may
    /// not call gets none.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<HeaderMap> {
        let headers = request.headers();
        let method = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        if self.is_off() || request.method() != Method::OPTIONS {
            return None;
        }
        let mut answer = HeaderMap::new();
        let allow = headers.get(ORIGIN).and_then(|origin| self.allow(origin));
        if let Some(allow) = allow
            && [b"GET".as_slice(), b"POST", b"HEAD"].contains(&method.as_bytes())
        {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allow);
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
            // Geth's list is `*`: whatever is asked for.
            if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
                answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
            }
            answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
        Some(answer)
    }

    /// Whether a WebSocket may be opened. Browsers ask no preflight for one but name the origin;
    /// programs name none (Geth `rpc/websocket.go`). A page of our own may always.
    pub(crate) fn allows_socket(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(ORIGIN) else { return true };
        if self.allow(origin).is_some() {
            return true;
        }
        let Some(uri) = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok()) else {
            return false;
        };
        let same_site = uri.authority().is_some_and(|authority| {
            headers.get(HOST).is_some_and(|host| {
                authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
            })
        });
        // Geth without a list allows pages of http://localhost.
        same_site || (self.is_off() && uri.host() == Some("localhost"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(origins: &[&str]) -> Cors {
        Cors::new(&origins.iter().map(|&o| o.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn socket(cors: &Cors, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("node.example:8545"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        cors.allows_socket(&headers)
    }

    #[test]
    fn sockets_of_foreign_pages_are_refused() {
        let listed = cors(&["http://a.example"]);
        assert!(socket(&listed, None));
        assert!(socket(&listed, Some("http://A.example")));
        assert!(socket(&listed, Some("http://node.example:8545")));
        assert!(!socket(&listed, Some("http://b.example")));
        assert!(!socket(&listed, Some("null")));
        assert!(socket(&cors(&[]), Some("http://localhost:3000")));
        assert!(!socket(&cors(&[]), Some("http://b.example")));
        assert!(socket(&cors(&["*"]), Some("http://b.example")));
    }

    #[test]
    fn origins_are_checked_at_start() {
        assert!(matches!(
            Cors::new(&["a.example".to_owned()]),
            Err(LaneError::BadOrigin { origin }) if origin == "a.example"
        ));
    }
}

//! `GET /v1/blocks/{hash}/{view}`: results that never change, under addresses that caches
//! (nginx, Varnish, a CDN) can keep.

use http::{HeaderMap, HeaderValue, StatusCode, header::IF_NONE_MATCH};
use prestate_rpc_api::{RpcError, code};
use prestate_wire::Encoding;

/// Bumped when the bytes of a view change between versions of this program.
const FORMAT: u32 = 1;

/// What a year in a cache takes.
pub(crate) const IMMUTABLE: HeaderValue =
    HeaderValue::from_static("public, max-age=31536000, immutable");

/// A rendering of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Geth's diff-mode prestate trace. `exact` is spelt out: an address must mean the same bytes
    /// whatever the server's flags.
    Geth { exact: bool },
    /// Net change of the block.
    Block,
    /// Changes by transaction.
    Transactions,
}

impl View {
    fn name(self) -> &'static str {
        match self {
            View::Geth { exact: false } => "geth",
            View::Geth { exact: true } => "geth-exact",
            View::Block => "block",
            View::Transactions => "transactions",
        }
    }
}

/// A resource of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// `0x` and 64 digits in lower case.
    hash: String,
    view: View,
}

impl Resource {
    /// The resource of a path, `None` if there is no such address.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let (hash, view) = path.strip_prefix("/v1/blocks/")?.split_once('/')?;
        let digits = hash.strip_prefix("0x")?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let view = match view {
            "geth" => View::Geth { exact: false },
            "geth-exact" => View::Geth { exact: true },
            "block" => View::Block,
            "transactions" => View::Transactions,
            _ => return None,
        };
        Some(Self { hash: hash.to_ascii_lowercase(), view })
    }

    /// The call that makes it: method and parameters.
    pub(crate) fn call(&self) -> (&'static str, String) {
        let hash = &self.hash;
        match self.view {
            View::Geth { exact } => {
                let config = if exact {
                    r#""diffMode":true,"exact":true"#
                } else {
                    r#""diffMode":true,"exact":false"#
                };
                let options =
                    format!(r#"{{"tracer":"prestateTracer","tracerConfig":{{{config}}}}}"#);
                ("debug_traceBlockByHash", format!(r#"["{hash}",{options}]"#))
            }
            View::Block => ("prestate_getBlockDiff", format!(r#"["{hash}"]"#)),
            View::Transactions => ("prestate_getTransactionDiffs", format!(r#"["{hash}"]"#)),
        }
    }

    /// A strong tag: it differs by coding, since the bytes do (RFC 9110 §8.8.3.3).
    pub(crate) fn etag(&self, encoding: Encoding) -> String {
        format!("\"{}\"", self.tag(encoding))
    }

    fn tag(&self, encoding: Encoding) -> String {
        let coding = match encoding.header() {
            Some(name) => format!("-{name}"),
            None => String::new(),
        };
        format!("{}-{}-{FORMAT}{coding}", self.hash, self.view.name())
    }

    /// Whether the client has this resource, in any coding (RFC 9110 §13.1.2, weak comparison).
    /// `*` says only that it has something, and is no reason to believe the block exists.
    pub(crate) fn is_held(&self, headers: &HeaderMap) -> bool {
        let tags = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd].map(|e| self.etag(e));
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|tag| tag.trim())
            .map(|tag| tag.strip_prefix("W/").unwrap_or(tag))
            .any(|tag| tags.iter().any(|own| own == tag))
    }
}

/// The status of a call's error.
pub(crate) fn status(error: &RpcError) -> StatusCode {
    match error.code {
        // Geth's texts: "block 0x… not found", "header not found", "transaction not found".
        code::SERVER if error.message.contains("not found") => StatusCode::NOT_FOUND,
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::PRUNED_HISTORY => StatusCode::GONE,
        code::INVALID_PARAMS => StatusCode::BAD_REQUEST,
        code::TIMEOUT => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

//! What a failed call means. Providers agree on little but the words; this is the one place that
//! knows codes and texts.

use crate::Refusal;
use alloy_transport::{RpcError, TransportError};
use std::{fmt, time::Duration};

/// What a failed call means for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The method is not offered here, or not in this plan: no use asking again soon.
    Gated {
        /// The provider's words.
        reason: String,
    },
    /// Too much at once: the same call works later.
    RateLimited {
        /// If the provider says so.
        retry_after: Option<Duration>,
        /// The provider's words.
        reason: String,
    },
    /// The batch or its answer is too large: smaller ones work.
    TooLarge {
        /// The provider's words.
        reason: String,
    },
    /// The block is not known there: not yet, or not any more.
    UnknownBlock {
        /// The provider's words.
        reason: String,
    },
    /// The block is known, its state is not kept.
    Pruned {
        /// The provider's words.
        reason: String,
    },
    /// Connection, time-out or a fault of the server: the same call may work later.
    Unavailable {
        /// What happened.
        reason: String,
    },
    /// The call itself was refused: it will never work.
    Refused {
        /// JSON-RPC error code.
        code: i64,
        /// The server's words.
        reason: String,
    },
}

impl Fault {
    /// Whether the same call may work in a moment.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::UnknownBlock { .. }
        )
    }

    /// In the provider's words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Gated { reason }
            | Self::RateLimited { reason, .. }
            | Self::TooLarge { reason }
            | Self::UnknownBlock { reason }
            | Self::Pruned { reason }
            | Self::Unavailable { reason }
            | Self::Refused { reason, .. } => reason,
        }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }

    /// Reads an error of alloy's transports.
    pub fn of(error: &TransportError) -> Self {
        match error {
            RpcError::ErrorResp(payload) => match Refusal::of_payload(payload) {
                // A limit of what was asked, not of how often.
                Refusal::Limit { limit, message, .. } if OF_THE_CALL.contains(&limit.as_str()) => {
                    Self::Refused { code: payload.code, reason: message }
                }
                _ => of_reply(payload.code, &payload.message),
            },
            RpcError::NullResp => Self::UnknownBlock { reason: "the answer is null".to_owned() },
            RpcError::Transport(kind) => match kind.as_http_error() {
                Some(http) => of_status(http.status, &http.body, kind.retry_after()),
                None => Self::unavailable(bounded(&with_causes(kind))),
            },
            RpcError::DeserError { err, .. } => {
                Self::unavailable(format!("the answer cannot be read: {err}"))
            }
            other => Self::Refused { code: 0, reason: bounded(&other.to_string()) },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Gated { .. } => "not offered",
            Self::RateLimited { .. } => "rate limited",
            Self::TooLarge { .. } => "too large",
            Self::UnknownBlock { .. } => "unknown block",
            Self::Pruned { .. } => "state not kept",
            Self::Unavailable { .. } => "unavailable",
            Self::Refused { .. } => "refused",
        };
        write!(f, "{kind}: {}", self.reason())
    }
}

/// An error with what it was caused by: reqwest's own text says no more than that sending failed.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Longest text kept of an answer: some providers send HTML pages.
const MAX_TEXT: usize = 300;

fn bounded(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

fn any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Geth `errMsgBatchTooLarge`, `errMsgResponseTooLarge`; jsonrpsee -32008 and -32010; providers.
fn says_too_large(text: &str) -> bool {
    let large = ["too large", "too big", "too many", "exceed", "limit", "maximum"];
    any(text, &["response too large", "response is too big", "response size"])
        || text.contains("batch") && any(text, &large)
}

/// Alchemy, Infura, QuickNode, Cloudflare, Base and public gateways.
const RATE_LIMITED: [&str; 10] = [
    "rate limit",
    "ratelimit",
    "too many requests",
    "compute units per second",
    "request limit reached",
    "credits limited",
    "throughput",
    "over capacity",
    "request rate exceeded",
    "daily request count exceeded",
];

/// Limits of this project's servers that the same call hits again.
const OF_THE_CALL: [&str; 7] = [
    "rangeBlocks",
    "watchedSlots",
    "readSlots",
    "filterAddresses",
    "filterSlots",
    "structLogBytes",
    "limit",
];

/// Geth, Erigon, Nethermind, reth, Alchemy, Infura, QuickNode, public gateways.
const GATED: [&str; 16] = [
    "does not exist/is not available",
    "method not found",
    "method is not supported",
    "method not supported",
    "unsupported method",
    "not supported",
    "not available on",
    "not available in",
    "not enabled",
    "is disabled",
    "not whitelisted",
    "not allowed",
    "upgrade",
    "forbidden",
    "unauthorized",
    "access denied",
];

const UNKNOWN_BLOCK: [&str; 7] = [
    "header not found",
    "block not found",
    "unknown block",
    "header for hash not found",
    "could not find block",
    // This project's words.
    "is not known here",
    "is above the newest block",
];

const PRUNED: [&str; 7] = [
    "missing trie node",
    "historical state",
    "pruned",
    "state not available",
    "state is not available",
    "state histories",
    "no state available",
];

fn of_reply(code: i64, message: &str) -> Fault {
    let reason = bounded(message);
    let text = reason.to_lowercase();
    // Size first: "batch limit exceeded" is no matter of time.
    if matches!(code, -32003 | -32008 | -32010) && any(&text, &["large", "big", "limit"])
        || says_too_large(&text)
    {
        return Fault::TooLarge { reason };
    }
    if code == 429
        || matches!(code, -32005 | -32007 | -32012 | -32016 | -32029)
        || any(&text, &RATE_LIMITED)
    {
        return Fault::RateLimited { retry_after: None, reason };
    }
    if code == 4444 || any(&text, &PRUNED) {
        return Fault::Pruned { reason };
    }
    // Geth and this project: `block #5 not found`, `block 0x… not found`.
    if any(&text, &UNKNOWN_BLOCK) || text.starts_with("block ") && text.ends_with("not found") {
        return Fault::UnknownBlock { reason };
    }
    // EIP-1474: -32004 method not supported. -32600 is how Alchemy refuses a plan.
    if matches!(code, -32601 | -32600 | -32004 | 403 | 401) || any(&text, &GATED) {
        return Fault::Gated { reason };
    }
    if matches!(code, -32603 | -32002 | 500..=599) || any(&text, &["timeout", "timed out"]) {
        return Fault::Unavailable { reason };
    }
    Fault::Refused { code, reason }
}

fn of_status(status: u16, body: &str, retry_after: Option<Duration>) -> Fault {
    let reason = format!("HTTP {status} {}", bounded(body.trim()));
    match status {
        429 => Fault::RateLimited { retry_after, reason },
        413 => Fault::TooLarge { reason },
        401 | 403 | 404 | 405 | 501 => Fault::Gated { reason },
        503 if retry_after.is_some() => Fault::RateLimited { retry_after, reason },
        408 | 500..=599 => Fault::Unavailable { reason },
        _ => Fault::Refused { code: status.into(), reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_transport::TransportErrorKind;

    fn kind(fault: &Fault) -> &'static str {
        match fault {
            Fault::Gated { .. } => "gated",
            Fault::RateLimited { .. } => "rate",
            Fault::TooLarge { .. } => "large",
            Fault::UnknownBlock { .. } => "unknown",
            Fault::Pruned { .. } => "pruned",
            Fault::Unavailable { .. } => "down",
            Fault::Refused { .. } => "refused",
        }
    }

    #[test]
    fn what_providers_say() {
        let said = [
            (-32601, "the method debug_traceBlockByHash does not exist/is not available", "gated"),
            (-32600, "debug_traceBlockByHash is not available on the Free tier", "gated"),
            (-32601, "Method not found", "gated"),
            (-32000, "Method is not whitelisted", "gated"),
            (-32052, "API key is not allowed to access method", "gated"),
            (-32004, "method not supported", "gated"),
            (429, "Your app has exceeded its compute units per second capacity.", "rate"),
            (-32005, "daily request count exceeded, request rate limited", "rate"),
            (-32016, "over rate limit", "rate"),
            (-32012, "credits limited to 6000/sec", "rate"),
            (-32007, "50/second request limit reached", "rate"),
            (-32600, "batch too large", "large"),
            (-32010, "The batch request was too large", "large"),
            (-32005, "batch limit exceeded", "large"),
            (-32003, "response too large", "large"),
            (-32008, "Response is too big", "large"),
            (-32000, "header not found", "unknown"),
            (-32000, "block #999 not found", "unknown"),
            (-32001, "Unknown block", "unknown"),
            (-32000, "block 5 is above the newest block 4", "unknown"),
            (-32000, "block 0x1 is not known here: it belongs to another chain", "unknown"),
            (4444, "block #1 is below the earliest block 5", "pruned"),
            (-32000, "missing trie node 1234 (path ) state 0x1 is not available", "pruned"),
            (-32000, "historical state is not available", "pruned"),
            (4444, "pruned history unavailable", "pruned"),
            (-32000, "execution timeout", "down"),
            (-32603, "internal error", "down"),
            (-32602, "invalid argument 0: hex string without 0x prefix", "refused"),
            (-32000, "genesis is not traceable", "refused"),
        ];
        for (code, message, expected) in said {
            assert_eq!(kind(&of_reply(code, message)), expected, "{code} {message}");
        }
    }

    #[test]
    fn a_limit_of_the_call_is_not_one_of_the_rate() {
        let of = |limit: &str| {
            let data = serde_json::json!({ "limit": limit, "value": 1, "given": 2 });
            let error = serde_json::json!({ "code": -32005, "message": "x", "data": data });
            Fault::of(&RpcError::ErrorResp(serde_json::from_value(error).unwrap()))
        };
        assert_eq!(kind(&of("rangeBlocks")), "refused");
        assert_eq!(kind(&of("queue")), "rate");
    }

    #[test]
    fn what_http_says() {
        let cases =
            [(403, "gated"), (429, "rate"), (413, "large"), (502, "down"), (400, "refused")];
        for (status, expected) in cases {
            let error = TransportErrorKind::http_error(status, "<html>".to_owned());
            assert_eq!(kind(&Fault::of(&error)), expected, "{status}");
        }
        let later = Some(Duration::from_secs(7));
        let error = TransportErrorKind::http_error_with_retry_after(429, String::new(), later);
        let Fault::RateLimited { retry_after, .. } = Fault::of(&error) else { panic!("{error}") };
        assert_eq!(retry_after, later);
        assert_eq!(kind(&Fault::of(&TransportErrorKind::backend_gone())), "down");
    }
}

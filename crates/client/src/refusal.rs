use alloy_json_rpc::ErrorPayload;
use alloy_transport::TransportError;
use prestate_rpc_api::{BlockHandle, code};
use serde::Deserialize;
use serde_json::Value;

/// A server's refusal of a `prestate_*` call, read from code and `data`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// -32005 with `data: {limit, value, given}`.
    #[error("{message} (limit {limit}: {value}, given {given})")]
    Limit {
        /// Name of the limit.
        limit: String,
        /// Its value.
        value: u64,
        /// What was asked.
        given: u64,
        /// The server's words.
        message: String,
    },
    /// 4444: the history is not kept.
    #[error("{message}")]
    Pruned {
        /// First block that is, if the server says.
        earliest: Option<BlockHandle>,
        /// The server's words.
        message: String,
    },
    /// A block above the head.
    #[error("{message}")]
    Future {
        /// The newest block, if the server says.
        head: Option<BlockHandle>,
        /// The server's words.
        message: String,
    },
    /// A block that the server does not know: of another chain, or gone too long ago.
    #[error("{message}")]
    UnknownBlock {
        /// The server's words.
        message: String,
    },
    /// -32602: the parameters are wrong.
    #[error("{0}")]
    InvalidParams(String),
    /// -32601: the namespace is not offered.
    #[error("{0}")]
    NoSuchMethod(String),
    /// Any other.
    #[error("{message}")]
    Other {
        /// JSON-RPC error code.
        code: i64,
        /// The server's words.
        message: String,
        /// What came with it, JSON.
        data: Option<Value>,
    },
}

impl Refusal {
    /// Reads an error of alloy's; `None` if the server did not answer at all.
    pub fn of(error: &TransportError) -> Option<Self> {
        error.as_error_resp().map(Self::of_payload)
    }

    /// Reads the error object of a reply.
    pub(crate) fn of_payload(payload: &ErrorPayload) -> Self {
        let message = payload.message.to_string();
        let data = payload.data.as_ref();
        let data = data.and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
        let field = |name: &str| data.as_ref().and_then(|data| data.get(name));
        let count = |name: &str| field(name).and_then(Value::as_u64);
        let block = |name: &str| field(name).and_then(|value| BlockHandle::deserialize(value).ok());
        let text = |name: &str| field(name).and_then(Value::as_str);
        match (i32::try_from(payload.code), text("limit"), count("value"), count("given")) {
            (Ok(code::LIMIT_EXCEEDED), Some(limit), Some(value), Some(given)) => {
                Self::Limit { limit: limit.to_owned(), value, given, message }
            }
            (Ok(code::PRUNED_HISTORY), ..) => Self::Pruned { earliest: block("earliest"), message },
            (Ok(code::INVALID_PARAMS), ..) => Self::InvalidParams(message),
            (Ok(code::METHOD_NOT_FOUND), ..) => Self::NoSuchMethod(message),
            (Ok(code::SERVER), ..) if text("reason") == Some("future") => {
                Self::Future { head: block("head"), message }
            }
            (Ok(code::SERVER), ..) if text("reason") == Some("unknown") => {
                Self::UnknownBlock { message }
            }
            _ => Self::Other { code: payload.code, message, data },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use alloy_transport::TransportErrorKind;
    use serde_json::json;

    fn of(error: Value) -> Refusal {
        let payload = serde_json::from_value(error).unwrap();
        Refusal::of(&TransportError::ErrorResp(payload)).unwrap()
    }

    #[test]
    fn codes_and_data_are_read() {
        let data = json!({ "limit": "readSlots", "value": 10_000, "given": 10_001 });
        assert_eq!(
            of(json!({ "code": -32005, "message": "too many", "data": data })),
            Refusal::Limit {
                limit: "readSlots".into(),
                value: 10_000,
                given: 10_001,
                message: "too many".into(),
            }
        );
        let block = |n: u64| BlockHandle { number: n, hash: B256::with_last_byte(n as u8) };
        let data = |reason| json!({ "reason": reason, "earliest": block(16), "head": block(20) });
        let words = || "block is not there".to_owned();
        assert_eq!(
            of(json!({ "code": 4444, "message": words(), "data": data("pruned") })),
            Refusal::Pruned { earliest: Some(block(16)), message: words() }
        );
        assert_eq!(
            of(json!({ "code": -32000, "message": words(), "data": data("future") })),
            Refusal::Future { head: Some(block(20)), message: words() }
        );
        assert_eq!(
            of(json!({ "code": -32000, "message": words(), "data": data("unknown") })),
            Refusal::UnknownBlock { message: words() }
        );
        assert_eq!(
            of(json!({ "code": -32000, "message": words() })),
            Refusal::Other { code: -32000, message: words(), data: None }
        );
        assert_eq!(
            of(json!({ "code": -32602, "message": "x" })),
            Refusal::InvalidParams("x".into())
        );
        assert_eq!(
            of(json!({ "code": -32601, "message": "x" })),
            Refusal::NoSuchMethod("x".into())
        );
        assert_eq!(Refusal::of(&TransportErrorKind::backend_gone()), None);
    }
}

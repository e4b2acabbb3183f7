use alloy_transport::TransportError;
use prestate_rpc_api::code;
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
        earliest: Option<u64>,
        /// The server's words.
        message: String,
    },
    /// -32602: the parameters are wrong.
    #[error("{0}")]
    InvalidParams(String),
    /// -32601: the namespace is not offered.
    #[error("{0}")]
    NoSuchMethod(String),
    /// Any other: an unknown block, a block of another chain.
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
        let payload = error.as_error_resp()?;
        let message = payload.message.to_string();
        let data = payload.data.as_ref();
        let data = data.and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
        let field = |name: &str| data.as_ref().and_then(|data| number(data.get(name)?));
        let limit = data.as_ref().and_then(|data| data.get("limit")?.as_str());
        let codes = i32::try_from(payload.code);
        Some(match (codes, limit, field("value"), field("given")) {
            (Ok(code::LIMIT_EXCEEDED), Some(limit), Some(value), Some(given)) => {
                Self::Limit { limit: limit.to_owned(), value, given, message }
            }
            (Ok(code::PRUNED_HISTORY), ..) => Self::Pruned { earliest: field("earliest"), message },
            (Ok(code::INVALID_PARAMS), ..) => Self::InvalidParams(message),
            (Ok(code::METHOD_NOT_FOUND), ..) => Self::NoSuchMethod(message),
            _ => Self::Other { code: payload.code, message, data },
        })
    }
}

/// A JSON number or a quantity.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        other => other.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let earliest = json!({ "earliest": "0x10" });
        assert_eq!(
            of(json!({ "code": 4444, "message": "pruned history unavailable", "data": earliest })),
            Refusal::Pruned { earliest: Some(16), message: "pruned history unavailable".into() }
        );
        assert_eq!(
            of(json!({ "code": -32000, "message": "block 0x1 not found" })),
            Refusal::Other { code: -32000, message: "block 0x1 not found".into(), data: None }
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

use serde_json::value::RawValue;

/// JSON-RPC error codes in use. The first five are the JSON-RPC 2.0 book's, the others Geth's
/// (`rpc/errors.go`) and EIP-1474's.
pub mod code {
    /// The body is not JSON.
    pub const PARSE: i32 = -32700;
    /// JSON, but no JSON-RPC request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// Parameters of the wrong number, type or form.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A fault of ours; the cause is in the log.
    pub const INTERNAL: i32 = -32603;
    /// Geth's default: the request was understood and failed.
    pub const SERVER: i32 = -32000;
    /// Geth's answer of a request that took too long.
    pub const TIMEOUT: i32 = -32002;
    /// A limit was hit; `data` says which and its value.
    pub const LIMIT_EXCEEDED: i32 = -32005;
    /// History that was there and is pruned (Geth `core/history`).
    pub const PRUNED_HISTORY: i32 = 4444;
}

/// An error as the caller sees it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// See [`code`].
    pub code: i32,
    /// One line; Geth's text where Geth has one.
    pub message: String,
    /// More for programs, JSON.
    pub data: Option<Box<RawValue>>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// A request that was understood and failed (-32000).
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(code::SERVER, message)
    }

    /// Bad parameters (-32602).
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// An unknown method (-32601), in Geth's words. The caller bounds the name's length, so that a
    /// huge one does not come back (go-ethereum#31711).
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("the method {method} does not exist/is not available"),
        )
    }

    /// A fault of ours (-32603); the cause belongs into the log, not here.
    pub fn internal() -> Self {
        Self::new(code::INTERNAL, "internal error")
    }

    /// A limit was hit (-32005): which, its value, and what was asked.
    pub fn limit(message: impl Into<String>, limit: &str, value: u64, given: u64) -> Self {
        let data = format!(
            "{{\"limit\":{},\"value\":{value},\"given\":{given}}}",
            serde_json::Value::from(limit)
        );
        Self {
            code: code::LIMIT_EXCEEDED,
            message: message.into(),
            data: RawValue::from_string(data).ok(),
        }
    }

    /// The error object as JSON.
    pub fn to_json(&self) -> String {
        let message = serde_json::Value::from(self.message.as_str());
        match &self.data {
            Some(data) => {
                format!("{{\"code\":{},\"message\":{message},\"data\":{}}}", self.code, data.get())
            }
            None => format!("{{\"code\":{},\"message\":{message}}}", self.code),
        }
    }
}

impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        let data = |error: &Self| error.data.as_ref().map(|data| data.get().to_owned());
        self.code == other.code && self.message == other.message && data(self) == data(other)
    }
}

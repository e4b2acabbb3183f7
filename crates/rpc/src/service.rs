use async_trait::async_trait;
use prestate_rpc_api::{RpcError, code};
use prestate_wire::Rope;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::mpsc;

/// One call, its envelope taken off.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// `namespace_method`.
    pub method: &'a str,
    /// The `params` as they came; `None` if left out.
    pub params: Option<&'a RawValue>,
}

/// Where the time went, for `Server-Timing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// Executing transactions.
    pub execute: Duration,
    /// Writing JSON.
    pub encode: Duration,
}

/// How a result came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes were there.
    Hit,
    /// They were made for this call.
    Miss,
    /// Too small or too volatile to keep.
    Uncached,
}

/// A piece of a result that is made while the client reads: a run of JSON text, or the fault that
/// ended it early.
pub type Piece = Result<Rope, RpcError>;

/// A result's bytes.
#[derive(Debug)]
pub enum Reply {
    /// All there.
    Whole(Rope),
    /// Made while the client reads. The pieces concatenate to one JSON value. After an `Err` the
    /// value is cut off: the connection must be broken visibly. Dropping the receiver stops the
    /// work behind it.
    Stream(mpsc::Receiver<Piece>),
}

/// A result with what is known of its making.
#[derive(Debug)]
pub struct Answer {
    /// The `result` member.
    pub reply: Reply,
    /// Hit or miss.
    pub outcome: Outcome,
    /// Zero on a hit.
    pub timing: Timing,
}

impl Answer {
    /// A small result, made anew each time.
    pub fn uncached(json: impl Into<Rope>) -> Self {
        Self {
            reply: Reply::Whole(json.into()),
            outcome: Outcome::Uncached,
            timing: Timing::default(),
        }
    }
}

/// A subscription that was opened.
#[derive(Debug)]
pub struct Subscribed {
    /// What the notifications carry as `params.result`, in order. The end of it is the end of the
    /// subscription; dropping it closes the subscription.
    pub messages: mpsc::Receiver<Rope>,
}

/// The namespaces as one function: what a transport calls.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Answers a call. An unknown method is an [`RpcError`] like any other.
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError>;

    /// The methods answered, sorted; those of subscriptions among them.
    fn methods(&self) -> &[&'static str];

    /// Namespaces with subscriptions: a transport that can notify takes `namespace_subscribe` to
    /// [`Service::subscribe`], gives out ids, notifies under `namespace_subscription` and answers
    /// `namespace_unsubscribe` itself (Geth `rpc/json.go` has the suffixes).
    fn subscriptions(&self) -> &[&'static str] {
        &[]
    }

    /// Opens a subscription: `namespace_subscribe`.
    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        Err(RpcError::method_not_found(call.method))
    }
}

/// The answer to a subscription over a transport that cannot notify (Geth `rpc/errors.go`).
pub fn notifications_unsupported() -> RpcError {
    RpcError::new(code::METHOD_NOT_FOUND, "notifications not supported")
}

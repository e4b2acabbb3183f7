use crate::shared::Shared;
use alloy_primitives::{B256, U64};
use jsonrpsee::{
    MethodResponse,
    core::middleware::{Batch, Notification, RpcServiceT},
    types::{Request, ResponsePayload},
};
use prestate_host::Host;
use prestate_rpc::{Call, Reply, Service};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, future::Future, sync::Arc};
use tower::Layer;

/// Tracers whose answers are made once and kept.
const TRACERS: [&str; 2] = ["prestateTracer", "callTracer"];
/// Series: calls answered in the node's place.
const INTERCEPTED: &str = "prestate_intercepted_total";

/// RPC middleware of the node's own transports: answers prestate and call tracer requests of
/// `debug_traceBlockByNumber`, `debug_traceBlockByHash` and `debug_traceTransaction` for blocks
/// that are kept. Everything else passes through untouched, and so does what fails here.
#[derive(Clone)]
pub struct InterceptLayer {
    /// `None`: all passes through.
    pub(crate) answering: Option<Answering>,
}

impl fmt::Debug for InterceptLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterceptLayer").field("on", &self.answering.is_some()).finish()
    }
}

/// Who answers.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) shared: Arc<Shared>,
}

impl<S> Layer<S> for InterceptLayer {
    type Service = Intercept<S>;

    fn layer(&self, inner: S) -> Intercept<S> {
        Intercept { inner, answering: self.answering.clone() }
    }
}

/// See [`InterceptLayer`].
#[derive(Clone)]
pub struct Intercept<S> {
    inner: S,
    answering: Option<Answering>,
}

impl<S> fmt::Debug for Intercept<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intercept").field("on", &self.answering.is_some()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    tracer: Option<Cow<'a, str>>,
}

impl Answering {
    /// The answer, if the call is one of ours and its block is kept.
    async fn answer(&self, method: &str, params: Option<&str>) -> Option<Box<RawValue>> {
        if !matches!(
            method,
            "debug_traceBlockByNumber" | "debug_traceBlockByHash" | "debug_traceTransaction"
        ) {
            return None;
        }
        let params = params?;
        let (what, config): (Cow<'_, str>, Config<'_>) = serde_json::from_str(params).ok()?;
        if !TRACERS.contains(&&*config.tracer?) {
            return None;
        }
        let (shared, method, what) = (self.shared.clone(), method.to_owned(), what.into_owned());
        let params = RawValue::from_string(params.to_owned()).ok()?;
        // Looking whether the block is kept may read the disk, and so may the answer.
        let run = async move {
            let (asked, looked) = (shared.clone(), method.clone());
            let kept = tokio::task::spawn_blocking(move || is_kept(&asked, &looked, &what));
            if !kept.await.is_ok_and(|kept| kept) {
                return None;
            }
            let call = Call { method: &method, params: Some(&params) };
            let answer = shared.current.call(call).await.ok()?;
            let Reply::Whole(rope) = answer.reply else { return None };
            let json = String::from_utf8(rope.to_vec()).ok()?;
            metrics::counter!(INTERCEPTED, "method" => method).increment(1);
            RawValue::from_string(json).ok()
        };
        self.shared.runtime().spawn(run).await.ok()?
    }
}

/// Whether the block asked for is in memory or in the archive.
fn is_kept(shared: &Shared, method: &str, what: &str) -> bool {
    let Some((pipeline, host)) = shared.pipeline().zip(shared.host()) else { return false };
    let hash = match method {
        "debug_traceBlockByHash" => what.parse().ok(),
        "debug_traceTransaction" => {
            let place = what.parse::<B256>().ok().and_then(|hash| host.transaction(hash).ok()?);
            place.map(|place| place.block.hash)
        }
        _ => canonical(&*host, what),
    };
    let block = hash.and_then(|hash| pipeline.block(&hash).ok()?);
    block.is_some()
}

fn canonical(host: &dyn Host, block: &str) -> Option<B256> {
    match block {
        "latest" => host.head().ok().map(|block| block.hash),
        "safe" => host.safe().ok()?.map(|block| block.hash),
        "finalized" => host.finalized().ok()?.map(|block| block.hash),
        number => host.canonical_hash(number.parse::<U64>().ok()?.to()).ok()?,
    }
}

impl<S> RpcServiceT for Intercept<S>
where
    S: RpcServiceT<
            MethodResponse = MethodResponse,
            BatchResponse = MethodResponse,
            NotificationResponse = MethodResponse,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    type MethodResponse = MethodResponse;
    type NotificationResponse = MethodResponse;
    type BatchResponse = MethodResponse;

    fn call<'a>(&self, request: Request<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        let (inner, answering) = (self.inner.clone(), self.answering.clone());
        async move {
            if let Some(answering) = answering {
                let params = request.params.as_ref().map(|params| params.get());
                if let Some(result) = answering.answer(&request.method, params).await {
                    // The node's own limit applies to what the node makes.
                    let payload = ResponsePayload::success(result).into();
                    return MethodResponse::response(request.id, payload, usize::MAX);
                }
            }
            inner.call(request).await
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.batch(batch)
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = MethodResponse> + Send + 'a {
        self.inner.notification(notification)
    }
}

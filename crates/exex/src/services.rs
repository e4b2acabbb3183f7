use crate::health::Health;
use async_trait::async_trait;
use parking_lot::RwLock;
use prestate_rpc::{Answer, Call, METHODS, Reply, Rpc, Service, Subscribed};
use prestate_rpc_api::RpcError;
use serde_json::Value;
use std::{fmt, sync::Arc};
use tokio::runtime::Handle;

/// As [`Rpc`] has them, whether or not there is one at the moment.
const SUBSCRIPTIONS: &[&str] = &["prestate"];

/// The namespaces as they are now: the pipeline behind them may be started anew.
#[derive(Debug, Default)]
pub(crate) struct Current {
    rpc: RwLock<Option<Rpc>>,
    health: Arc<Health>,
}

impl Current {
    pub(crate) fn new(health: Arc<Health>) -> Self {
        Self { rpc: RwLock::default(), health }
    }

    pub(crate) fn set(&self, rpc: Rpc) {
        *self.rpc.write() = Some(rpc);
    }

    pub(crate) fn clear(&self) {
        *self.rpc.write() = None;
    }

    pub(crate) fn get(&self) -> Result<Rpc, RpcError> {
        self.rpc.read().clone().ok_or_else(|| RpcError::server("prestate is starting"))
    }

    /// Adds what is wrong with the host to its status.
    fn with_problems(&self, answer: Answer) -> Answer {
        let Reply::Whole(rope) = &answer.reply else { return answer };
        let Ok(Value::Object(mut status)) = serde_json::from_slice(&rope.to_vec()) else {
            return answer;
        };
        status.insert("problems".into(), self.health.json());
        Answer::uncached(Value::Object(status).to_string())
    }
}

#[async_trait]
impl Service for Current {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        let answer = self.get()?.call(call).await?;
        Ok(if call.method == "prestate_status" { self.with_problems(answer) } else { answer })
    }

    fn methods(&self) -> &[&'static str] {
        METHODS
    }

    fn subscriptions(&self) -> &[&'static str] {
        SUBSCRIPTIONS
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        self.get()?.subscribe(call).await
    }
}

/// A part of a service, where need be run on a runtime of its own: a node's transports must not do
/// its work.
pub(crate) struct Part {
    service: Arc<dyn Service>,
    methods: Vec<&'static str>,
    subscriptions: Vec<&'static str>,
    runtime: Option<Handle>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("methods", &self.methods).finish_non_exhaustive()
    }
}

impl Part {
    /// The methods of a service that are `kept`, and the subscriptions whose method is.
    pub(crate) fn new(
        service: Arc<dyn Service>,
        kept: impl Fn(&str) -> bool,
        runtime: Option<Handle>,
    ) -> Self {
        let methods = service.methods().iter().copied().filter(|name| kept(name)).collect();
        let spaces = service.subscriptions().iter().copied();
        let subscriptions = spaces.filter(|space| kept(&format!("{space}_subscribe"))).collect();
        Self { service, methods, subscriptions, runtime }
    }
}

#[async_trait]
impl Service for Part {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        let Some(runtime) = &self.runtime else { return self.service.call(call).await };
        let (service, method) = (self.service.clone(), call.method.to_owned());
        let params = call.params.map(ToOwned::to_owned);
        let run =
            async move { service.call(Call { method: &method, params: params.as_deref() }).await };
        runtime.spawn(run).await.unwrap_or_else(|_| Err(RpcError::internal()))
    }

    fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    fn subscriptions(&self) -> &[&'static str] {
        &self.subscriptions
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        let Some(runtime) = &self.runtime else { return self.service.subscribe(call).await };
        let (service, method) = (self.service.clone(), call.method.to_owned());
        let params = call.params.map(ToOwned::to_owned);
        let run = async move {
            service.subscribe(Call { method: &method, params: params.as_deref() }).await
        };
        runtime.spawn(run).await.unwrap_or_else(|_| Err(RpcError::internal()))
    }
}

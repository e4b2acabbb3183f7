//! jsonrpsee's modules as a [`Service`], and the other way about.

use crate::{Answer, Call, Reply, Service, Subscribed};
use async_trait::async_trait;
use jsonrpsee::{
    Methods, RpcModule, SubscriptionMessage,
    types::{ErrorObject, ErrorObjectOwned},
};
use prestate_rpc_api::RpcError;
use prestate_wire::Rope;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::mpsc;

/// Notifications that wait between a module and the transport; beyond it jsonrpsee holds the
/// sender back.
const SUBSCRIPTION_BUFFER: usize = 64;

/// jsonrpsee modules as a service: a node's own namespaces on the lane.
#[derive(Debug)]
pub struct Modules {
    inner: Methods,
    methods: Vec<&'static str>,
    subscriptions: Vec<&'static str>,
}

impl Modules {
    /// All methods of a module.
    pub fn new(methods: impl Into<Methods>) -> Self {
        let inner = methods.into();
        let names: BTreeSet<_> = inner.method_names().collect();
        let subscriptions =
            names.iter().filter_map(|name| name.strip_suffix("_subscribe")).collect();
        Self { methods: names.into_iter().collect(), inner, subscriptions }
    }

    async fn request(
        &self,
        call: Call<'_>,
    ) -> Result<(Box<RawValue>, mpsc::Receiver<Box<RawValue>>), RpcError> {
        #[derive(Serialize)]
        struct Request<'a> {
            jsonrpc: &'static str,
            id: u8,
            method: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Response {
            result: Option<Box<RawValue>>,
            error: Option<ErrorObjectOwned>,
        }
        let request = Request { jsonrpc: "2.0", id: 0, method: call.method, params: call.params };
        let request = serde_json::to_string(&request).map_err(|_| RpcError::internal())?;
        let (response, notifications) = self
            .inner
            .raw_json_request(&request, SUBSCRIPTION_BUFFER)
            .await
            .map_err(|_| RpcError::internal())?;
        let response: Response =
            serde_json::from_str(response.get()).map_err(|_| RpcError::internal())?;
        match (response.result, response.error) {
            (_, Some(error)) => Err(RpcError {
                code: error.code(),
                message: error.message().to_owned(),
                data: error.data().map(ToOwned::to_owned),
            }),
            (Some(result), None) => Ok((result, notifications)),
            // `null` reads as nothing.
            (None, None) => Ok((RawValue::NULL.to_owned(), notifications)),
        }
    }
}

fn rope(json: Box<RawValue>) -> Rope {
    Rope::from(String::from(Box::<str>::from(json)))
}

#[async_trait]
impl Service for Modules {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        let (result, _) = self.request(call).await?;
        Ok(Answer::uncached(rope(result)))
    }

    fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    fn subscriptions(&self) -> &[&'static str] {
        &self.subscriptions
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        #[derive(Deserialize)]
        struct Notification {
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            result: Box<RawValue>,
        }
        let (_, mut notifications) = self.request(call).await?;
        let (sender, messages) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let notification = tokio::select! {
                    notification = notifications.recv() => notification,
                    () = sender.closed() => return,
                };
                let Some(notification) = notification else { return };
                // What is no result is the module's word that the subscription failed: it ends.
                let Ok(Notification { params }) = serde_json::from_str(notification.get()) else {
                    return;
                };
                if sender.send(rope(params.result)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Subscribed { messages })
    }
}

/// A service as a jsonrpsee module, for a node's own transports. Results are copied into
/// jsonrpsee's replies; the lane is the way without copies.
pub fn into_module(service: Arc<dyn Service>) -> RpcModule<()> {
    let mut module = RpcModule::new(());
    let notified = |name: &str, suffix: &str| {
        name.strip_suffix(suffix).is_some_and(|space| service.subscriptions().contains(&space))
    };
    for &method in service.methods() {
        if notified(method, "_subscribe") || notified(method, "_unsubscribe") {
            continue;
        }
        let service = service.clone();
        let registered = module.register_async_method(method, move |params, _, _| {
            let service = service.clone();
            async move {
                let params = raw_params(params.as_str())?;
                let call = Call { method, params: params.as_deref() };
                let reply = service.call(call).await.map_err(object)?.reply;
                whole(reply).await.map_err(object)
            }
        });
        // The names of one service differ.
        debug_assert!(registered.is_ok());
    }
    for &space in service.subscriptions() {
        // jsonrpsee takes names that live for ever: three a namespace, once a process.
        let name = |suffix: &str| -> &'static str { format!("{space}_{suffix}").leak() };
        let (subscribe, service) = (name("subscribe"), service.clone());
        let registered = module.register_subscription(
            subscribe,
            name("subscription"),
            name("unsubscribe"),
            move |params, pending, _, _| {
                let service = service.clone();
                async move {
                    let subscribed = async {
                        let params = raw_params(params.as_str())?;
                        let call = Call { method: subscribe, params: params.as_deref() };
                        service.subscribe(call).await.map_err(object)
                    };
                    let mut messages = match subscribed.await {
                        Ok(subscribed) => subscribed.messages,
                        Err(error) => {
                            pending.reject(error).await;
                            return Ok(());
                        }
                    };
                    let Ok(sink) = pending.accept().await else { return Ok(()) };
                    loop {
                        let message = tokio::select! {
                            message = messages.recv() => message,
                            () = sink.closed() => None,
                        };
                        let Some(message) = message else { return Ok(()) };
                        let message = SubscriptionMessage::from(raw(&message)?);
                        if sink.send(message).await.is_err() {
                            return Ok(());
                        }
                    }
                }
            },
        );
        debug_assert!(registered.is_ok());
    }
    module
}

fn raw_params(params: Option<&str>) -> Result<Option<Box<RawValue>>, ErrorObjectOwned> {
    let owned = params.map(|params| RawValue::from_string(params.to_owned())).transpose();
    owned.map_err(|error| object(RpcError::invalid_params(error.to_string())))
}

/// A whole result as jsonrpsee takes it.
async fn whole(reply: Reply) -> Result<Box<RawValue>, RpcError> {
    let rope = match reply {
        Reply::Whole(rope) => rope,
        Reply::Stream(mut pieces) => {
            let mut whole = Vec::new();
            while let Some(piece) = pieces.recv().await {
                whole.push(piece?);
            }
            Rope::concat(whole)
        }
    };
    raw(&rope).map_err(|_| RpcError::internal())
}

fn raw(rope: &Rope) -> Result<Box<RawValue>, serde_json::Error> {
    let text = String::from_utf8(rope.to_vec()).map_err(serde::ser::Error::custom)?;
    RawValue::from_string(text)
}

fn object(error: RpcError) -> ErrorObjectOwned {
    ErrorObject::owned(error.code, error.message, error.data)
}

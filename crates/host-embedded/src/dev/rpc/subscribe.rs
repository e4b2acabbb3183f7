//! `eth_subscribe`.

use super::{
    Answer, DevRpc,
    blocks::{json, pending_transaction, rpc_header},
    fault, logs,
};
use crate::dev::events::ChainEvent;
use alloy_rpc_types_eth::{
    Filter,
    pubsub::{Params as KindParams, SubscriptionKind},
};
use jsonrpsee::{
    PendingSubscriptionSink, RpcModule, SubscriptionSink,
    core::{RegisterMethodError, SubscriptionResult},
    types::Params,
};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::broadcast::{Receiver, error::RecvError};

pub(super) fn register(module: &mut RpcModule<DevRpc>) -> Result<(), RegisterMethodError> {
    module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, rpc, _| async move { subscribe(&params, pending, rpc).await },
    )?;
    Ok(())
}

/// What a subscription tells of.
#[derive(Debug)]
enum Topic {
    Heads,
    Logs(Box<Filter>),
    /// Whole transactions or hashes.
    Pending {
        full: bool,
    },
}

async fn subscribe(
    params: &Params<'_>,
    pending: PendingSubscriptionSink,
    rpc: Arc<DevRpc>,
) -> SubscriptionResult {
    let topic = match topic(params) {
        Ok(topic) => topic,
        Err(refused) => {
            pending.reject(refused).await;
            return Ok(());
        }
    };
    // Before the subscription is confirmed, so that nothing after it is missed.
    let (chain, hashes) =
        rpc.chain.with_events(|events| (events.chain.subscribe(), events.pending.subscribe()));
    let sink = pending.accept().await?;
    match topic {
        Topic::Heads => {
            let headers = |event: ChainEvent| {
                event.new.iter().map(|block| json(&rpc_header(block))).collect()
            };
            forward(sink, chain, headers).await
        }
        Topic::Logs(filter) => {
            let logs = |event| rpc.changed_logs(&filter, vec![event]).iter().map(json).collect();
            forward(sink, chain, logs).await
        }
        Topic::Pending { full } => {
            let seen = |hash| {
                if !full {
                    return Ok(vec![json(&hash)?]);
                }
                let tx = rpc.chain.with_pool(|pool| pool.get(&hash));
                tx.map(|tx| json(&pending_transaction(&tx))).into_iter().collect()
            };
            forward(sink, hashes, seen).await
        }
    }
}

/// Hands events on until either side is done.
async fn forward<T: Clone>(
    sink: SubscriptionSink,
    mut events: Receiver<T>,
    messages: impl Fn(T) -> Answer<Vec<Value>>,
) -> SubscriptionResult {
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = sink.closed() => return Ok(()),
        };
        match event {
            Ok(event) => {
                for message in messages(event)? {
                    send(&sink, &message).await?;
                }
            }
            // A gap is worse than an end.
            Err(RecvError::Lagged(missed)) => {
                return Err(format!("the subscriber is {missed} events behind").into());
            }
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

async fn send(sink: &SubscriptionSink, message: &Value) -> SubscriptionResult {
    let message = serde_json::value::to_raw_value(message)?;
    Ok(sink.send(message).await?)
}

fn topic(params: &Params<'_>) -> Answer<Topic> {
    let mut params = params.sequence();
    let kind: String = params.next()?;
    let no_such = || fault::invalid(format!("no {kind:?} subscription in eth namespace"));
    let read = serde_json::from_value(Value::String(kind.clone())).map_err(|_| no_such())?;
    Ok(match read {
        SubscriptionKind::NewHeads => Topic::Heads,
        SubscriptionKind::Logs => {
            let filter: Filter = params.optional_next()?.unwrap_or_default();
            logs::check(&filter)?;
            Topic::Logs(Box::new(filter))
        }
        SubscriptionKind::NewPendingTransactions => match params.optional_next()? {
            Some(KindParams::Bool(full)) => Topic::Pending { full },
            _ => Topic::Pending { full: false },
        },
        _ => return Err(no_such()),
    })
}

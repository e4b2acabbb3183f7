//! `eth_subscribe`.

use super::{
    Answer, DevRpc,
    blocks::{json, pending_transaction, rpc_header},
    fault, logs,
};
use crate::dev::events::Event;
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
use tokio::sync::broadcast::error::RecvError;

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
    Hashes,
    Transactions,
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
    let mut events = rpc.chain.with_events(|events| events.subscribe());
    let sink = pending.accept().await?;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = sink.closed() => return Ok(()),
        };
        match event {
            Ok(event) => {
                for message in rpc.messages(&topic, event)? {
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
            Some(KindParams::Bool(true)) => Topic::Transactions,
            _ => Topic::Hashes,
        },
        _ => return Err(no_such()),
    })
}

impl DevRpc {
    fn messages(&self, topic: &Topic, event: Event) -> Answer<Vec<Value>> {
        match (topic, event) {
            (Topic::Heads, Event::Chain { new, .. }) => {
                new.iter().map(|block| json(&rpc_header(block))).collect()
            }
            (Topic::Logs(filter), Event::Chain { old, new }) => {
                let mut found = Vec::new();
                old.iter().for_each(|old| self.add_removed(filter, old.hash, &mut found));
                new.iter().for_each(|new| self.add_logs(filter, new, &mut found));
                found.iter().map(json).collect()
            }
            (Topic::Hashes, Event::Pending(hash)) => Ok(vec![json(&hash)?]),
            (Topic::Transactions, Event::Pending(hash)) => {
                let tx = self.chain.with_pool(|pool| pool.get(&hash));
                tx.map(|tx| json(&pending_transaction(&tx))).into_iter().collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

//! Subscriptions of one socket, with Geth's envelope (`rpc/json.go`, `rpc/subscription.go`).

use crate::{
    coding::Part,
    stats::{Counters, count},
};
use futures_util::Stream;
use prestate_rpc::Subscribed;
use prestate_rpc_api::{RpcError, code};
use prestate_wire::Rope;
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio::sync::{mpsc, oneshot};

/// The open subscriptions of a socket: each with what ends it when dropped.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    open: Mutex<HashMap<String, oneshot::Sender<()>>>,
    most: usize,
    counters: Arc<Counters>,
}

/// Subscriptions that a message opened. They notify once the message is answered, so that a client
/// knows the id before it meets it (go-ethereum `rpc/subscription.go`, `activate`).
#[derive(Debug)]
pub(crate) struct Opening {
    of: Arc<Subscriptions>,
    opened: Mutex<Vec<Feed>>,
}

/// A subscription's notifications. It ends with the service's messages or when unsubscribed.
#[derive(Debug)]
pub(crate) struct Feed {
    id: String,
    /// What stands before each result.
    head: String,
    messages: mpsc::Receiver<Rope>,
    unsubscribed: oneshot::Receiver<()>,
    of: Arc<Subscriptions>,
}

impl Subscriptions {
    pub(crate) fn new(most: usize, counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most, counters })
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may be opened.
    fn room(&self) -> Result<(), RpcError> {
        let open = self.open().len();
        if open < self.most {
            return Ok(());
        }
        Err(RpcError::limit(
            "too many subscriptions on this connection",
            "max-subscriptions-per-connection",
            self.most as u64,
            open as u64 + 1,
        ))
    }
}

impl Opening {
    pub(crate) fn new(of: &Arc<Subscriptions>) -> Self {
        Self { of: of.clone(), opened: Mutex::default() }
    }

    /// Refuses what would be one too many.
    pub(crate) fn check(&self) -> Result<(), RpcError> {
        self.of.room()
    }

    /// Adds a subscription; the id.
    pub(crate) fn add(&self, namespace: &str, subscribed: Subscribed) -> Result<String, RpcError> {
        self.of.room()?;
        let id = format!("0x{:032x}", rand::random::<u128>());
        let (stop, unsubscribed) = oneshot::channel();
        self.of.open().insert(id.clone(), stop);
        count(&self.of.counters.subscriptions);
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{namespace}_subscription\",\
             \"params\":{{\"subscription\":\"{id}\",\"result\":"
        );
        let messages = subscribed.messages;
        let feed = Feed { id: id.clone(), head, messages, unsubscribed, of: self.of.clone() };
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(feed);
        Ok(id)
    }

    /// Ends a subscription: `namespace_unsubscribe(id)`, with Geth's words.
    pub(crate) fn end(&self, params: Option<&RawValue>) -> Result<bool, RpcError> {
        let bad = |text: String| RpcError::invalid_params(text);
        let ids: Vec<String> = match params {
            Some(params) => serde_json::from_str(params.get())
                .map_err(|error| bad(format!("invalid argument 0: {error}")))?,
            None => Vec::new(),
        };
        let [id] = &ids[..] else {
            return Err(bad(match ids.len() {
                0 => "missing value for required argument 0".to_owned(),
                _ => "too many arguments, want at most 1".to_owned(),
            }));
        };
        let ended = self.of.open().remove(id).is_some();
        if ended { Ok(true) } else { Err(RpcError::new(code::SERVER, "subscription not found")) }
    }

    /// What was opened, to be listened to after the answer.
    pub(crate) fn finish(self) -> Vec<Feed> {
        self.opened.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream for Feed {
    type Item = Vec<Part>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<Part>>> {
        let this = &mut *self;
        if Pin::new(&mut this.unsubscribed).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        this.messages.poll_recv(cx).map(|message| {
            let rope = message?;
            count(&this.of.counters.notifications);
            Some(vec![Part::text(this.head.clone()), Part::Rope(rope), Part::text("}}")])
        })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.of.open().remove(&self.id);
    }
}

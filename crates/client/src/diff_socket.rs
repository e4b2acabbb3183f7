//! One WebSocket with one subscription on it.
//!
//! Not by alloy's or jsonrpsee's clients: both put a buffer between socket and reader that drops
//! what does not fit, and alloy's subscribes again by itself with the old `from`. Here a reader that
//! is slow leaves the messages in the socket, and the server sees it.

use crate::{Refusal, header::Header};
use alloy_json_rpc::{ErrorPayload, RpcSend};
use futures_util::{SinkExt, StreamExt};
use prestate_rpc_api::{DiffMessage, DiffStreamKind, SubscribeOptions};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{json, value::RawValue};
use std::time::Duration;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Bytes, Message, protocol::WebSocketConfig},
};
use url::Url;

/// Longest wait for a connection and for the answer to a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which a ping is sent; after as long again the connection is given up.
const PING_AFTER: Duration = Duration::from_secs(20);
/// Largest message: the diff of a heavy block with its code.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// Why the socket is of no use any more.
#[derive(Debug)]
pub(crate) enum SocketError {
    /// The server answered with an error.
    Refused(Refusal),
    /// The connection, or what came over it, is broken.
    Broken(String),
}

#[derive(Debug)]
pub(crate) struct DiffSocket {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    requests: u64,
    /// As the server named it, JSON.
    subscription: Option<String>,
    pinged: bool,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ErrorPayload>,
    #[serde(borrow)]
    params: Option<Notification<'a>>,
}

#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow)]
    subscription: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

fn broken(what: impl ToString) -> SocketError {
    SocketError::Broken(what.to_string())
}

impl DiffSocket {
    pub(crate) async fn connect(url: &Url) -> Result<Self, SocketError> {
        crate::provider::prepare_tls();
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(MAX_MESSAGE_BYTES);
        config.max_frame_size = Some(MAX_MESSAGE_BYTES);
        let connected = connect_async_with_config(url.as_str(), Some(config), true);
        let connected = timeout(ANSWER_TIMEOUT, connected).await;
        let (socket, _) =
            connected.map_err(|_| broken("no connection in time"))?.map_err(broken)?;
        Ok(Self { socket, requests: 0, subscription: None, pinged: false })
    }

    /// A block by number or tag.
    pub(crate) async fn block(&mut self, param: &str) -> Result<Option<Header>, SocketError> {
        self.request("eth_getBlockByNumber", (param.to_owned(), false)).await
    }

    pub(crate) async fn subscribe(
        &mut self,
        kind: DiffStreamKind,
        options: &SubscribeOptions,
    ) -> Result<(), SocketError> {
        let id: Box<RawValue> = self.request("prestate_subscribe", (kind, options.clone())).await?;
        self.subscription = Some(id.get().to_owned());
        Ok(())
    }

    /// The subscription's next message. Cancelling it loses nothing.
    pub(crate) async fn message(&mut self) -> Result<DiffMessage, SocketError> {
        loop {
            let text = self.text().await?;
            let incoming: Incoming<'_> = serde_json::from_str(&text).map_err(broken)?;
            let Some(params) = incoming.params else { continue };
            if Some(params.subscription.get()) == self.subscription.as_deref() {
                return serde_json::from_str(params.result.get()).map_err(broken);
            }
        }
    }

    async fn request<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl RpcSend,
    ) -> Result<R, SocketError> {
        self.requests += 1;
        let id = self.requests;
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.socket.send(Message::text(call.to_string())).await.map_err(broken)?;
        let answered = async {
            loop {
                let text = self.text().await?;
                let incoming: Incoming<'_> = serde_json::from_str(&text).map_err(broken)?;
                match incoming {
                    Incoming { error: Some(error), .. } => {
                        return Err(SocketError::Refused(Refusal::of_payload(&error)));
                    }
                    Incoming { id: Some(answered), result, .. } if answered == id => {
                        let result = result.map_or("null", RawValue::get);
                        return serde_json::from_str(result).map_err(broken);
                    }
                    _ => {}
                }
            }
        };
        timeout(ANSWER_TIMEOUT, answered).await.map_err(|_| broken("no answer in time"))?
    }

    /// The next text frame. A silent peer is pinged, then given up.
    async fn text(&mut self) -> Result<String, SocketError> {
        loop {
            let frame = match timeout(PING_AFTER, self.socket.next()).await {
                Ok(Some(frame)) => frame.map_err(broken)?,
                Ok(None) => return Err(broken("the connection was closed")),
                Err(_) if self.pinged => return Err(broken("the connection is silent")),
                Err(_) => {
                    self.pinged = true;
                    self.socket.send(Message::Ping(Bytes::new())).await.map_err(broken)?;
                    continue;
                }
            };
            self.pinged = false;
            match frame {
                Message::Text(text) => return Ok(text.as_str().to_owned()),
                Message::Close(frame) => {
                    let reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                    return Err(broken(format!("the connection was closed {reason}").trim_end()));
                }
                _ => {}
            }
        }
    }
}

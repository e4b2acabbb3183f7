//! One HTTP request a connection, and JSON-RPC over it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A response, its body as it came.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Posts JSON.
pub(crate) async fn post(
    to: SocketAddr,
    body: String,
    headers: &[(header::HeaderName, String)],
) -> std::io::Result<Response> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    let mut request = Request::post("/")
        .header(header::HOST, to.to_string())
        .header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = sender.send_request(request).await.map_err(std::io::Error::other)?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    Ok(Response { status, body })
}

/// The body of a call.
pub(crate) fn request(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Calls; `Err` is the error object, or why there was no answer.
pub(crate) async fn call(to: SocketAddr, method: &str, params: Value) -> Result<Value, Value> {
    call_with(to, method, params, &[]).await
}

/// Calls with more headers.
pub(crate) async fn call_with(
    to: SocketAddr,
    method: &str,
    params: Value,
    headers: &[(header::HeaderName, String)],
) -> Result<Value, Value> {
    let response = post(to, request(method, params), headers).await;
    let response = response.map_err(|error| Value::from(error.to_string()))?;
    if response.status != StatusCode::OK {
        return Err(json!({ "status": response.status.as_u16() }));
    }
    let mut answer: Value = serde_json::from_slice(&response.body)
        .map_err(|error| Value::from(format!("{error}: {:?}", response.body)))?;
    match answer.get_mut("error") {
        Some(error) => Err(error.take()),
        None => Ok(answer["result"].take()),
    }
}

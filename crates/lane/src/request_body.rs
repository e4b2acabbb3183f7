use crate::admission::Reservation;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use prestate_rpc_api::RpcError;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time a client gets to finish sending a body that is refused. One that is cut off while it
/// sends sees a reset instead of the answer.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Why a body was not taken.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// Over the limit, by its `Content-Length` or as it came (chunked bodies escaped Geth's limit
    /// once, go-ethereum#16343).
    TooLarge { given: u64 },
    /// Did not arrive in time.
    TimedOut,
    /// Too many bytes are held for other requests.
    Overload(RpcError),
    /// The connection broke or the framing is wrong.
    Broken,
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn collect<B>(
    mut body: B,
    limit: u64,
    time: Duration,
    reserved: &mut Reservation,
) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let deadline = Instant::now() + time;
    let told = body.size_hint().exact();
    if let Some(given) = told.filter(|&given| given > limit) {
        drain(&mut body, limit).await;
        return Err(BodyFault::TooLarge { given });
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut len = 0;
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(BodyFault::TimedOut),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(BodyFault::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers carry nothing for us.
        let Ok(data) = frame.into_data() else { continue };
        len += data.len() as u64;
        if len > limit {
            drain(&mut body, limit).await;
            return Err(BodyFault::TooLarge { given: len });
        }
        reserved.grow(data.len() as u64).map_err(BodyFault::Overload)?;
        // Most bodies are one frame and need no copy.
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if !first.is_empty() {
            whole.reserve(told.unwrap_or(0) as usize);
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if first.is_empty() { whole.freeze() } else { first })
}

/// Reads on without keeping anything.
async fn drain<B: Body<Data = Bytes> + Unpin>(body: &mut B, limit: u64) {
    let deadline = Instant::now() + DRAIN_TIME;
    let mut left = limit;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let len = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = left.checked_sub(len) else { return };
        left = rest;
    }
}

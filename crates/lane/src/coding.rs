//! Parts of a reply to a coded body.

use crate::permessage;
use bytes::Bytes;
use prestate_wire::{Body, BodyBuf, Encoding, Rope, Splice};
use std::io;

/// Results without a compressed form are compressed off the runtime's threads from this size on:
/// milliseconds a megabyte. Those sent before bring it along.
const OFFLOAD_BYTES: u64 = 64 * 1024;

/// A part of a reply: text of this reply alone, or a result's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(Bytes),
    Rope(Rope),
}

impl Part {
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Rope(rope) => rope.len(),
        }
    }
}

/// Codes a whole body.
pub(crate) async fn encode(parts: Vec<Part>, encoding: Encoding) -> Body {
    let splice = spliced(&parts);
    if !is_work(&parts, encoding) {
        return splice.into_body(encoding);
    }
    match tokio::task::spawn_blocking(move || splice.into_body(encoding)).await {
        Ok(body) => body,
        // It panicked, or the runtime ends: the bytes are still good as they are.
        Err(error) => {
            tracing::error!(%error, "compression failed");
            spliced(&parts).into_body(Encoding::Identity)
        }
    }
}

/// Codes a whole WebSocket message, see [`permessage::deflate`].
pub(crate) async fn deflate(parts: Vec<Part>) -> io::Result<Vec<BodyBuf>> {
    if !is_work(&parts, Encoding::Gzip) {
        return permessage::deflate(&parts);
    }
    tokio::task::spawn_blocking(move || permessage::deflate(&parts))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Whether compressing it takes long enough to be done elsewhere.
fn is_work(parts: &[Part], encoding: Encoding) -> bool {
    let unprepared = parts.iter().filter_map(|part| match part {
        Part::Rope(rope) if !rope.is_prepared(encoding) => Some(rope.len()),
        _ => None,
    });
    unprepared.sum::<u64>() >= OFFLOAD_BYTES
}

fn spliced(parts: &[Part]) -> Splice {
    let mut splice = Splice::new();
    for part in parts {
        match part {
            Part::Text(text) => splice.text(text),
            Part::Rope(rope) => splice.rope(rope),
        }
    }
    splice
}

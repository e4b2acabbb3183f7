//! `prestate_subscribe`: the published chain, step by step.

use crate::{
    args::{Args, invalid},
    rpc::Shared,
    service::Subscribed,
    view::View,
    whole::Whole,
};
use prestate_pipeline::{CutReason as Cut, PublishedBlock, SubscribeError, Update};
use prestate_rpc_api::{
    CutNotice, CutReason, DiffMessage, DiffOptions, DiffStreamKind, RpcError, SubscribeOptions,
};
use prestate_store::ReplyKey;
use prestate_wire::{Rope, RopeBuilder, write_block_summary};
use serde_json::{Map, Value, json, value::RawValue};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Messages made ahead of the transport.
const MESSAGE_BUFFER: usize = 1;

/// Which way a block went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Commit,
    Revert,
}

impl Shared {
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Subscribed, RpcError> {
        let args = Args::cut(params)?;
        let kind: DiffStreamKind = serde_json::from_str(args.required(0)?.get())
            .map_err(|_| invalid(0, "expected \"blockDiffs\" or \"transactionDiffs\""))?;
        let options: SubscribeOptions = args.parsed(1)?.unwrap_or_default();
        args.end(2)?;
        let SubscribeOptions { from, addresses, slots, code, storage } = options;
        let view = View::of(DiffOptions { addresses, slots, code, storage, ..Default::default() })?;
        let Some(pipeline) = self.known.pipeline.clone() else {
            return Err(RpcError::server(
                "this server follows no chain: there is nothing to wait for",
            ));
        };
        if let Some(from) = from {
            // Tells the future, the pruned and the unknown apart.
            self.read(move |shared| shared.position(from)).await?;
        }
        let from_hash = from.map(|from| from.hash());
        let mut subscription = pipeline.subscribe(from_hash).map_err(|fault| match fault {
            SubscribeError::UnknownBlock(hash) => {
                self.not_held(from.and_then(|from| from.number()), Some(hash))
            }
            SubscribeError::NoHead => RpcError::server("no block was seen yet, try again later"),
            other => crate::faults::logged(&other),
        })?;
        let (sender, messages) = mpsc::channel(MESSAGE_BUFFER);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let update = tokio::select! {
                    update = subscription.next() => update,
                    () = sender.closed() => return,
                };
                let message = match update {
                    None => return,
                    Some(Update::Commit(block)) => {
                        shared.message(Step::Commit, block, kind, &view).await
                    }
                    Some(Update::Revert(block)) => {
                        shared.message(Step::Revert, block, kind, &view).await
                    }
                    Some(Update::Cut(reason)) => Err(notice(&reason)),
                };
                let (message, last) = match message {
                    Ok(message) => (message, false),
                    Err(notice) => (cut(notice), true),
                };
                if sender.send(message).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Subscribed { messages })
    }

    /// The message of one step, made once for all who listen in the same way.
    async fn message(
        self: &Arc<Self>,
        step: Step,
        block: Arc<PublishedBlock>,
        kind: DiffStreamKind,
        view: &View,
    ) -> Result<Rope, CutNotice> {
        let at = block.summary().block;
        let unavailable = |why: String| CutNotice {
            reason: CutReason::Unavailable,
            message: format!("the diffs of block {at} are not available: {why}"),
            details: details(json!({ "number": format!("0x{:x}", at.number), "hash": at.hash })),
        };
        let facts = match kind {
            DiffStreamKind::BlockDiffs => None,
            DiffStreamKind::TransactionDiffs => {
                Some(block.facts().await.map_err(|fault| unavailable(fault.to_string()))?)
            }
        };
        let key = ReplyKey {
            block_hash: at.hash,
            view: match step {
                Step::Commit => "commit",
                Step::Revert => "revert",
            },
            options: format!("{kind:?} {}", view.key()).into(),
        };
        let view = view.clone();
        let make = move |shared: &Arc<Self>| {
            let whole = Whole::Known { block, facts };
            let mut out = RopeBuilder::new();
            out.push(match step {
                Step::Commit => "{\"type\":\"commit\",\"block\":",
                Step::Revert => "{\"type\":\"revert\",\"block\":",
            });
            match kind {
                DiffStreamKind::BlockDiffs => shared.write_block(&mut out, &whole, &view)?,
                DiffStreamKind::TransactionDiffs => {
                    write_block_summary(&mut out, whole.summary());
                    out.push(",");
                    shared.write_transactions(&mut out, &whole, &view)?;
                }
            }
            out.push("}");
            Ok(out.finish())
        };
        let made = self.cache.get_or_compute(&key, || self.read(make)).await;
        made.map(|(rope, _)| rope).map_err(|fault| unavailable(fault.message))
    }
}

/// Why the pipeline ended a subscription, as its last message says it.
fn notice(reason: &Cut) -> CutNotice {
    let (kind, more) = match reason {
        Cut::TooSlow { behind_blocks, max_blocks } => {
            (CutReason::TooSlow, json!({ "behindBlocks": behind_blocks, "maxBlocks": max_blocks }))
        }
        Cut::Unavailable { number } => {
            (CutReason::Unavailable, json!({ "number": format!("0x{number:x}") }))
        }
        Cut::Archive => (CutReason::Archive, Value::Null),
        Cut::Stopped => (CutReason::Stopped, Value::Null),
        _ => (CutReason::Other, Value::Null),
    };
    CutNotice { reason: kind, message: reason.to_string(), details: details(more) }
}

fn details(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn cut(notice: CutNotice) -> Rope {
    let text = serde_json::to_string(&DiffMessage::Cut(notice));
    text.unwrap_or_else(|_| "{\"type\":\"cut\",\"reason\":\"other\"}".to_owned()).into()
}

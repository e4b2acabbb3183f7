//! `prestate_status` and `debug_getCacheStatus`.

use crate::{
    args::Args,
    faults,
    rpc::{METHODS, Shared},
    service::Answer,
};
use prestate_pipeline::{BackfillProgress, PipelineHandle};
use prestate_rpc_api::{BlockHandle, MAX_READ_SLOTS, MAX_WATCHED_SLOTS, RpcError};
use prestate_store::{ArchiveReader, SpaceState};
use prestate_types::{BlockRef, MAX_FILTER_ADDRESSES, MAX_FILTER_SLOTS};
use serde_json::{Value, json, value::RawValue};

/// Failed blocks listed; all are counted.
const LISTED_FAILURES: usize = 16;

impl Shared {
    pub(crate) fn status(&self, params: Option<&RawValue>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        let host = &self.host;
        let info = host.info();
        let (codes, code_bytes) = self.codes.usage();
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "host": { "kind": info.kind, "version": info.version },
            "chainId": format!("0x{:x}", host.spec().chain_id()),
            "head": at(Some(host.head().map_err(faults::host)?)),
            "safe": at(host.safe().map_err(faults::host)?),
            "finalized": at(host.finalized().map_err(faults::host)?),
            "earliest": at(Some(host.earliest().map_err(faults::host)?)),
            "gethExact": self.config.geth_exact,
            "pipeline": self.known.pipeline.as_ref().map(pipeline),
            "archive": self.known.archive.as_ref().map(archive).transpose()?,
            "codes": { "count": codes, "bytes": code_bytes },
            "cache": self.cache_json(),
            "executions": { "waiting": self.executions.waiting() },
            "reads": { "waiting": self.reads.waiting() },
            "limits": {
                "executions": self.config.max_executions,
                "reads": self.config.max_reads,
                "queue": self.config.max_queue,
                "structLogBytes": self.config.max_struct_log_bytes,
                "filterAddresses": MAX_FILTER_ADDRESSES,
                "filterSlots": MAX_FILTER_SLOTS,
                "readSlots": MAX_READ_SLOTS,
                "watchedSlots": MAX_WATCHED_SLOTS,
                "rangeBlocks": self.config.max_range_blocks,
            },
            "methods": METHODS,
        });
        Ok(Answer::uncached(status.to_string()))
    }

    pub(crate) fn cache_status(&self, params: Option<&RawValue>) -> Result<Answer, RpcError> {
        Args::cut(params)?.end(0)?;
        Ok(Answer::uncached(json!({ "responseCache": self.cache_json() }).to_string()))
    }

    fn cache_json(&self) -> Value {
        let stats = self.cache.stats();
        let asked = stats.hits + stats.misses + stats.coalesced;
        let hit_rate =
            if asked == 0 { 0.0 } else { (stats.hits + stats.coalesced) as f64 / asked as f64 };
        json!({
            "entryCount": stats.entries,
            "totalBytes": stats.bytes(),
            "ownedBytes": stats.owned_bytes,
            "codes": stats.codes,
            "codeBytes": stats.code_bytes,
            "capacityBytes": stats.capacity_bytes,
            "hits": stats.hits,
            "misses": stats.misses,
            "coalesced": stats.coalesced,
            "failures": stats.failures,
            "evictions": stats.evictions,
            "oversized": stats.oversized,
            "hitRate": hit_rate,
        })
    }
}

fn at(block: Option<BlockRef>) -> Option<BlockHandle> {
    block.map(BlockHandle::from)
}

fn pipeline(pipeline: &PipelineHandle) -> Value {
    let status = pipeline.status();
    let failed = status.failed.iter().take(LISTED_FAILURES).map(|failed| {
        json!({
            "block": at(Some(failed.block)),
            "reason": failed.reason,
            "attempts": failed.attempts,
            "givenUp": failed.given_up,
        })
    });
    json!({
        "head": at(status.head),
        "durable": at(status.durable),
        "acknowledged": at(status.acknowledged),
        "lagBlocks": status.lag_blocks,
        "inFlightBlocks": status.in_flight_blocks,
        "queuedNotifications": status.queued_notifications,
        "unwrittenBlocks": status.unwritten_blocks,
        "failedBlocks": status.failed.len(),
        "failed": failed.collect::<Vec<_>>(),
        "subscribers": status.subscribers,
        "diskSpace": status.space.map(space),
        "backfill": status.backfill.as_ref().map(backfill),
    })
}

fn space(space: SpaceState) -> Value {
    match space {
        SpaceState::Enough { available_bytes } => {
            json!({ "state": "enough", "availableBytes": available_bytes })
        }
        SpaceState::Low { available_bytes, reserve_bytes } => json!({
            "state": "low",
            "availableBytes": available_bytes,
            "reserveBytes": reserve_bytes,
            "message": "nothing is written until more is free; serving goes on",
        }),
        _ => json!({ "state": "unknown" }),
    }
}

fn backfill(progress: &BackfillProgress) -> Value {
    json!({
        "from": progress.from,
        "to": progress.to,
        "done": progress.done,
        "written": progress.written,
        "failed": progress.failed,
        "finished": progress.finished,
    })
}

fn archive(archive: &ArchiveReader) -> Result<Value, RpcError> {
    let stats = archive.stats().map_err(|fault| faults::logged(&fault))?;
    let (lowest, highest) = stats.range.unzip();
    Ok(json!({
        "formatVersion": stats.format_version,
        "lowest": at(lowest),
        "highest": at(highest),
        "blocks": stats.blocks,
        "canonicalBlocks": stats.canonical_blocks,
        "transactions": stats.transactions,
        "factsBytes": stats.facts_bytes,
        "codes": stats.codes,
        "codeBytes": stats.code_bytes,
        "diskBytes": stats.disk_bytes,
    }))
}

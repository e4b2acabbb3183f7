use crate::{BackfillProgress, FailedBlock};
use prestate_store::SpaceState;
use prestate_types::BlockRef;

/// A pipeline at one moment.
#[derive(Debug, Clone)]
pub struct PipelineStatus {
    /// The host's head, when last looked at.
    pub host_head: Option<BlockRef>,
    /// The newest block published.
    pub head: Option<BlockRef>,
    /// Everything up to this block is durable, or given up, or was jumped over after an absence too
    /// long to heal. Without an archive: published.
    pub durable: Option<BlockRef>,
    /// What was acknowledged to the host: durable, and finalized where the host knows of finality.
    pub acknowledged: Option<BlockRef>,
    /// Blocks between the host's head and the newest published.
    pub lag_blocks: u64,
    /// Blocks published or under way and not dealt with by the writer.
    pub in_flight_blocks: usize,
    /// Notifications waiting.
    pub queued_notifications: usize,
    /// Canonical blocks that the archive could not take yet.
    pub unwritten_blocks: u64,
    /// Blocks without transactions' diffs, lowest first.
    pub failed: Vec<FailedBlock>,
    /// The space guard's last look; `None` without an archive.
    pub space: Option<SpaceState>,
    /// Open subscriptions.
    pub subscribers: u64,
    /// The back-fill that runs, or ran last.
    pub backfill: Option<BackfillProgress>,
}

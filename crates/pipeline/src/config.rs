use prestate_store::Retention;
use prestate_types::BlockRef;
use std::time::Duration;

/// Sizes and times of a pipeline.
#[derive(Debug, Clone)]
pub struct PipelineConfig {
    /// Threads that execute blocks again, at least one.
    pub workers: usize,
    /// Blocks published and not yet durable; at this many the loop waits.
    pub max_in_flight_blocks: usize,
    /// Notifications waiting to be followed; beyond it they are dropped and the chain is healed
    /// from the host.
    pub max_queued_notifications: usize,
    /// Blocks that came with what they changed and wait to be followed. Of a longer run, which a node
    /// commits that syncs in stages, only what each block changed as a whole is kept at once; the
    /// diffs of its transactions are left to a back-fill.
    pub max_told_blocks: usize,
    /// Blocks walked back to find the common ancestor with the host's chain. Farther away the
    /// pipeline starts anew at the host's head and leaves a gap, for a back-fill.
    pub max_heal_blocks: usize,
    /// Durable blocks kept in memory for subscribers, beside all that are not durable yet.
    pub recent_blocks: usize,
    /// How far a subscriber that was up to date may fall behind before it is cut off.
    pub max_subscriber_lag_blocks: u64,
    /// Where a chain without an archive, or with an empty one, begins: above this block. `None`:
    /// at the host's head, whatever came before the pipeline was started.
    pub begin_above: Option<BlockRef>,
    /// How often the host's head is compared with the own one, whether or not it says anything.
    pub watchdog: Duration,
    /// When a failed block is tried again.
    pub retry: Backoff,
    /// How long blocks are kept.
    pub retention: Retention,
    /// Pause of a back-fill after each block; it also waits while live blocks do.
    pub backfill_pause: Duration,
}

/// Times between attempts, doubling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt.
    pub first: Duration,
    /// Never longer than this.
    pub longest: Duration,
    /// Attempts until a block is given up. It stays listed as failed.
    pub attempts: u32,
}

impl Backoff {
    /// The pause after this many failed attempts.
    pub(crate) fn pause(&self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
}

/// A quarter of the cores, so that the node's block import keeps the others.
fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 4).max(1))
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            workers: default_workers(),
            // 13 minutes of mainnet; some 100 MB of diffs and codes at worst.
            max_in_flight_blocks: 64,
            max_queued_notifications: 1024,
            // More than the 100 that reth sends at once when it makes good what was missed.
            max_told_blocks: 128,
            // 33 hours of mainnet: references only while walking, 40 bytes each.
            max_heal_blocks: 10_000,
            // An epoch: what readers at the head and short reorgs ask for.
            recent_blocks: 32,
            max_subscriber_lag_blocks: 1024,
            begin_above: None,
            // Shorter than a slot, so that a node that fell silent costs one block of delay.
            watchdog: Duration::from_secs(5),
            retry: Backoff {
                first: Duration::from_secs(1),
                longest: Duration::from_secs(300),
                attempts: 12,
            },
            retention: Retention::Forever,
            backfill_pause: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(10),
            attempts: 100,
        };
        let pauses: Vec<_> = [1, 2, 3, 4, 5, 90].map(|n| backoff.pause(n).as_secs()).into();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    }
}

//! The series this crate records. The table is the only place that names them.

use metrics::{describe_counter, describe_gauge, describe_histogram};
use prestate_types::{Metric, MetricKind, series};
use std::time::Duration;

series! {
    "All series of the pipeline."
    HEAD Gauge "prestate_head_block" "" "Newest block published.";
    HOST_HEAD Gauge "prestate_host_head_block" "" "Newest block of the host, when last looked.";
    DURABLE Gauge "prestate_durable_block" "" "Newest block up to which all is durable.";
    ACKED Gauge "prestate_acknowledged_block" "" "Newest block acknowledged to the host.";
    LAG Gauge "prestate_lag_blocks" "" "Blocks between the host's head and the newest published.";
    IN_FLIGHT Gauge "prestate_in_flight_blocks" "" "Blocks published or under way, not durable yet.";
    QUEUE Gauge "prestate_queued_notifications" "" "Notifications waiting to be followed.";
    NOTIFICATIONS Counter "prestate_notifications_total" "kind: committed, reorged, reverted" "Notifications received.";
    OVERFLOWS Counter "prestate_notification_overflows_total" "" "Times the queue of notifications was full and the chain was healed from the host instead.";
    BLOCKS Counter "prestate_published_blocks_total" "" "Blocks published.";
    STAGE Histogram "prestate_stage_seconds" "stage: block_diff, execute, encode, persist" "Time a stage took: the block diff from the bundle, executing a block again, making its record, one durable batch.";
    SERVABLE Histogram "prestate_servable_seconds" "" "From taking up a block to its transactions' diffs.";
    BATCH Histogram "prestate_persist_batch_blocks" "" "Blocks in one durable batch.";
    VIOLATIONS Counter "prestate_invariant_violations_total" "" "Blocks whose transactions' diffs did not add up to the block diff.";
    FAILURES Counter "prestate_block_failures_total" "" "Attempts at a block that failed.";
    FAILED Gauge "prestate_failed_blocks" "" "Blocks without transactions' diffs at present.";
    REORGS Counter "prestate_reorgs_total" "" "Times blocks were taken back.";
    REORG_DEPTH Histogram "prestate_reorg_depth_blocks" "" "Blocks taken back at once.";
    HEALS Counter "prestate_heals_total" "kind: gap, jump" "Gaps closed by asking the host: walked, or too far and jumped over.";
    HEALED Counter "prestate_healed_blocks_total" "" "Blocks that no notification told of.";
    HOLES Gauge "prestate_unwritten_blocks" "" "Canonical blocks that could not be written yet.";
    WRITE_ERRORS Counter "prestate_archive_write_errors_total" "" "Batches the archive did not take.";
    PRUNED Counter "prestate_pruned_blocks_total" "" "Blocks removed from the archive.";
    SUBSCRIBERS Gauge "prestate_subscribers" "" "Open subscriptions.";
    CUTS Counter "prestate_subscribers_cut_total" "reason: too_slow, unavailable, stopped" "Subscriptions ended from here.";
    BACKFILLED Counter "prestate_backfilled_blocks_total" "" "Blocks a back-fill wrote.";
    PANICS Counter "prestate_panics_total" "" "Panics caught.";
}

/// Tells the recorder what series mean: those of [`METRICS`] and of other crates' tables. A pipeline
/// does so for its own when it starts; repeating it is free.
pub fn describe_metrics(table: &[Metric]) {
    for metric in table {
        match metric.kind {
            MetricKind::Counter => describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
}

/// Records how long a stage took.
pub(crate) fn stage(stage: &'static str, took: Duration) {
    metrics::histogram!(STAGE, "stage" => stage).record(took.as_secs_f64());
}

/// Records how long a block took until it could be served.
pub(crate) fn servable(took: Duration) {
    metrics::histogram!(SERVABLE).record(took.as_secs_f64());
}

/// Sets a gauge to a height or a count.
pub(crate) fn set(name: &'static str, value: u64) {
    // Exact up to 2^53.
    metrics::gauge!(name).set(value as f64);
}

/// Adds to a counter without labels.
pub(crate) fn count(name: &'static str, more: u64) {
    metrics::counter!(name).increment(more);
}

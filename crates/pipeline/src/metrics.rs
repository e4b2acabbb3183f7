//! The series this crate records. The table is the only place that names them.

use metrics::{describe_counter, describe_gauge, describe_histogram};
use std::time::Duration;

/// What a series counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution of values.
    Histogram,
}

/// One series.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit where it has one.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its label with all values it takes; empty without one.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
}

macro_rules! series {
    ($($constant:ident $kind:ident $name:literal $labels:literal $help:literal;)*) => {
        $(pub(crate) const $constant: &str = $name;)*

        /// All series of the pipeline. `etc/docs/metrics.md` is made from it.
        pub const METRICS: &[Metric] = &[$(
            Metric { name: $name, kind: MetricKind::$kind, labels: $labels, help: $help },
        )*];
    };
}

series! {
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
    ARCHIVE_BYTES Gauge "prestate_archive_bytes" "" "Records in the archive: facts and codes.";
    SPACE_LOW Gauge "prestate_archive_space_low" "" "1 while the disk is too full to write.";
    HOLES Gauge "prestate_unwritten_blocks" "" "Canonical blocks that could not be written yet.";
    WRITE_ERRORS Counter "prestate_archive_write_errors_total" "" "Batches the archive did not take.";
    PRUNED Counter "prestate_pruned_blocks_total" "" "Blocks removed from the archive.";
    SUBSCRIBERS Gauge "prestate_subscribers" "" "Open subscriptions.";
    CUTS Counter "prestate_subscribers_cut_total" "reason: too_slow, unavailable, stopped" "Subscriptions ended from here.";
    BACKFILLED Counter "prestate_backfilled_blocks_total" "" "Blocks a back-fill wrote.";
    PANICS Counter "prestate_panics_total" "" "Panics caught.";
}

/// Tells the recorder what the series mean. Called once a pipeline starts; repeating it is free.
pub(crate) fn describe() {
    for metric in METRICS {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fmt::Write, path::Path};

    const START: &str = "<!-- pipeline: begin, made from crates/pipeline/src/metrics.rs -->\n";
    const END: &str = "<!-- pipeline: end -->\n";

    fn table() -> String {
        let mut table = String::from("| series | kind | label | meaning |\n|---|---|---|---|\n");
        for Metric { name, kind, labels, help } in METRICS {
            let kind = format!("{kind:?}").to_lowercase();
            writeln!(table, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
        table
    }

    /// With `PRESTATE_WRITE_DOCS` set, writes the table instead of comparing it.
    #[test]
    fn the_documented_table_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/docs/metrics.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = page.split_once(START).unwrap();
        let (documented, tail) = rest.split_once(END).unwrap();
        if std::env::var_os("PRESTATE_WRITE_DOCS").is_some() {
            std::fs::write(&path, [head, START, &table(), END, tail].concat()).unwrap();
        } else {
            assert_eq!(documented, table(), "run with PRESTATE_WRITE_DOCS=1 to write it anew");
        }
    }

    #[test]
    fn names_are_unique_and_tell_their_unit() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for Metric { name, kind, .. } in METRICS {
            assert!(name.starts_with("prestate_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            if *kind == MetricKind::Histogram {
                assert!(name.ends_with("_seconds") || name.ends_with("_blocks"), "{name}");
            }
        }
    }
}

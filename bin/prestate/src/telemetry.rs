//! The recorder of metrics, whose text the lane serves at `/metrics`.

use crate::errors::CommandError;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use prestate_lane::MetricsText;
use prestate_pipeline::describe_metrics;
use std::{sync::OnceLock, thread, time::Duration};

/// Times from a hit to a block whose codes are all new.
const SECONDS: [f64; 12] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];
/// Depths of reorgs, and blocks in a batch.
const BLOCKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];
/// Samples wait in memory until they are drained; without a scraper nobody else does.
const UPKEEP_PAUSE: Duration = Duration::from_secs(5);

fn build() -> Result<PrometheusHandle, BuildError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_blocks".to_owned()), &BLOCKS)?
        .build_recorder();
    let handle = recorder.handle();
    // Fails where there is one already; this program installs no other.
    let _ = metrics::set_global_recorder(recorder);
    for table in [prestate_pipeline::METRICS, prestate_store::METRICS, prestate_lane::METRICS] {
        describe_metrics(table);
    }
    Ok(handle)
}

/// Starts recording, once; series are looked up when caches and fronts are made, so call it before
/// them. Returns what `/metrics` answers.
pub(crate) fn install() -> Result<MetricsText, CommandError> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = match HANDLE.get() {
        Some(handle) => handle.clone(),
        None => {
            let handle = build().map_err(CommandError::Metrics)?;
            let upkeep = handle.clone();
            thread::Builder::new()
                .name("metrics".to_owned())
                .spawn(move || {
                    loop {
                        thread::sleep(UPKEEP_PAUSE);
                        upkeep.run_upkeep();
                    }
                })
                .map_err(CommandError::Runtime)?;
            HANDLE.get_or_init(|| handle).clone()
        }
    };
    Ok(MetricsText::new(move || handle.render()))
}

//! The series this crate records. The table is the only place that names them.

use metrics::{Counter, counter, gauge};
use prestate_types::series;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

series! {
    "All series of the cache and the archive."
    CACHE_HITS Counter "prestate_cache_hits_total" "" "Look-ups that found a reply.";
    CACHE_MISSES Counter "prestate_cache_misses_total" "" "Look-ups that did not.";
    CACHE_COALESCED Counter "prestate_cache_coalesced_total" "" "Look-ups answered by a computation that was under way.";
    CACHE_FAILURES Counter "prestate_cache_failures_total" "" "Computations that failed.";
    CACHE_EVICTIONS Counter "prestate_cache_evictions_total" "" "Replies dropped for others.";
    CACHE_OVERSIZED Counter "prestate_cache_oversized_total" "" "Replies larger than the whole cache, which were not kept.";
    CACHE_BYTES Gauge "prestate_cache_bytes" "" "Memory of the kept replies, shared codes counted once.";
    CACHE_REPLIES Gauge "prestate_cache_replies" "" "Replies kept.";
    ARCHIVE_BLOCKS Gauge "prestate_archive_blocks" "" "Blocks in the archive, canonical or not.";
    ARCHIVE_FIRST Gauge "prestate_archive_first_block" "" "Lowest canonical block in the archive.";
    ARCHIVE_LAST Gauge "prestate_archive_last_block" "" "Highest canonical block in the archive.";
    ARCHIVE_FACTS_BYTES Gauge "prestate_archive_facts_bytes" "" "Records of the blocks.";
    ARCHIVE_CODES Gauge "prestate_archive_codes" "" "Contract codes in the archive.";
    ARCHIVE_CODE_BYTES Gauge "prestate_archive_code_bytes" "" "Records of the codes.";
    ARCHIVE_DISK_BYTES Gauge "prestate_archive_disk_bytes" "" "Space the archive takes on the disk.";
    ARCHIVE_AVAILABLE_BYTES Gauge "prestate_archive_available_bytes" "" "Free space on the archive's disk.";
    ARCHIVE_SPACE_LOW Gauge "prestate_archive_space_low" "" "1 while too little space is free to write.";
}

/// Sets a gauge to a height, a count or bytes.
pub(crate) fn set(name: &'static str, value: u64) {
    // Exact up to 2^53.
    gauge!(name).set(value as f64);
}

/// A count that can be read back, and its series. Looked up once: adding costs two atomics.
pub(crate) struct Count {
    value: AtomicU64,
    series: Counter,
}

impl Count {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { value: AtomicU64::new(0), series: counter!(name) }
    }

    pub(crate) fn add(&self, more: u64) {
        self.value.fetch_add(more, Relaxed);
        self.series.increment(more);
    }

    pub(crate) fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

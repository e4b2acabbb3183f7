//! Which sources this endpoint offers, as far as was seen. No I/O, no clock: time is counted in
//! resyncs.

use crate::{Fault, Source};
use std::collections::BTreeMap;

/// Resyncs after which a source that was refused is tried again: plans and nodes change. It doubles
/// each time, so that a namespace which stays shut costs next to nothing.
const REPROBE_AFTER: u64 = 32;
/// Longest time, in resyncs, until it is tried again.
const MAX_REPROBE_AFTER: u64 = 2048;
/// Most resyncs that a source is left out after failures in a row.
const MAX_COOLING: u64 = 64;

/// Whether a source can be used now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It answered.
    Available,
    /// Never used yet.
    Untried,
    /// Refused by the provider; tried again at the resync given.
    Gated {
        /// The provider's words.
        reason: String,
        /// Number of the resync.
        until: u64,
    },
    /// Failed lately; tried again at the resync given.
    Cooling {
        /// What happened.
        reason: String,
        /// Number of the resync.
        until: u64,
    },
    /// Failed in this very resync.
    Failed {
        /// What happened.
        reason: String,
    },
    /// Not among the sources configured.
    Excluded,
}

impl Availability {
    /// Whether it may be chosen.
    pub fn usable(&self) -> bool {
        matches!(self, Self::Available | Self::Untried)
    }
}

#[derive(Debug, Clone, Default)]
struct Record {
    answered: bool,
    failures: u32,
    out: Option<(bool, String, u64)>,
    failed_now: Option<(u64, String)>,
}

/// 1, 2, 4, … for the first, second, third failure.
fn doubled(failures: u32) -> u64 {
    1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX)
}

/// What was seen of each source.
#[derive(Debug, Clone)]
pub(crate) struct Capabilities {
    records: BTreeMap<Source, Record>,
}

impl Capabilities {
    pub(crate) fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        Self { records: sources.into_iter().map(|source| (source, Record::default())).collect() }
    }

    pub(crate) fn succeeded(&mut self, source: Source) {
        if let Some(record) = self.records.get_mut(&source) {
            *record = Record { answered: true, ..Record::default() };
        }
    }

    /// Notes a failure in resync `now`. Point reads are never gated for long: there is nothing
    /// below them.
    pub(crate) fn failed(&mut self, source: Source, now: u64, fault: &Fault) {
        let Some(record) = self.records.get_mut(&source) else { return };
        let reason = fault.to_string();
        record.failed_now = Some((now, reason.clone()));
        record.out = match fault {
            Fault::Gated { .. } if source != Source::Reads => {
                record.failures = record.failures.saturating_add(1);
                let pause = REPROBE_AFTER.checked_mul(doubled(record.failures));
                Some((
                    true,
                    reason,
                    now + pause.unwrap_or(MAX_REPROBE_AFTER).min(MAX_REPROBE_AFTER),
                ))
            }
            // Of this block or this chain; the next resync is another matter.
            Fault::UnknownBlock { .. } => None,
            _ if source == Source::Reads => None,
            _ => {
                record.failures = record.failures.saturating_add(1);
                Some((false, reason, now + doubled(record.failures).min(MAX_COOLING)))
            }
        };
    }

    pub(crate) fn of(&self, source: Source, now: u64) -> Availability {
        let Some(record) = self.records.get(&source) else { return Availability::Excluded };
        if let Some((at, reason)) = &record.failed_now
            && *at == now
        {
            return Availability::Failed { reason: reason.clone() };
        }
        match &record.out {
            Some((gated, reason, until)) if now < *until => {
                let (reason, until) = (reason.clone(), *until);
                if *gated {
                    Availability::Gated { reason, until }
                } else {
                    Availability::Cooling { reason, until }
                }
            }
            _ if record.answered => Availability::Available,
            _ => Availability::Untried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated() -> Fault {
        Fault::Gated { reason: "no".to_owned() }
    }

    #[test]
    fn a_gated_source_is_asked_again_much_later() {
        let mut seen = Capabilities::new([Source::Trace, Source::Reads]);
        assert_eq!(seen.of(Source::Trace, 1), Availability::Untried);
        assert_eq!(seen.of(Source::Resync, 1), Availability::Excluded);
        seen.failed(Source::Trace, 1, &gated());
        assert!(matches!(seen.of(Source::Trace, 1), Availability::Failed { .. }));
        assert!(matches!(seen.of(Source::Trace, 2), Availability::Gated { until: 33, .. }));
        assert_eq!(seen.of(Source::Trace, 33), Availability::Untried);
        seen.failed(Source::Trace, 33, &gated());
        assert!(matches!(seen.of(Source::Trace, 34), Availability::Gated { until: 97, .. }));
        for now in 34..54 {
            seen.failed(Source::Trace, now, &gated());
        }
        assert!(matches!(seen.of(Source::Trace, 60), Availability::Gated { until: 2101, .. }));
        seen.succeeded(Source::Trace);
        assert_eq!(seen.of(Source::Trace, 602), Availability::Available);
    }

    #[test]
    fn failures_in_a_row_cool_longer_each_time() {
        let mut seen = Capabilities::new([Source::Trace]);
        seen.succeeded(Source::Trace);
        let mut now = 1;
        for pause in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
            seen.failed(Source::Trace, now, &Fault::unavailable("down"));
            let until = now + pause;
            if pause > 1 {
                let cooling = Availability::Cooling { reason: "unavailable: down".into(), until };
                assert_eq!(seen.of(Source::Trace, until - 1), cooling);
            }
            assert!(seen.of(Source::Trace, until).usable());
            now = until;
        }
    }

    #[test]
    fn reads_are_never_out_for_long() {
        let mut seen = Capabilities::new([Source::Reads]);
        for fault in [gated(), Fault::unavailable("down")] {
            seen.failed(Source::Reads, 5, &fault);
            assert!(!seen.of(Source::Reads, 5).usable());
            assert!(seen.of(Source::Reads, 6).usable());
        }
    }
}

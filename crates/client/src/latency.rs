//! How long each source takes against this very endpoint, learned while it is used.

use crate::Source;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Samples kept a series: enough for a median that does not jump, few enough to follow a provider
/// whose speed changes within the hour.
const KEPT: usize = 32;
/// Weight of a sample compared with the one after it: the newest ten samples outweigh the rest.
const DECAY: f64 = 0.93;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Timed {
    /// A source, whole.
    Source(Source),
    /// One header.
    Header,
}

/// A size class: sizes of one power of two share it (1, 2, 3-4, 5-8, 9-16, …).
fn bucket(size: usize) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

/// What is known of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyEstimate {
    /// Decayed median.
    pub median: Duration,
    /// Samples it rests on.
    pub samples: usize,
    /// Largest size of the class they are from; not that of the size asked for if that class has
    /// none.
    pub up_to: usize,
}

#[derive(Debug, Clone, Default)]
struct Series {
    /// Newest first.
    samples: VecDeque<Duration>,
}

impl Series {
    fn add(&mut self, sample: Duration) {
        self.samples.push_front(sample);
        self.samples.truncate(KEPT);
    }

    /// The sample at which half of the weight is reached, smaller ones first.
    fn median(&self) -> Option<Duration> {
        let weighted = self.samples.iter().scan(1.0, |weight, sample| {
            let here = *weight;
            *weight *= DECAY;
            Some((*sample, here))
        });
        let mut weighted: Vec<(Duration, f64)> = weighted.collect();
        weighted.sort_by_key(|(sample, _)| *sample);
        let half = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
        let mut reached = 0.0;
        weighted.into_iter().find_map(|(sample, weight)| {
            reached += weight;
            (reached >= half).then_some(sample)
        })
    }
}

/// Medians by source and size class.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies {
    series: BTreeMap<(Timed, u32), Series>,
}

impl Latencies {
    pub(crate) fn observe(&mut self, what: Timed, size: usize, took: Duration) {
        self.series.entry((what, bucket(size))).or_default().add(took);
    }

    /// What to expect of this size: its class's median, else that of the nearest class that has
    /// one (the smaller of two equally near). `None` if nothing was ever measured.
    pub(crate) fn estimate(&self, what: Timed, size: usize) -> Option<LatencyEstimate> {
        let wanted = bucket(size);
        let of_it = self.series.range((what, 0)..=(what, u32::MAX));
        let ((_, class), series) =
            of_it.min_by_key(|((_, class), _)| (class.abs_diff(wanted), *class))?;
        Some(LatencyEstimate {
            median: series.median()?,
            samples: series.samples.len(),
            up_to: 1_usize.checked_shl(*class).unwrap_or(usize::MAX),
        })
    }

    /// Every class measured, for reports.
    pub(crate) fn table(&self) -> impl Iterator<Item = (Timed, LatencyEstimate)> + '_ {
        self.series.keys().filter_map(|(what, class)| {
            let size = 1_usize.checked_shl(*class)?;
            Some((*what, self.estimate(*what, size)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const READS: Timed = Timed::Source(Source::Reads);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes: Vec<_> = [0, 1, 2, 3, 4, 5, 8, 9, 100, 128].map(bucket).into();
        assert_eq!(classes, [0, 0, 1, 2, 2, 3, 3, 4, 7, 7]);
    }

    #[test]
    fn the_nearest_class_answers_for_one_without_samples() {
        let mut book = Latencies::default();
        assert_eq!(book.estimate(READS, 1), None);
        book.observe(READS, 8, ms(50));
        book.observe(READS, 128, ms(200));
        book.observe(Timed::Header, 1, ms(1));
        let of =
            |size| book.estimate(READS, size).map(|estimate| (estimate.median, estimate.up_to));
        assert_eq!(of(1), Some((ms(50), 8)));
        assert_eq!(of(32), Some((ms(50), 8)), "as near as 128: the smaller");
        assert_eq!(of(64), Some((ms(200), 128)));
        assert_eq!(of(5000), Some((ms(200), 128)));
        assert_eq!(book.table().count(), 3);
    }

    #[test]
    fn an_outlier_does_not_move_it_and_a_new_speed_does() {
        let mut book = Latencies::default();
        for _ in 0..20 {
            book.observe(READS, 1, ms(30));
        }
        book.observe(READS, 1, ms(5000));
        assert_eq!(book.estimate(READS, 1).unwrap().median, ms(30));
        for _ in 0..12 {
            book.observe(READS, 1, ms(300));
        }
        assert_eq!(book.estimate(READS, 1).unwrap().median, ms(300), "forgotten before half");
    }

    proptest! {
        #[test]
        fn a_median_is_one_of_the_kept_samples(samples in prop::collection::vec(0_u64..1000, 1..100)) {
            let mut series = Series::default();
            for sample in &samples {
                series.add(ms(*sample));
            }
            let kept: Vec<_> = samples.iter().rev().take(KEPT).map(|n| ms(*n)).collect();
            prop_assert!(kept.contains(&series.median().unwrap()));
            let below = kept.iter().filter(|sample| **sample <= series.median().unwrap()).count();
            prop_assert!(below > 0);
        }
    }
}

use rand::{Rng, SeedableRng, rngs::StdRng};

/// How often the samples are drawn anew.
const DRAWS: usize = 1000;
/// Share of the draws that must agree before anything is said.
const CONFIDENCE: f64 = 0.95;

/// From how many slots on a trace is ready before a batch of reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Crossing {
    /// Reads were ahead at every measured number of slots.
    ReadsAhead {
        /// Share of the draws in which they were.
        share: f64,
    },
    /// The trace was.
    TraceAhead {
        /// Share of the draws in which it was.
        share: f64,
    },
    /// They cross between the numbers measured.
    At {
        /// Slots, the middle of the draws.
        slots: f64,
        /// 5th percentile of the draws.
        least: f64,
        /// 95th percentile.
        most: f64,
        /// Share of the draws that cross.
        share: f64,
    },
    /// The samples do not agree.
    Unclear {
        /// Share of the draws that cross where was measured.
        share: f64,
    },
    /// Too few clean samples.
    Unmeasured,
}

/// Milliseconds of the clean samples at one number of slots.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) slots: f64,
    pub(super) reads: Vec<f64>,
    pub(super) trace: Vec<f64>,
}

/// Bootstrap over the samples of each bucket: in every draw a straight line through the medians of
/// the reads (Theil and Sen: the median of the slopes between all pairs) against the median of the
/// traces, whose time does not depend on the slots.
pub(super) fn crossing(buckets: &[Bucket], seed: u64) -> Crossing {
    let buckets: Vec<_> = buckets.iter().filter(|b| b.reads.len() >= 3).collect();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return Crossing::Unmeasured;
    };
    if buckets.len() < 2 || buckets.iter().map(|b| b.trace.len()).sum::<usize>() < 3 {
        return Crossing::Unmeasured;
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut reads, mut traces) = (0, 0);
    let mut at = Vec::new();
    for _ in 0..DRAWS {
        let trace: Vec<f64> =
            buckets.iter().flat_map(|bucket| draw(&bucket.trace, &mut rng)).collect();
        let trace = middle(trace);
        let points: Vec<_> =
            buckets.iter().map(|b| (b.slots, middle(draw(&b.reads, &mut rng)))).collect();
        let (start, slope) = line(&points);
        let ahead = |slots: f64| start + slope * slots <= trace;
        match (ahead(first.slots), ahead(last.slots)) {
            (true, true) => reads += 1,
            (false, false) => traces += 1,
            // Reads that get faster with their number do not cross: that is noise.
            (false, true) => {}
            (true, false) => at.push((trace - start) / slope),
        }
    }
    let share = |count: usize| count as f64 / DRAWS as f64;
    let crossed = share(at.len());
    if crossed >= CONFIDENCE {
        at.sort_by(f64::total_cmp);
        let part = |part: f64| at[((at.len() - 1) as f64 * part) as usize];
        let (slots, least, most) = (part(0.5), part(0.05), part(0.95));
        Crossing::At { slots, least, most, share: crossed }
    } else if share(reads) >= CONFIDENCE {
        Crossing::ReadsAhead { share: share(reads) }
    } else if share(traces) >= CONFIDENCE {
        Crossing::TraceAhead { share: share(traces) }
    } else {
        Crossing::Unclear { share: crossed }
    }
}

fn draw(samples: &[f64], rng: &mut StdRng) -> Vec<f64> {
    samples.iter().map(|_| samples[rng.random_range(0..samples.len())]).collect()
}

fn middle(figures: Vec<f64>) -> f64 {
    crate::report::middle(&figures).unwrap_or_default()
}

/// Start and slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let pairs = points.iter().enumerate().flat_map(|(at, a)| {
        points[at + 1..].iter().filter(|b| b.0 != a.0).map(|b| (b.1 - a.1) / (b.0 - a.0))
    });
    let slope = middle(pairs.collect());
    (middle(points.iter().map(|(x, y)| y - slope * x).collect()), slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of `start + slope * slots` ms, traces of `trace` ms, with noise of up to `noise` ms.
    fn measured(start: f64, slope: f64, trace: f64, noise: f64) -> Crossing {
        let mut rng = StdRng::seed_from_u64(7);
        let mut around =
            |ms: f64| (0..20).map(|_| ms + noise * (rng.random::<f64>() - 0.5)).collect::<Vec<_>>();
        let buckets = [1.0, 8.0, 32.0, 64.0, 128.0, 260.0].map(|slots| Bucket {
            slots,
            reads: around(start + slope * slots),
            trace: around(trace),
        });
        crossing(&buckets, 1)
    }

    #[test]
    fn a_planted_crossing_is_found_where_it_is() {
        for wanted in [20.0, 100.0, 200.0] {
            let Crossing::At { slots, least, most, .. } = measured(30.0, 1.0, 30.0 + wanted, 10.0)
            else {
                panic!("{wanted}")
            };
            assert!((slots - wanted).abs() < 5.0, "{slots} for {wanted}");
            assert!(least <= slots && slots <= most && most - least < 20.0, "{least} to {most}");
        }
    }

    #[test]
    fn none_is_said_where_none_was_measured() {
        assert!(matches!(measured(30.0, 0.1, 400.0, 20.0), Crossing::ReadsAhead { .. }));
        assert!(matches!(measured(90.0, 1.0, 20.0, 20.0), Crossing::TraceAhead { .. }));
        assert!(matches!(measured(50.0, 0.0, 50.0, 40.0), Crossing::Unclear { .. }));
        let lonely = Bucket { slots: 1.0, reads: vec![1.0; 9], trace: vec![2.0; 9] };
        assert_eq!(crossing(&[lonely], 1), Crossing::Unmeasured);
        assert_eq!(crossing(&[], 1), Crossing::Unmeasured);
    }
}

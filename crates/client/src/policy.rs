//! Which source to use: numbers in, a decision with its numbers out. No I/O, no clock.

use crate::{
    Availability, CostTable, LatencyEstimate, Objective, Source,
    latency::{Latencies, Timed},
};
use std::{fmt, time::Duration};

/// What a resync is about to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Situation {
    /// Blocks a trace has to go through: from the last known block that is still canonical to the
    /// new head. At least that many where a reorg is not measured out yet.
    pub blocks: u64,
    /// Headers a trace still needs beside the head's.
    pub headers: u64,
    /// Headers that point reads still need beside the head's, to notice a reorg.
    pub read_headers: u64,
    /// Watched slots.
    pub watched: usize,
    /// Of these, slots without a value, which a trace that does not touch them cannot give.
    pub cold: usize,
    /// Of these, slots that change outside transactions, which no trace shows.
    pub untraceable: usize,
}

/// One source in the eyes of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The source.
    pub source: Source,
    /// Whether it can be used.
    pub availability: Availability,
    /// What it will cost in compute units.
    pub compute_units: u64,
    /// How long it will take; `None`: never measured.
    pub latency: Option<Duration>,
    /// What that rests on.
    pub measured: Option<LatencyEstimate>,
}

/// Why the first candidate is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Shortest expected latency.
    Fastest,
    /// Fewest compute units.
    Cheapest,
    /// It shows every block.
    Complete,
    /// Its latency is not known yet, or was measured long ago.
    Exploring,
    /// No other can be used.
    OnlyOne,
    /// None can be used.
    None,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fastest => "fastest",
            Self::Cheapest => "cheapest",
            Self::Complete => "shows every block",
            Self::Exploring => "to measure it",
            Self::OnlyOne => "the only one usable",
            Self::None => "none is usable",
        })
    }
}

/// How many requests run side by side, as far as it shortens a catch-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Width(pub(crate) usize);

impl Width {
    fn rounds(self, requests: u64) -> u32 {
        u32::try_from(requests.div_ceil(self.0.max(1) as u64)).unwrap_or(u32::MAX)
    }
}

/// What the policy goes by.
#[derive(Debug)]
pub(crate) struct Book<'a> {
    pub(crate) costs: &'a CostTable,
    pub(crate) latencies: &'a Latencies,
    pub(crate) width: Width,
}

impl Book<'_> {
    pub(crate) fn candidate(
        &self,
        source: Source,
        availability: Availability,
        situation: &Situation,
    ) -> Candidate {
        let header = self.costs.of("eth_getBlockByNumber");
        let read = self.costs.of("eth_getStorageAt");
        let extra = situation.cold + situation.untraceable;
        let compute_units = match source {
            Source::Resync => self.costs.of("prestate_resync"),
            Source::Reads => header * situation.read_headers + read * situation.watched as u64,
            Source::Trace => {
                header * situation.headers
                    + self.costs.of("debug_traceBlockByHash") * situation.blocks
                    + read * extra as u64
            }
        };
        let of = |what, size| self.latencies.estimate(what, size);
        let headers = |count: u64| {
            let one = of(Timed::Header, 1).map_or(Duration::ZERO, |estimate| estimate.median);
            one * self.width.rounds(count)
        };
        let measured = match source {
            Source::Resync | Source::Reads => of(Timed::Source(source), situation.watched),
            Source::Trace => of(Timed::Source(source), 1),
        };
        let latency = measured.map(|estimate| match source {
            Source::Resync => estimate.median,
            // They go along with the reads.
            Source::Reads => estimate.median,
            Source::Trace => {
                let reads = (extra > 0).then(|| of(Timed::Source(Source::Reads), extra)).flatten();
                headers(situation.headers)
                    + estimate.median * self.width.rounds(situation.blocks)
                    + reads.map_or(Duration::ZERO, |estimate| estimate.median)
            }
        });
        Candidate { source, availability, compute_units, latency, measured }
    }
}

/// A source measured longest ago, if that is too long.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exploration {
    /// Try this one if it is not hopeless.
    pub(crate) due: Option<Source>,
}

/// A source is not measured again while it was this many times slower than the best.
const HOPELESS: u32 = 8;

/// Ranks the candidates, best first; those that cannot be used come last.
pub(crate) fn rank(
    objective: Objective,
    exploration: Exploration,
    candidates: &mut [Candidate],
) -> Reason {
    let tie = |candidate: &Candidate| Source::ALL.iter().position(|s| *s == candidate.source);
    // Never measured: assumed fast, so that it is measured once.
    let latency = |candidate: &Candidate| candidate.latency.unwrap_or_default();
    candidates.sort_by_key(|candidate| {
        let out = !candidate.availability.usable();
        let units = candidate.compute_units;
        let complete = match (objective, candidate.source) {
            (Objective::Completeness, Source::Trace) => 0,
            (Objective::Completeness, Source::Resync) => 1,
            (Objective::Completeness, Source::Reads) => 2,
            _ => 0,
        };
        let by_units = if objective == Objective::Latency { 0 } else { units };
        (out, complete, by_units, latency(candidate), units, tie(candidate))
    });
    let usable = candidates.iter().filter(|candidate| candidate.availability.usable()).count();
    match usable {
        0 => return Reason::None,
        1 => return Reason::OnlyOne,
        _ => {}
    }
    match objective {
        Objective::Completeness => Reason::Complete,
        Objective::ComputeUnits => Reason::Cheapest,
        Objective::Latency => {
            let best = latency(&candidates[0]);
            let due = exploration.due.and_then(|due| {
                candidates[..usable].iter().position(|candidate| {
                    candidate.source == due && latency(candidate) <= best.saturating_mul(HOPELESS)
                })
            });
            if let Some(at) = due.filter(|at| *at > 0) {
                candidates[..=at].rotate_right(1);
                return Reason::Exploring;
            }
            if candidates[0].latency.is_none() { Reason::Exploring } else { Reason::Fastest }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(source: Source, units: u64, latency_ms: Option<u64>) -> Candidate {
        Candidate {
            source,
            availability: Availability::Available,
            compute_units: units,
            latency: latency_ms.map(Duration::from_millis),
            measured: None,
        }
    }

    fn first(objective: Objective, mut candidates: Vec<Candidate>) -> (Source, Reason) {
        let reason = rank(objective, Exploration::default(), &mut candidates);
        (candidates[0].source, reason)
    }

    #[test]
    fn by_compute_units_a_trace_wins_from_three_reads_on() {
        let (costs, latencies) = (CostTable::alchemy(), Latencies::default());
        let book = Book { costs: &costs, latencies: &latencies, width: Width(4) };
        let chosen = |watched, blocks, cold| {
            let headers = blocks - 1;
            let situation = Situation {
                blocks,
                headers,
                read_headers: headers.min(1),
                watched,
                cold,
                untraceable: 0,
            };
            let of = |source| book.candidate(source, Availability::Available, &situation);
            first(Objective::ComputeUnits, vec![of(Source::Trace), of(Source::Reads)]).0
        };
        assert_eq!(chosen(1, 1, 0), Source::Reads);
        assert_eq!(chosen(2, 1, 0), Source::Reads, "as dear: the lighter call");
        assert_eq!(chosen(3, 1, 0), Source::Trace);
        assert_eq!(chosen(100, 1, 0), Source::Trace);
        assert_eq!(chosen(3, 1, 3), Source::Reads, "cold slots are read anyway");
        assert_eq!(chosen(10, 4, 0), Source::Reads, "220 against 4 traces and 3 headers");
        assert_eq!(chosen(11, 4, 0), Source::Trace);
    }

    #[test]
    fn by_latency_what_was_measured_decides_and_the_unknown_is_measured() {
        let slow_trace = || candidate(Source::Trace, 40, Some(450));
        let reads = |ms| candidate(Source::Reads, 2000, Some(ms));
        let of = |list| first(Objective::Latency, list);
        assert_eq!(of(vec![slow_trace(), reads(233)]), (Source::Reads, Reason::Fastest));
        assert_eq!(of(vec![slow_trace(), reads(600)]), (Source::Trace, Reason::Fastest));
        let unknown = candidate(Source::Resync, 0, None);
        assert_eq!(of(vec![slow_trace(), reads(1), unknown]), (Source::Resync, Reason::Exploring));
    }

    #[test]
    fn what_was_not_measured_for_long_is_unless_it_is_hopeless() {
        let ranked = |ms, due| {
            let mut list = vec![
                candidate(Source::Trace, 40, Some(ms)),
                candidate(Source::Reads, 20, Some(50)),
            ];
            let reason = rank(Objective::Latency, Exploration { due }, &mut list);
            (list[0].source, reason)
        };
        assert_eq!(ranked(400, Some(Source::Trace)), (Source::Trace, Reason::Exploring));
        assert_eq!(ranked(401, Some(Source::Trace)), (Source::Reads, Reason::Fastest));
        assert_eq!(ranked(400, Some(Source::Reads)), (Source::Reads, Reason::Fastest));
        assert_eq!(ranked(400, None), (Source::Reads, Reason::Fastest));
    }

    #[test]
    fn completeness_wants_every_block() {
        let list = || {
            vec![
                candidate(Source::Reads, 1, Some(1)),
                candidate(Source::Resync, 1, Some(1)),
                candidate(Source::Trace, 999, Some(999)),
            ]
        };
        assert_eq!(first(Objective::Completeness, list()), (Source::Trace, Reason::Complete));
        let mut gated = list();
        gated[2].availability = Availability::Gated { reason: "no".into(), until: 9 };
        assert_eq!(first(Objective::Completeness, gated.clone()).0, Source::Resync);
        gated[1].availability = Availability::Excluded;
        assert_eq!(first(Objective::Completeness, gated.clone()), (Source::Reads, Reason::OnlyOne));
        gated[0].availability = Availability::Failed { reason: "down".into() };
        assert_eq!(first(Objective::Completeness, gated).1, Reason::None);
    }

    proptest! {
        /// The first is usable if any is, and by compute units no usable one is cheaper.
        #[test]
        fn the_first_is_the_best(
            units in prop::array::uniform3(0_u64..100),
            ms in prop::array::uniform3(prop::option::of(0_u64..100)),
            usable in prop::array::uniform3(any::<bool>()),
            objective in prop::sample::select(&[Objective::Latency, Objective::ComputeUnits, Objective::Completeness][..]),
        ) {
            let mut list: Vec<_> = (0..3).map(|n| {
                let mut candidate = candidate(Source::ALL[n], units[n], ms[n]);
                if !usable[n] {
                    candidate.availability = Availability::Excluded;
                }
                candidate
            }).collect();
            let reason = rank(objective, Exploration::default(), &mut list);
            let any = usable.contains(&true);
            prop_assert_eq!(reason == Reason::None, !any);
            prop_assert_eq!(list[0].availability.usable(), any);
            let rivals = list.iter().filter(|rival| rival.availability.usable());
            for rival in rivals {
                match objective {
                    Objective::ComputeUnits => prop_assert!(list[0].compute_units <= rival.compute_units),
                    Objective::Latency => prop_assert!(list[0].latency.unwrap_or_default() <= rival.latency.unwrap_or_default()),
                    _ => prop_assert!(list[0].source == Source::Trace || rival.source != Source::Trace),
                }
            }
        }
    }
}

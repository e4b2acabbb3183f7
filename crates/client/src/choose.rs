//! Where a resyncer asks the policy and keeps what came of it.

use crate::{
    Availability, Decision, Fault, Outcome, Reason, Resyncer, Situation, Source,
    latency::Timed,
    policy::{Book, Exploration, Width, rank},
};
use alloy_network::Network;
use alloy_provider::Provider;
use std::time::Duration;

/// Resyncs after which a source is measured again if there is a choice.
const MEASURE_AGAIN_AFTER: u64 = 64;

impl<P: Provider<N>, N: Network> Resyncer<P, N> {
    /// The decision for a situation; `barrier` says why no trace can help.
    pub(crate) fn decide(&self, situation: Situation, barrier: Option<&str>) -> Decision {
        let book = Book {
            costs: self.endpoint.costs(),
            latencies: &self.latencies,
            width: Width(self.config.width),
        };
        let mut candidates: Vec<_> = Source::ALL
            .into_iter()
            .map(|source| {
                let mut availability = self.capabilities.of(source, self.resyncs);
                if let Some(barrier) = barrier
                    && source == Source::Trace
                    && availability.usable()
                {
                    availability = Availability::Failed { reason: barrier.to_owned() };
                }
                book.candidate(source, availability, &situation)
            })
            .collect();
        let reason = rank(self.config.objective, self.exploration(), &mut candidates);
        let best = candidates.first().filter(|_| reason != Reason::None);
        Decision {
            resync: self.resyncs,
            situation,
            chosen: best.map(|candidate| candidate.source),
            candidates,
            reason,
            outcome: None,
        }
    }

    /// The usable source that was measured longest ago, if that is long.
    fn exploration(&self) -> Exploration {
        let measured = self.measured.iter().filter(|(source, at)| {
            self.resyncs - **at >= MEASURE_AGAIN_AFTER
                && self.capabilities.of(**source, self.resyncs).usable()
        });
        Exploration { due: measured.min_by_key(|(_, at)| **at).map(|(source, _)| *source) }
    }

    pub(crate) fn record(&mut self, decision: Decision) {
        tracing::debug!(target: "prestate::client", %decision, "source chosen");
        self.decisions.push_back(decision);
        if self.decisions.len() > self.config.kept_decisions.max(1) {
            self.decisions.pop_front();
        }
    }

    /// Closes the decision under way.
    fn close(&mut self, outcome: Outcome) {
        let resync = self.resyncs;
        if let Some(last) = self.decisions.back_mut()
            && last.resync == resync
            && last.outcome.is_none()
        {
            last.outcome = Some(outcome);
        }
    }

    /// A source brought the ledger to the head.
    pub(crate) fn succeeded(&mut self, source: Source, took: Duration, compute_units: u64) {
        self.capabilities.succeeded(source);
        self.used.push(source);
        self.close(Outcome::Done { took, compute_units });
    }

    /// How long a source took for a number of slots (blocks, for traces).
    pub(crate) fn measure(&mut self, source: Source, size: usize, took: Duration) {
        self.measured.insert(source, self.resyncs);
        self.latencies.observe(Timed::Source(source), size, took);
    }

    pub(crate) fn failed(&mut self, source: Source, fault: &Fault) {
        tracing::debug!(target: "prestate::client", %source, %fault, "source failed");
        self.capabilities.failed(source, self.resyncs, fault);
        self.close(Outcome::Failed { reason: fault.to_string() });
    }
}

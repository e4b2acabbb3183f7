use crate::{
    Availability, Candidate, LatencyEstimate, Objective, Reason, Situation, Source, Spent,
};
use std::{fmt, time::Duration};

/// How a decision came out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It worked.
    Done {
        /// Time of the source's own calls.
        took: Duration,
        /// Compute units they cost.
        compute_units: u64,
    },
    /// It did not; the decision after it is the way on.
    Failed {
        /// What happened.
        reason: String,
    },
}

/// A choice between sources, with the numbers behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Number of the resync, from one.
    pub resync: u64,
    /// What was to be repaired.
    pub situation: Situation,
    /// All sources, best first.
    pub candidates: Vec<Candidate>,
    /// The one taken, if any could be.
    pub chosen: Option<Source>,
    /// Why that one.
    pub reason: Reason,
    /// How it came out; `None` while it is under way.
    pub outcome: Option<Outcome>,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Situation { blocks, watched, cold, untraceable, .. } = self.situation;
        write!(f, "resync {}: {blocks} blocks, {watched} slots", self.resync)?;
        if cold > 0 {
            write!(f, ", {cold} cold")?;
        }
        if untraceable > 0 {
            write!(f, ", {untraceable} untraceable")?;
        }
        match self.chosen {
            Some(source) => write!(f, " -> {source} ({})", self.reason)?,
            None => write!(f, " -> {}", self.reason)?,
        }
        match &self.outcome {
            Some(Outcome::Done { took, compute_units }) => {
                write!(f, ", took {took:.1?}, {compute_units} CU")?;
            }
            Some(Outcome::Failed { reason }) => write!(f, ", failed: {reason}")?,
            None => {}
        }
        for candidate in &self.candidates {
            write!(f, "\n  {:6} {:>6} CU", candidate.source, candidate.compute_units)?;
            match (candidate.latency, candidate.measured) {
                (Some(latency), Some(LatencyEstimate { median, samples, up_to })) => write!(
                    f,
                    ", {latency:.1?} expected (median {median:.1?} of {samples}, size up to {up_to})"
                )?,
                _ => write!(f, ", never measured")?,
            }
            match &candidate.availability {
                Availability::Available => {}
                Availability::Untried => write!(f, ", untried")?,
                Availability::Excluded => write!(f, ", not configured")?,
                Availability::Failed { reason } => write!(f, ", failed just now: {reason}")?,
                Availability::Gated { reason, until } => {
                    write!(f, ", gated until resync {until}: {reason}")?;
                }
                Availability::Cooling { reason, until } => {
                    write!(f, ", left out until resync {until}: {reason}")?;
                }
            }
        }
        Ok(())
    }
}

/// Everything behind the choices of a [`Resyncer`](crate::Resyncer).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What it is to be good at.
    pub objective: Objective,
    /// Name of the price list.
    pub cost_table: String,
    /// Resyncs so far.
    pub resyncs: u64,
    /// What was spent.
    pub spent: Spent,
    /// What was learned: source, and the median of each size class.
    pub latencies: Vec<(Source, LatencyEstimate)>,
    /// Most reads in a batch at present.
    pub batch_size: usize,
    /// Whether reads name the block by hash (EIP-1898).
    pub reads_by_hash: bool,
    /// Slots of traces that were read instead since the trace said that their account is gone.
    pub doubted_gone: u64,
    /// Slots of traces that were read instead since their old value was not the one known.
    pub doubted_mismatch: u64,
    /// The last decisions, oldest first.
    pub decisions: Vec<Decision>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "by {}, {} resyncs, {} CU by the list of {}, batches of {} reads by {}",
            self.objective,
            self.resyncs,
            self.spent.units(),
            self.cost_table,
            self.batch_size,
            if self.reads_by_hash { "block hash" } else { "block number" },
        )?;
        writeln!(
            f,
            "trace values read instead: {} gone, {} mismatched",
            self.doubted_gone, self.doubted_mismatch
        )?;
        for (source, LatencyEstimate { median, samples, up_to }) in &self.latencies {
            writeln!(f, "{source:6} up to {up_to:>5}: median {median:.1?} of {samples}")?;
        }
        for decision in &self.decisions {
            writeln!(f, "{decision}")?;
        }
        Ok(())
    }
}

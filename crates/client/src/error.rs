use crate::{Fault, Source};
use std::fmt;

/// Why a slot is not watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// More slots than configured; none of those given was added.
    #[error("{given} slots would be watched, the limit is {limit}")]
    TooManySlots {
        /// With those given.
        given: usize,
        /// Allowed.
        limit: usize,
    },
}

/// Why a resync did not come to its end. Values are still those of
/// [`Resyncer::head`](crate::Resyncer::head), some may be cold; call again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResyncError {
    /// The node does not say where the chain is.
    #[error("the head cannot be read: {0}")]
    Head(Fault),
    /// Every source failed.
    #[error("no source works: {}", Listed(.0))]
    Exhausted(Vec<(Source, Fault)>),
    /// The chain moved on at every attempt before its state could be read.
    #[error("the chain kept moving for {attempts} attempts: {last}")]
    Moving {
        /// How often it was tried.
        attempts: u32,
        /// What was in the way last.
        last: Fault,
    },
    /// The endpoint is of another chain than configured.
    #[error("the endpoint serves chain {given}, not {expected}")]
    OtherChain {
        /// Configured.
        expected: u64,
        /// Served.
        given: u64,
    },
}

impl ResyncError {
    /// Whether calling again later may help without a change of configuration.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Head(fault) => fault.is_transient(),
            Self::Exhausted(faults) => faults.iter().any(|(_, fault)| fault.is_transient()),
            Self::Moving { .. } => true,
            Self::OtherChain { .. } => false,
        }
    }
}

struct Listed<'a>(&'a [(Source, Fault)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (source, fault)) in self.0.iter().enumerate() {
            write!(f, "{}{source}: {fault}", if at > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

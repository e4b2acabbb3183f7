use std::fmt;

/// Where the values of watched slots come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// `prestate_resync`: one call that answers with what changed, over gaps and reorgs.
    Resync,
    /// `debug_traceBlockByHash` with the prestate tracer in diff mode, one call a block.
    ///
    /// For chains whose storage changes by transactions and by the contracts of
    /// [`ResyncerConfig::untraceable`](crate::ResyncerConfig::untraceable) only: a slot that a dev
    /// chain sets by decree (`dev_setStorageAt`, `anvil_setStorageAt`) is in no trace.
    Trace,
    /// `eth_getStorageAt` of every slot, in batches.
    Reads,
}

impl Source {
    /// All of them, in the order that settles ties.
    pub const ALL: [Self; 3] = [Self::Resync, Self::Reads, Self::Trace];

    /// The name used in logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Trace => "trace",
            Self::Reads => "reads",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a resync should be good at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Objective {
    /// Soonest, by what was measured against this endpoint.
    #[default]
    Latency,
    /// Fewest compute units, by the provider's price list.
    ComputeUnits,
    /// Every block's changes one by one, not only the net change: traces where there are any.
    Completeness,
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::ComputeUnits => "compute units",
            Self::Completeness => "completeness",
        })
    }
}

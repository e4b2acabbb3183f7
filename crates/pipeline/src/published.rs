use crate::{
    BlockFailure,
    compute::{Given, TracedBlock},
    work::Work,
};
use alloy_primitives::{B256, Bytes};
use prestate_store::KeptBlock;
use prestate_types::{BlockFacts, BlockSummary, StateDiff};
use std::sync::Arc;

/// A block as it is published: what it changed as a whole, and, at once or a little later, what
/// each of its transactions did.
#[derive(Debug)]
pub struct PublishedBlock {
    summary: BlockSummary,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Published from the node's commit; the transactions follow.
    Given(Arc<Work>, Arc<Given>),
    /// Published once executed.
    Executed(Arc<Work>, Arc<TracedBlock>),
    /// Read from the archive.
    Kept { diff: StateDiff, facts: Option<Arc<BlockFacts>> },
}

impl PublishedBlock {
    /// `None` while nothing is known of what the block changed.
    pub(crate) fn of_work(work: &Arc<Work>) -> Option<Self> {
        if let Some(given) = &work.given {
            let source = Source::Given(work.clone(), given.clone());
            return Some(Self { summary: given.summary, source });
        }
        let traced = work.now()?.ok()?;
        let summary = traced.facts.summary;
        Some(Self { summary, source: Source::Executed(work.clone(), traced) })
    }

    pub(crate) fn work(&self) -> Option<&Arc<Work>> {
        match &self.source {
            Source::Given(work, _) | Source::Executed(work, _) => Some(work),
            Source::Kept { .. } => None,
        }
    }

    /// Number, hash, parent, time.
    pub const fn summary(&self) -> &BlockSummary {
        &self.summary
    }

    /// What the block as a whole changed, from its parent's state to its own.
    pub fn diff(&self) -> &StateDiff {
        match &self.source {
            Source::Given(_, given) => &given.diff,
            Source::Executed(_, traced) => &traced.diff,
            Source::Kept { diff, .. } => diff,
        }
    }

    /// A code that the block speaks of. `None`: it is not held here; the archive or the host's
    /// state after the block or its parent has it.
    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        let work = self.work()?;
        let given = work.given.as_ref().and_then(|given| given.codes.get(hash));
        given.or_else(|| work.now()?.ok()?.codes.get(hash))
    }

    /// What each part of the block changed, if that is settled; `None` while it is under way.
    pub fn facts_now(&self) -> Option<Result<Arc<BlockFacts>, BlockFailure>> {
        match &self.source {
            Source::Given(work, _) | Source::Executed(work, _) => {
                work.now().map(|traced| traced.map(|traced| traced.facts.clone()))
            }
            Source::Kept { facts, .. } => {
                Some(facts.clone().ok_or(BlockFailure::NotKept(self.summary.block)))
            }
        }
    }

    /// What each part of the block changed; waits while that is under way. A block that failed may
    /// still succeed later and is then found in the archive.
    ///
    /// # Errors
    ///
    /// Why the parts are not there.
    pub async fn facts(&self) -> Result<Arc<BlockFacts>, BlockFailure> {
        if let Some(facts) = self.facts_now() {
            return facts;
        }
        match self.work() {
            Some(work) => work.done().await.map(|traced| traced.facts.clone()),
            None => Err(BlockFailure::NotKept(self.summary.block)),
        }
    }
}

/// As a block that the archive keeps is published.
impl From<KeptBlock> for PublishedBlock {
    fn from(kept: KeptBlock) -> Self {
        let (summary, diff) = (*kept.summary(), kept.block_diff());
        let facts = match kept {
            KeptBlock::Facts(facts) => Some(Arc::new(facts)),
            _ => None,
        };
        Self { summary, source: Source::Kept { diff, facts } }
    }
}

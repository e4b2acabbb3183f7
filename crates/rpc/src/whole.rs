//! What a block changed: as it is known already, or by executing it again.

use crate::{
    debug::from_cache,
    faults,
    rpc::Shared,
    run::{Cancel, Clock},
    service::{Answer, Outcome, Reply, Timing},
};
use alloy_primitives::B256;
use prestate_diff::{Execution, Replayed, check_invariant, replay};
use prestate_host::RecoveredBlock;
use prestate_pipeline::{BlockFailure, PublishedBlock};
use prestate_rpc_api::RpcError;
use prestate_store::ReplyKey;
use prestate_types::{BlockDiff, BlockFacts, BlockRef, BlockSummary, StateDiff};
use prestate_wire::{CodeSegment, CodeSource, Rope};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::error;

/// What of a block is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// What it changed as a whole.
    Diff,
    /// What each part of it changed.
    Parts,
}

/// What a block changed.
#[derive(Debug)]
pub(crate) enum Whole {
    /// Known already. With its parts, if they were asked for.
    Known { block: Arc<PublishedBlock>, facts: Option<Arc<BlockFacts>> },
    /// Executed again.
    Replayed(Box<ReplayedBlock>),
}

#[derive(Debug)]
pub(crate) struct ReplayedBlock {
    replayed: Replayed,
    diff: BlockDiff,
    facts: BlockFacts,
}

/// What is known of a block without executing it.
#[derive(Debug)]
enum Settled {
    /// All that is wanted.
    Known(Whole),
    /// Its change as a whole, to hold the parts against.
    DiffOnly(Arc<PublishedBlock>),
    Unknown,
}

impl Whole {
    pub(crate) fn summary(&self) -> &BlockSummary {
        match self {
            Self::Known { block, .. } => block.summary(),
            Self::Replayed(block) => &block.diff.summary,
        }
    }

    pub(crate) fn diff(&self) -> &StateDiff {
        match self {
            Self::Known { block, .. } => block.diff(),
            Self::Replayed(block) => &block.diff.diff,
        }
    }

    /// The parts; `None` if only the whole was asked for.
    pub(crate) fn facts(&self) -> Option<&BlockFacts> {
        match self {
            Self::Known { facts, .. } => facts.as_deref(),
            Self::Replayed(block) => Some(&block.facts),
        }
    }
}

/// The codes that a block's diffs speak of.
pub(crate) struct WholeCodes<'a> {
    shared: &'a Shared,
    whole: &'a Whole,
}

impl CodeSource for WholeCodes<'_> {
    fn code(&self, hash: &B256) -> Option<Arc<CodeSegment>> {
        let Self { shared, whole } = self;
        shared.codes.get_or_intern(hash, || match whole {
            Whole::Replayed(block) => block.replayed.codes.get(hash),
            Whole::Known { block, .. } => block.code(hash).or_else(|| {
                let summary = block.summary();
                shared.kept_code(hash, &[summary.block.hash, summary.parent_hash])
            }),
        })
    }
}

impl Shared {
    pub(crate) fn codes_of<'a>(&'a self, whole: &'a Whole) -> WholeCodes<'a> {
        WholeCodes { shared: self, whole }
    }

    /// A code from the archive, or from the state after one of these blocks.
    pub(crate) fn kept_code(
        &self,
        hash: &B256,
        states: &[B256],
    ) -> Option<alloy_primitives::Bytes> {
        let archive = self.known.archive.as_ref();
        if let Some(code) = archive.and_then(|archive| archive.code(hash).ok().flatten()) {
            return Some(code);
        }
        states.iter().find_map(|state| {
            let code = self.host.state_after(*state).ok()?.code(*hash).ok()?;
            let code = code.original_bytes();
            // A host that does not know the hash may answer with no code.
            (!code.is_empty()).then_some(code)
        })
    }

    /// A kept result, or the one that `write` makes of what the block changed.
    pub(crate) async fn kept_of_block(
        self: &Arc<Self>,
        view: &'static str,
        at: BlockRef,
        options: String,
        want: Want,
        write: impl FnOnce(&Self, &Whole) -> Result<Rope, RpcError> + Send + 'static,
    ) -> Result<Answer, RpcError> {
        let key = ReplyKey { block_hash: at.hash, view, options: options.into() };
        self.kept(&key, || self.with_whole(at, want, write)).await
    }

    /// A kept result, or the one that `work` makes of the block by executing it on a permit.
    pub(crate) async fn kept_executed(
        self: &Arc<Self>,
        view: &'static str,
        at: BlockRef,
        options: String,
        work: impl FnOnce(&Arc<Self>, &RecoveredBlock, &Cancel) -> Result<Rope, RpcError>
        + Send
        + 'static,
    ) -> Result<Answer, RpcError> {
        let key = ReplyKey { block_hash: at.hash, view, options: options.into() };
        self.kept(&key, || {
            let shared = Arc::clone(self);
            self.execute(move |cancel| {
                let block = shared.by_hash(at.hash)?;
                work(&shared, &block, cancel)
            })
        })
        .await
    }

    /// A kept result, or the one that `make` makes.
    pub(crate) async fn kept<F>(
        &self,
        key: &ReplyKey,
        make: impl FnOnce() -> F,
    ) -> Result<Answer, RpcError>
    where
        F: Future<Output = Result<Rope, RpcError>>,
    {
        let started = Instant::now();
        let (rope, outcome) = self.cache.get_or_compute(key, make).await?;
        let outcome = from_cache(outcome);
        let execute = match outcome {
            Outcome::Miss => started.elapsed(),
            _ => Duration::ZERO,
        };
        let timing = Timing { execute, encode: Duration::ZERO };
        Ok(Answer { reply: Reply::Whole(rope), outcome, timing })
    }

    /// Does something with what a block changed: at once where that is known, else on a permit.
    pub(crate) async fn with_whole<T: Send + 'static>(
        self: &Arc<Self>,
        at: BlockRef,
        want: Want,
        work: impl FnOnce(&Self, &Whole) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let trusted = match self.settled(at, want).await? {
            Settled::Known(whole) => return self.read(move |shared| work(shared, &whole)).await,
            Settled::DiffOnly(block) => Some(block),
            Settled::Unknown => None,
        };
        let shared = Arc::clone(self);
        self.execute(move |cancel| {
            let block = shared.by_hash(at.hash)?;
            let mut replayed = shared.replayed(&block, cancel)?;
            let mut checked = check(&replayed.facts, &replayed.diff.diff);
            if let Some(trusted) = trusted {
                checked = checked.and_then(|_| check(&replayed.facts, trusted.diff()));
            }
            match checked {
                // Of an account that was cleared as a whole the parts know more slots than the
                // bundle, and the archive keeps the parts: one answer wherever it comes from.
                Ok(folded) => replayed.diff.diff = folded,
                Err(fault) if want == Want::Parts => return Err(fault),
                Err(_) => {}
            }
            work(&shared, &Whole::Replayed(Box::new(replayed)))
        })
        .await
    }

    /// What a block changed, if it is known; `None` where it would have to be executed.
    pub(crate) async fn known_whole(
        self: &Arc<Self>,
        at: BlockRef,
        want: Want,
    ) -> Result<Option<Whole>, RpcError> {
        Ok(match self.settled(at, want).await? {
            Settled::Known(whole) => Some(whole),
            Settled::DiffOnly(_) | Settled::Unknown => None,
        })
    }

    async fn settled(self: &Arc<Self>, at: BlockRef, want: Want) -> Result<Settled, RpcError> {
        let pipeline = self.known.pipeline.as_ref();
        let published = match pipeline.and_then(|pipeline| pipeline.recent_block(&at.hash)) {
            Some(block) => Some(block),
            None if self.known.archive.is_some() => {
                self.read(move |shared| shared.known.published(&at.hash)).await?
            }
            None => None,
        };
        let Some(block) = published else { return Ok(Settled::Unknown) };
        if want == Want::Diff {
            return Ok(Settled::Known(Whole::Known { block, facts: None }));
        }
        match block.facts().await {
            Ok(facts) => Ok(Settled::Known(Whole::Known { block, facts: Some(facts) })),
            // They were found wrong: executing the block once more would not make them right.
            Err(fault @ (BlockFailure::Invariant(_) | BlockFailure::Header(_))) => {
                error!(target: "prestate::rpc", %fault, "transaction diffs are not served");
                Err(do_not_add_up(at))
            }
            Err(_) => Ok(Settled::DiffOnly(block)),
        }
    }

    /// Replays a block; what it changed as a whole comes from its bundle.
    fn replayed(&self, block: &RecoveredBlock, cancel: &Cancel) -> Result<ReplayedBlock, RpcError> {
        let parent = || self.host.state_after(block.parent_hash).map_err(faults::state);
        let execution = Execution { spec: self.host.spec(), block };
        let mut txs = Vec::with_capacity(block.body().transactions.len());
        let mut clock = Clock::new(Duration::MAX, cancel);
        let mut replayed = replay(execution, parent()?, &mut clock, |tx, _| {
            txs.push(tx);
            cancel.check()
        })
        .map_err(faults::replay)?;
        let diff = replayed.block_diff(&*parent()?).map_err(faults::replay)?;
        let facts = replayed.facts(txs);
        Ok(ReplayedBlock { replayed, diff, facts })
    }
}

/// Holds the parts against the whole: transaction diffs that do not add up are never served.
fn check(facts: &BlockFacts, whole: &StateDiff) -> Result<StateDiff, RpcError> {
    check_invariant(facts, whole).map_err(|fault| {
        error!(target: "prestate::rpc", %fault, "invariant broken");
        do_not_add_up(facts.summary.block)
    })
}

fn do_not_add_up(block: BlockRef) -> RpcError {
    RpcError::server(format!(
        "transaction diffs of block {block} do not add up to its block diff and are not served"
    ))
}

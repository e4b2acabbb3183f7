use crate::{BlockFailure, error::panic_message, metrics};
use alloy_primitives::B256;
use prestate_diff::{Execution, block_diff, check_invariant, replay};
use prestate_host::{BundleSlice, Host, RecoveredBlock, check_header, summary};
use prestate_store::EncodedBlock;
use prestate_types::{BlockFacts, BlockRef, BlockSummary, Codes, StateDiff};
use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

/// Pauses between the attempts made at once. A node may announce a block a moment before its
/// state can be read (reth #8696).
const QUICK_PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

/// What a block as a whole changed, from what the node committed.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) summary: BlockSummary,
    pub(crate) diff: StateDiff,
    /// Those the node's commit brings, not all that the diff speaks of.
    pub(crate) codes: Codes,
    /// A state that has the others.
    pub(crate) run_parent: B256,
}

/// A block executed again and found right.
#[derive(Debug)]
pub(crate) struct TracedBlock {
    pub(crate) facts: Arc<BlockFacts>,
    /// Every code the facts and the diff speak of.
    pub(crate) codes: Codes,
    pub(crate) diff: StateDiff,
    pub(crate) encoded: EncodedBlock,
}

/// A block's bundle with the state it stands on.
#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    pub(crate) slice: BundleSlice,
    /// Parent of the first block of the run the bundle is of.
    pub(crate) run_parent: B256,
}

/// The block diff of a committed block. `None` where the state it needs cannot be read (yet), or
/// where an account was cleared as a whole (before Cancun), whose slots a bundle need not name: the
/// block is then executed for it.
pub(crate) fn given(host: &dyn Host, block: &RecoveredBlock, bundle: &Bundle) -> Option<Given> {
    let started = Instant::now();
    let read = || {
        let parent = host.state_after(bundle.run_parent)?;
        let mut codes = Codes::default();
        let diff = block_diff(&bundle.slice.bundle, bundle.slice.index, &*parent, &mut codes)?;
        let (summary, run_parent) = (summary(block), bundle.run_parent);
        Ok::<_, prestate_host::StateError>(Given { summary, diff, codes, run_parent })
    };
    let given = catch_unwind(AssertUnwindSafe(read));
    metrics::stage("block_diff", started.elapsed());
    match given {
        Ok(Ok(given)) if given.diff.iter().any(|(_, delta)| delta.wiped) => None,
        Ok(Ok(given)) => Some(given),
        Ok(Err(error)) => {
            let block = summary(block).block;
            tracing::debug!(%block, %error, "no block diff from the bundle, executing instead");
            None
        }
        Err(panic) => {
            metrics::count(metrics::PANICS, 1);
            let block = summary(block).block;
            tracing::error!(%block, panic = panic_message(&*panic), "reading a bundle panicked");
            None
        }
    }
}

/// [`trace`], tried a few times in quick succession.
pub(crate) fn trace_patiently(
    host: &dyn Host,
    block: BlockRef,
    held: Option<Arc<RecoveredBlock>>,
    committed: Option<&StateDiff>,
) -> Result<TracedBlock, BlockFailure> {
    let mut pauses = QUICK_PAUSES.iter();
    loop {
        let failure = match trace(host, block, held.clone(), committed) {
            Ok(traced) => return Ok(traced),
            Err(failure) => failure,
        };
        metrics::count(metrics::FAILURES, 1);
        match pauses.next() {
            Some(pause) => std::thread::sleep(*pause),
            None => return Err(failure),
        }
    }
}

/// Executes a block on its parent's state and holds the result against its header, and against
/// what the node committed, or else what the execution itself did.
pub(crate) fn trace(
    host: &dyn Host,
    block: BlockRef,
    held: Option<Arc<RecoveredBlock>>,
    committed: Option<&StateDiff>,
) -> Result<TracedBlock, BlockFailure> {
    let run = || unguarded(host, block, held, committed);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        metrics::count(metrics::PANICS, 1);
        Err(BlockFailure::Panic { block, message: panic_message(&*panic) })
    })
}

fn unguarded(
    host: &dyn Host,
    at: BlockRef,
    held: Option<Arc<RecoveredBlock>>,
    committed: Option<&StateDiff>,
) -> Result<TracedBlock, BlockFailure> {
    let block = match held {
        Some(block) => block,
        None => host.block(at.hash)?.ok_or(BlockFailure::UnknownBlock(at))?,
    };
    let started = Instant::now();
    let execution = Execution { spec: host.spec(), block: &block };
    let parent = block.parent_hash;
    let mut txs = Vec::with_capacity(block.body().transactions.len());
    let mut replayed = replay(execution, host.state_after(parent)?, &mut (), |tx, _| {
        txs.push(tx);
        ControlFlow::Continue(())
    })?;
    let state = host.state_after(parent)?;
    // Also for the codes that the diff speaks of.
    let own = match committed {
        Some(_) => replayed.bundle_diff(&*state)?.diff,
        None => replayed.block_diff(&*state)?.diff,
    };
    // The header's roots and what is made of the parts need nothing of each other, and consumers
    // wait for both: 1.0 and 1.5 ms of a 4.6 MB block.
    let (spec, replayed_block, outcome) = (host.spec(), &block, replayed.finished.outcome());
    let (header, made) = std::thread::scope(|scope| {
        let header = scope.spawn(|| check_header(spec, replayed_block, outcome));
        let made = made(at, replayed.facts(txs), committed.unwrap_or(&own));
        (header.join(), made)
    });
    metrics::stage("execute", started.elapsed());
    header.unwrap_or_else(|panic| resume_unwind(panic))?;
    let Made { facts, diff, encoded } = made?;
    Ok(TracedBlock { facts: facts.into(), codes: replayed.codes, diff, encoded })
}

/// What is kept of an execution.
struct Made {
    facts: BlockFacts,
    diff: StateDiff,
    encoded: EncodedBlock,
}

/// The parts held against the whole, and their record.
fn made(at: BlockRef, facts: BlockFacts, whole: &StateDiff) -> Result<Made, BlockFailure> {
    // As the parts have it, which the archive keeps.
    let diff = check_invariant(&facts, whole)?;
    let started = Instant::now();
    let encoded = EncodedBlock::of_facts(&facts)
        .map_err(|source| BlockFailure::Record { block: at, source })?;
    metrics::stage("encode", started.elapsed());
    Ok(Made { facts, diff, encoded })
}

/// Says what went wrong with a block, with both sides where two were compared.
pub(crate) fn report(block: BlockRef, failure: &BlockFailure) {
    match failure {
        BlockFailure::Invariant(error) => {
            metrics::count(metrics::VIOLATIONS, 1);
            tracing::error!(
                %block, mismatch = %error.mismatch,
                "transaction diffs (left) do not add up to the block diff (right), not kept",
            );
        }
        failure => tracing::warn!(%block, %failure, "block failed, will be tried again"),
    }
}

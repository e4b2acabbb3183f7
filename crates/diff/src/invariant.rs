use crate::InvariantError;
use prestate_types::{BlockFacts, StateDiff};

/// Holds the parts of a block against each other and the whole: each part starts from what the
/// ones before it left, and put together they are the committed change.
pub fn check_invariant(facts: &BlockFacts, whole: &StateDiff) -> Result<(), InvariantError> {
    let mismatch = match StateDiff::fold_adjacent(facts.parts()) {
        Ok(folded) => folded.first_mismatch(whole),
        Err(mismatch) => Some(mismatch),
    };
    mismatch.map_or(Ok(()), |mismatch| Err(InvariantError { block: facts.summary.block, mismatch }))
}

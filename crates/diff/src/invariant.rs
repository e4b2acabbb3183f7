use crate::InvariantError;
use prestate_types::{BlockFacts, StateDiff};

/// Holds the parts of a block against each other and the whole: each part starts from what the
/// ones before it left, and put together they are the committed change. Returned is what they are
/// put together: of an account that was cleared as a whole they may know more slots than `whole`.
pub fn check_invariant(facts: &BlockFacts, whole: &StateDiff) -> Result<StateDiff, InvariantError> {
    let at = facts.summary.block;
    let failed = |mismatch| InvariantError { block: at, mismatch };
    let folded = StateDiff::fold_adjacent(facts.parts()).map_err(failed)?;
    match folded.first_mismatch(whole) {
        Some(mismatch) => Err(failed(mismatch)),
        None => Ok(folded),
    }
}

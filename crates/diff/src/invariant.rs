use crate::InvariantError;
use prestate_types::{BlockFacts, StateDiff};

/// Holds the parts of a block against the whole: system calls, transactions and what follows them,
/// put together, must be the committed change.
pub fn check_invariant(facts: &BlockFacts, whole: &StateDiff) -> Result<(), InvariantError> {
    match facts.fold().first_mismatch(whole) {
        Some(mismatch) => Err(InvariantError { block: facts.summary.block, mismatch }),
        None => Ok(()),
    }
}

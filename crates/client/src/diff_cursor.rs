//! Where a reader of diffs is, and whether the next message follows on. No I/O.

use prestate_rpc_api::{DiffMessage, StreamedBlock};
use prestate_types::BlockRef;

/// The block whose state the reader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiffCursor {
    pub(crate) at: BlockRef,
}

impl DiffCursor {
    /// Moves over a message. `Err` says why it does not follow on; nothing moved then.
    pub(crate) fn step(&mut self, message: &DiffMessage) -> Result<(), String> {
        let at = self.at;
        match message {
            DiffMessage::Commit(StreamedBlock { block, .. }) if block.parent_hash == at.hash => {
                self.at = block.block();
                Ok(())
            }
            DiffMessage::Revert(StreamedBlock { block, .. }) if block.hash == at.hash => {
                self.at = BlockRef::new(block.number.saturating_sub(1), block.parent_hash);
                Ok(())
            }
            DiffMessage::Commit(StreamedBlock { block, .. }) => {
                Err(format!("block {} does not follow block {at}", block.block()))
            }
            DiffMessage::Revert(StreamedBlock { block, .. }) => {
                Err(format!("block {} goes, the newest one is {at}", block.block()))
            }
            // The end, whatever its reason.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use prestate_rpc_api::{BlockHead, StreamedDiff};

    fn block(number: u64, hash: u8, parent: u8) -> StreamedBlock {
        let (hash, parent_hash) = (B256::with_last_byte(hash), B256::with_last_byte(parent));
        let diff = StreamedDiff::Block { pre: Default::default(), post: Default::default() };
        StreamedBlock { block: BlockHead { number, hash, parent_hash, timestamp: 0 }, diff }
    }

    #[test]
    fn commits_and_reverts_follow_on_or_are_told() {
        let mut cursor = DiffCursor { at: BlockRef::new(5, B256::with_last_byte(5)) };
        let commit = |block| DiffMessage::Commit(block);
        cursor.step(&commit(block(6, 6, 5))).unwrap();
        cursor.step(&DiffMessage::Revert(block(6, 6, 5))).unwrap();
        assert_eq!(cursor.at, BlockRef::new(5, B256::with_last_byte(5)));
        assert!(cursor.step(&commit(block(7, 7, 6))).unwrap_err().contains("does not follow"));
        let other = DiffMessage::Revert(block(5, 55, 4));
        assert!(cursor.step(&other).unwrap_err().contains("the newest one is 5"));
        assert_eq!(cursor.at.number, 5, "nothing moved");
    }
}

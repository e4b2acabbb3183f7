use crate::{
    ChainSpec, HostError, Notifications, RecoveredBlock, StateError, StateReader, TxPlace,
};
use alloy_primitives::B256;
use prestate_types::BlockRef;
use std::{fmt, sync::Arc};

/// What a host says of itself, for `prestate_status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInfo {
    /// Kind of host: `reth`, `dev`, `replay`, `chain`.
    pub kind: &'static str,
    /// Version of the program behind it.
    pub version: String,
}

/// The node behind the product.
///
/// # Contract
///
/// 1. **The hash decides.** A block is known by its hash; a number is looked up to a hash at the
///    moment of asking and may answer differently later.
/// 2. **State is that after a block.** To execute a block, ask for the state after its parent.
///    [`StateError::UnknownBlock`], [`StateError::Pruned`] and [`StateError::NotHeld`] are told
///    apart. Pruning may also show at the first read.
/// 3. **State is immutable.** Two reads of the same key after the same hash give the same value,
///    whatever happens to the chain in between.
/// 4. **Blocks come with senders**, recovered by the rules of their time (before Homestead a
///    high `s` is valid), whether canonical or not.
/// 5. **`None` means not known**, an error means that the host could not look. A repeated call
///    with the same hash gives the same block.
/// 6. **Notifications describe the canonical chain in order**, but may repeat, overlap and skip:
///    who listens checks parent hashes and heals gaps by asking for blocks. Block and parent state
///    of a committed block can be asked for once its notification is out.
/// 7. **One listener.** [`Host::notifications`] hands the stream out once; afterwards `None`.
///    A host that never changes (block files) hands out a stream that is closed.
/// 8. **`ack` is a floor**: everything up to that block is kept by us and need not be sent again
///    after a restart. It may go down after a reorg. It never blocks and never fails.
/// 9. **Any thread, no long waits.** Methods may block on the host's database, not on the network.
pub trait Host: fmt::Debug + Send + Sync + 'static {
    /// Kind and version.
    fn info(&self) -> HostInfo;

    /// Chain id, hardforks, blob parameters.
    fn spec(&self) -> &Arc<ChainSpec>;

    /// The newest canonical block.
    fn head(&self) -> Result<BlockRef, HostError>;

    /// The newest safe block, if the host knows of one.
    fn safe(&self) -> Result<Option<BlockRef>, HostError>;

    /// The newest finalized block, if the host knows of one.
    fn finalized(&self) -> Result<Option<BlockRef>, HostError>;

    /// The oldest block the host can answer for.
    fn earliest(&self) -> Result<BlockRef, HostError>;

    /// Hash of the canonical block of this number, `None` above the head or where not known.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, HostError>;

    /// A block, canonical or not.
    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, HostError>;

    /// Where a transaction stands on the canonical chain.
    fn transaction(&self, hash: B256) -> Result<Option<TxPlace>, HostError>;

    /// The state after a block.
    fn state_after(&self, hash: B256) -> Result<Box<dyn StateReader>, StateError>;

    /// The stream of changes to the canonical chain, once.
    fn notifications(&self) -> Option<Notifications>;

    /// Everything up to this block is durable with us.
    fn ack(&self, block: BlockRef);
}

use crate::{StartError, chain::Chain};
use prestate_host::Host;
use prestate_store::ArchiveReader;
use prestate_types::BlockRef;

/// Heights missing in the archive's chain that are done again at a start. More than that was left
/// out on purpose: the chain then begins above.
const MAX_MISSING: u64 = 1024;

/// The chain a pipeline goes on from.
#[derive(Debug, Default)]
pub(crate) struct OwnChain {
    pub(crate) chain: Chain,
    /// Blocks of it that the archive lacks.
    pub(crate) missing: Vec<BlockRef>,
}

impl OwnChain {
    /// Reads the upper end of the archive's chain, and closes its gaps with the host's.
    pub(crate) fn read(
        host: &dyn Host,
        archive: Option<&ArchiveReader>,
    ) -> Result<Self, StartError> {
        let Some(archive) = archive else { return Ok(Self::default()) };
        let Some((lowest, tip)) = archive.range()? else { return Ok(Self::default()) };
        let mut first = tip.number.saturating_sub(Chain::window() as u64 - 1).max(lowest.number);
        let mut missing = Vec::new();
        for gap in archive.gaps(first..=tip.number)?.into_iter().rev() {
            let heights = gap.end() - gap.start() + 1;
            // A gap that the host does not close stays one.
            let closed = (heights + missing.len() as u64 <= MAX_MISSING)
                .then(|| Self::closing(host, archive, gap.clone()))
                .flatten();
            match closed {
                Some(blocks) => missing.extend(blocks),
                None => {
                    first = gap.end() + 1;
                    break;
                }
            }
        }
        let held = archive.canonical_blocks(first..=tip.number, Chain::window())?;
        let chain = Chain::new(held.into_iter().chain(missing.iter().copied()));
        Ok(Self { chain, missing })
    }

    /// The host's blocks in a gap, if they fit what lies around it.
    fn closing(
        host: &dyn Host,
        archive: &ArchiveReader,
        gap: std::ops::RangeInclusive<u64>,
    ) -> Option<Vec<BlockRef>> {
        let above = archive.canonical_hash(gap.end() + 1).ok()??;
        let below = archive.canonical_hash(gap.start().checked_sub(1)?).ok()??;
        let mut blocks = Vec::new();
        let mut hash = archive.summary(&above).ok()??.parent_hash;
        for number in gap.rev() {
            blocks.push(BlockRef::new(number, hash));
            hash = host.block(hash).ok()??.parent_hash;
        }
        (hash == below).then_some(blocks)
    }
}

use super::ArchiveBenchError;
use alloy_primitives::{B256, keccak256};
use prestate_diff::{Execution, replay};
use prestate_host::ChainSpec;
use prestate_host_embedded::BlockFile;
use prestate_types::{BlockFacts, BlockRef, Codes};
use std::{ops::ControlFlow, sync::Arc};

/// What the pipeline hands the archive of a block.
pub(super) struct Sample {
    pub(super) facts: BlockFacts,
    pub(super) codes: Codes,
}

pub(super) fn samples(
    spec: &ChainSpec,
    files: Vec<BlockFile>,
) -> Result<Vec<Sample>, ArchiveBenchError> {
    let mut samples = Vec::with_capacity(files.len());
    for file in files {
        let parent = Arc::new(file.prestate);
        let mut txs = Vec::new();
        let execution = Execution { spec, block: &file.block };
        let mut replayed = replay(execution, Arc::clone(&parent), &mut (), |tx, _| {
            txs.push(tx);
            ControlFlow::Continue(())
        })?;
        // Brings the codes of accounts that only the system parts touch.
        replayed.bundle_diff(&parent)?;
        let facts = replayed.facts(txs);
        samples.push(Sample { facts, codes: replayed.codes });
    }
    Ok(samples)
}

/// The same changes at another height.
pub(super) fn moved(sample: &Sample, number: u64, parent_hash: B256) -> BlockFacts {
    let mut facts = sample.facts.clone();
    facts.summary.block = BlockRef::new(number, keccak256(number.to_be_bytes()));
    facts.summary.parent_hash = parent_hash;
    for tx in &mut facts.txs {
        tx.hash = keccak256([tx.hash.as_slice(), &number.to_be_bytes()].concat());
    }
    facts
}

//! The way back from a new head to a block that is known, by parent hashes.

use crate::{
    Fault, Situation,
    endpoint::Endpoint,
    header::{Header, linked},
    ledger::Ledger,
};
use alloy_network::Network;
use alloy_primitives::U64;
use alloy_provider::Provider;
use prestate_types::BlockRef;

/// Headers asked for in one batch.
const HEADERS_IN_A_BATCH: u64 = 32;

/// Blocks from a known one to the head.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// The newest known block below; `None` if none was found within the bounds.
    pub(crate) ancestor: Option<BlockRef>,
    /// Oldest first, the head last.
    pub(crate) headers: Vec<Header>,
}

impl Path {
    /// Whether known blocks were dropped on the way.
    pub(crate) fn is_reorg(&self, known: BlockRef) -> bool {
        self.ancestor != Some(known)
    }

    /// Blocks that have something to trace.
    pub(crate) fn traceable(&self) -> u64 {
        self.headers.iter().filter(|header| header.is_traceable()).count() as u64
    }

    /// What is left to be paid for on this path: its headers are there already.
    pub(crate) fn situation(&self, rest: Situation) -> Situation {
        Situation { blocks: self.traceable(), headers: 0, read_headers: 0, ..rest }
    }
}

/// Walks back from `head`. Heights above the known head are asked for by number, many at once, and
/// held against the parent hashes; others one by one by hash.
pub(crate) async fn walk<P: Provider<N>, N: Network>(
    endpoint: &Endpoint<P, N>,
    ledger: &Ledger,
    head: Header,
    max_blocks: u64,
) -> Result<Path, Fault> {
    let oldest = ledger.oldest().map_or(0, |block| block.number);
    let known = ledger.head().map_or(0, |block| block.number);
    let mut newest_first = vec![head];
    let ancestor = loop {
        let Some(last) = newest_first.last() else { break None };
        if ledger.knows(&last.parent_hash) {
            break Some(BlockRef::new(last.number().saturating_sub(1), last.parent_hash));
        }
        if last.number() <= oldest + 1 || newest_first.len() as u64 >= max_blocks {
            break None;
        }
        let above = last.number().saturating_sub(known + 1).min(HEADERS_IN_A_BATCH);
        let mut next = Vec::new();
        if above > 1 {
            let numbers = (last.number() - above..last.number()).rev();
            let calls: Vec<_> = numbers
                .map(|number| ("eth_getBlockByNumber", (U64::from(number), false)))
                .collect();
            let answers = endpoint.batch::<_, Option<Header>>(calls).await;
            // What was not answered is asked for by hash below.
            let found = answers.unwrap_or_default().into_iter();
            let found = found.map_while(|answer| answer.ok().flatten());
            next = linked(last, found.collect());
        }
        if next.is_empty() {
            next.push(endpoint.header(last.parent_hash).await?);
        }
        newest_first.extend(next);
    };
    newest_first.reverse();
    Ok(Path { ancestor, headers: newest_first })
}

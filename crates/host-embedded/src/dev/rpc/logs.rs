//! Logs of blocks.

use super::{Answer, DevRpc, fault, receipts::block_logs};
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::B256;
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use jsonrpsee::types::Params;
use prestate_host::RecoveredBlock;

/// Logs of one answer; more is an error.
const MAX_LOGS: usize = 100_000;
/// Addresses or topics of a filter (Geth `maxTopics`, `LogQueryLimit`).
const MAX_TOPICS: usize = 1_000;

impl DevRpc {
    pub(super) fn logs(&self, params: &Params<'_>) -> Answer<Vec<Log>> {
        self.logs_of(&params.one()?)
    }

    /// What a filter matches in the blocks it names.
    pub(super) fn logs_of(&self, filter: &Filter) -> Answer<Vec<Log>> {
        check(filter)?;
        let mut found = Vec::new();
        let (from, to) = match &filter.block_option {
            FilterBlockOption::AtBlockHash(hash) => {
                let block = self.by_hash(*hash)?.ok_or_else(|| fault::server("unknown block"))?;
                self.add_logs(filter, &block, &mut found);
                return Ok(found);
            }
            FilterBlockOption::Range { from_block, to_block } => (*from_block, *to_block),
        };
        let head = self.chain.head_block().map_err(fault::state)?.number;
        let number = |tag: Option<BlockNumberOrTag>| -> Answer<u64> {
            Ok(self.number(tag.unwrap_or_default())?.unwrap_or(head))
        };
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(fault::invalid("invalid block range params"));
        }
        for number in from..=to.min(head) {
            // A reorg may have taken blocks away meanwhile.
            let Some(block) = self.canonical(number)? else { break };
            self.add_logs(filter, &block, &mut found);
            if found.len() > MAX_LOGS {
                return Err(fault::limit("logs", MAX_LOGS as u64, found.len() as u64));
            }
        }
        Ok(found)
    }

    /// A block's logs that match.
    pub(super) fn add_logs(&self, filter: &Filter, block: &RecoveredBlock, found: &mut Vec<Log>) {
        if !filter.matches_bloom(block.logs_bloom) {
            return;
        }
        let receipts = self.receipts_of(block);
        let mut before = 0;
        for (index, receipt) in receipts.iter().enumerate() {
            if receipt.logs.iter().any(|log| filter.matches(log)) {
                let logs = block_logs(block, index, receipt, before);
                found.extend(logs.into_iter().filter(|log| filter.matches(&log.inner)));
            }
            before += receipt.logs.len() as u64;
        }
    }

    /// A reverted block's logs that match, marked.
    pub(super) fn add_removed(&self, filter: &Filter, hash: B256, found: &mut Vec<Log>) {
        let Ok(Some(block)) = self.by_hash(hash) else { return };
        let mut logs = Vec::new();
        self.add_logs(filter, &block, &mut logs);
        found.extend(logs.into_iter().map(|log| Log { removed: true, ..log }));
    }
}

/// Bounds of a filter.
pub(super) fn check(filter: &Filter) -> Answer<()> {
    let most = |what, count: usize| {
        if count > MAX_TOPICS {
            return Err(fault::limit(what, MAX_TOPICS as u64, count as u64));
        }
        Ok(())
    };
    most("addresses", filter.address.len())?;
    filter.topics.iter().try_for_each(|topics| most("topics", topics.len()))
}

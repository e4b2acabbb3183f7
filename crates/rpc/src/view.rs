//! What a caller of the `prestate_*` methods wants to see.

use prestate_rpc_api::{CodeOption, DiffOptions, RpcError};
use prestate_types::{DiffFilter, FilterError, StateDiff, TxDiff};
use prestate_wire::CodeView;

/// What a caller wants to see.
#[derive(Debug, Clone)]
pub(crate) struct View {
    filter: DiffFilter,
    pub(crate) code: CodeView,
    limit: Option<u64>,
    pub(crate) system: bool,
}

impl View {
    pub(crate) fn of(options: DiffOptions) -> Result<Self, RpcError> {
        let filter = DiffFilter {
            addresses: options.addresses.map(|list| list.into_iter().collect()),
            slots: options
                .slots
                .into_iter()
                .map(|(address, slots)| (address, slots.into_iter().collect()))
                .collect(),
            no_storage: options.storage == Some(false),
        };
        filter.check().map_err(|fault| match fault {
            FilterError::TooManyAddresses { given, limit } => {
                RpcError::limit(fault.to_string(), "filterAddresses", limit as u64, given as u64)
            }
            FilterError::TooManySlots { given, limit } => {
                RpcError::limit(fault.to_string(), "filterSlots", limit as u64, given as u64)
            }
            _ => RpcError::invalid_params(fault.to_string()),
        })?;
        let code = match options.code {
            CodeOption::None => CodeView::None,
            CodeOption::Hash => CodeView::Hash,
            CodeOption::Full => CodeView::Full,
        };
        Ok(Self { filter, code, limit: options.limit, system: options.system })
    }

    /// What decides the bytes, in one way only: the sets are sorted.
    pub(crate) fn key(&self) -> String {
        format!("{:?} {:?} {:?} {}", self.filter, self.code, self.limit, self.system)
    }

    /// What passes the filter, refused if it is more than the caller's limit.
    pub(crate) fn filtered(&self, diff: &StateDiff) -> Result<StateDiff, RpcError> {
        let seen = self.filter.apply(diff);
        let given = (seen.len() + seen.slot_count()) as u64;
        match self.limit {
            Some(limit) if given > limit => Err(RpcError::limit(
                format!("the diff has {given} accounts and slots, the limit given is {limit}"),
                "limit",
                limit,
                given,
            )),
            _ => Ok(seen),
        }
    }

    pub(crate) fn filtered_tx(&self, tx: &TxDiff) -> Result<TxDiff, RpcError> {
        let diff = self.filtered(&tx.diff)?;
        Ok(TxDiff { hash: tx.hash, index: tx.index, diff, zero_reads: Vec::new() })
    }
}

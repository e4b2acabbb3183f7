//! `prestate_getStorage` and `prestate_getAccounts`: state read in-process.

use crate::{
    args::Args,
    block_param::BlockParam,
    faults,
    range::{account_state, within},
    rpc::Shared,
    service::Answer,
};
use alloy_primitives::Address;
use prestate_host::StateReader;
use prestate_rpc_api::{
    AccountQuery, AccountState, AccountsAt, CodeOption, MAX_READ_SLOTS, RpcError, SlotsByAccount,
};
use prestate_types::{KECCAK_EMPTY, MAX_FILTER_ADDRESSES};
use prestate_wire::{Rope, RopeBuilder};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

impl Shared {
    pub(crate) async fn storage(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let (param, slots): (_, SlotsByAccount) = block_and_query(params)?;
        within("readSlots", MAX_READ_SLOTS, slots.values().map(Vec::len).sum())?;
        let read = self.read(move |shared| shared.read_storage(param, &slots)).await?;
        Ok(Answer::uncached(read))
    }

    fn read_storage(&self, param: BlockParam, slots: &SlotsByAccount) -> Result<Rope, RpcError> {
        let at = self.locate_end(param)?;
        let state = self.host.state_after(at.hash).map_err(faults::state)?;
        let mut out = RopeBuilder::new();
        out.push("{\"block\":{\"number\":\"");
        out.push_quantity(at.number);
        out.push("\",\"hash\":\"");
        out.push_hex(at.hash.as_slice());
        out.push("\"},\"storage\":{");
        let mut before = "\"";
        for (address, slots) in slots {
            out.push(before);
            before = ",\"";
            out.push_hex(address.as_slice());
            out.push("\":{");
            let mut slots = slots.clone();
            slots.sort_unstable();
            slots.dedup();
            let values = state.storage_many(*address, &slots).map_err(faults::state)?;
            for (index, (slot, value)) in slots.iter().zip(values).enumerate() {
                out.push(if index == 0 { "\"" } else { ",\"" });
                out.push_hex(slot.as_slice());
                out.push("\":\"");
                out.push_hex(value.as_slice());
                out.push("\"");
            }
            out.push("}");
        }
        out.push("}}");
        Ok(out.finish())
    }

    pub(crate) async fn accounts(
        self: &Arc<Self>,
        params: Option<&RawValue>,
    ) -> Result<Answer, RpcError> {
        let (param, queries): (_, BTreeMap<Address, AccountQuery>) = block_and_query(params)?;
        if queries.len() > MAX_FILTER_ADDRESSES {
            return Err(RpcError::limit(
                format!(
                    "{} accounts were asked for, the limit is {MAX_FILTER_ADDRESSES}",
                    queries.len()
                ),
                "filterAddresses",
                MAX_FILTER_ADDRESSES as u64,
                queries.len() as u64,
            ));
        }
        let slots = queries.values().map(|query| query.slots.len()).sum();
        within("readSlots", MAX_READ_SLOTS, slots)?;
        let read = self
            .read(move |shared| {
                let at = shared.locate_end(param)?;
                let state = shared.host.state_after(at.hash).map_err(faults::state)?;
                let mut accounts = BTreeMap::new();
                for (address, query) in queries {
                    accounts.insert(address, read_account(&*state, address, query)?);
                }
                serde_json::to_string(&AccountsAt { block: at.into(), accounts })
                    .map_err(|error| faults::logged(&error))
            })
            .await?;
        Ok(Answer::uncached(read))
    }
}

/// A block, and what is asked of the state after it.
fn block_and_query<T: DeserializeOwned + Default>(
    params: Option<&RawValue>,
) -> Result<(BlockParam, T), RpcError> {
    let args = Args::cut(params)?;
    let param = BlockParam::any(&args, 0)?;
    args.required(1)?;
    let query = args.parsed(1)?.unwrap_or_default();
    args.end(2)?;
    Ok((param, query))
}

fn read_account(
    state: &dyn StateReader,
    address: Address,
    query: AccountQuery,
) -> Result<Option<AccountState>, RpcError> {
    let Some(info) = state.account(address).map_err(faults::state)? else { return Ok(None) };
    let mut account = account_state(&info);
    match query.code {
        CodeOption::None => account.code_hash = None,
        CodeOption::Hash => {}
        CodeOption::Full if info.code_hash == KECCAK_EMPTY => {
            account.code = Some(Default::default());
        }
        CodeOption::Full => {
            let code = state.code(info.code_hash).map_err(faults::state)?;
            account.code = Some(code.original_bytes());
        }
    }
    let values = state.storage_many(address, &query.slots).map_err(faults::state)?;
    account.storage = query.slots.into_iter().zip(values).collect();
    Ok(Some(account))
}

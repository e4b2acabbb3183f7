//! Messages that no block holds.

use super::{Answer, DevRpc, fault};
use crate::dev::call::CallSite;
use alloy_primitives::{Bytes, U64};
use alloy_rpc_types_eth::{
    AccessListResult, BlockOverrides, TransactionRequest, state::StateOverride,
};
use jsonrpsee::types::Params;
use prestate_host::Host;

impl DevRpc {
    /// The request and where it runs: `[request, block?, stateOverride?, blockOverride?]`.
    fn called(&self, params: &Params<'_>) -> Answer<(TransactionRequest, CallSite)> {
        let mut params = params.sequence();
        let request: TransactionRequest = params.next()?;
        let at = params.optional_next()?;
        let accounts: Option<StateOverride> = params.optional_next()?;
        let changed: Option<BlockOverrides> = params.optional_next()?;
        let spec = self.chain.spec();
        if let Some(have) = request.chain_id.filter(|have| *have != spec.chain_id()) {
            return Err(fault::server(format!(
                "chainId does not match node's (have={have}, want={})",
                spec.chain_id()
            )));
        }
        let (block, state) = self.site(at)?;
        let site = CallSite::new(spec, block.header(), state).overridden(accounts, changed);
        Ok((request, site))
    }

    pub(super) fn call(&self, params: &Params<'_>) -> Answer<Bytes> {
        let (request, site) = self.called(params)?;
        site.call(request).map_err(fault::call)
    }

    pub(super) fn estimate_gas(&self, params: &Params<'_>) -> Answer<U64> {
        let (request, site) = self.called(params)?;
        site.estimate(request).map(U64::from).map_err(fault::call)
    }

    pub(super) fn create_access_list(&self, params: &Params<'_>) -> Answer<AccessListResult> {
        let (request, site) = self.called(params)?;
        site.access_list(request).map_err(fault::call)
    }
}

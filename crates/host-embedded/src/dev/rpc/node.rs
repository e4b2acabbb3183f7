//! What the node is: versions, ids, peers.

use super::{Answer, DevRpc, fault};
use alloy_primitives::{Address, B256, Bytes, U64, keccak256};
use jsonrpsee::types::Params;
use prestate_host::Host;

impl DevRpc {
    pub(super) fn chain_id(&self, _params: &Params<'_>) -> Answer<U64> {
        Ok(U64::from(self.chain.spec().chain_id()))
    }

    pub(super) fn net_version(&self, _params: &Params<'_>) -> Answer<String> {
        Ok(self.chain.spec().chain_id().to_string())
    }

    pub(super) fn listening(&self, _params: &Params<'_>) -> Answer<bool> {
        Ok(true)
    }

    pub(super) fn peer_count(&self, _params: &Params<'_>) -> Answer<U64> {
        Ok(U64::ZERO)
    }

    pub(super) fn syncing(&self, _params: &Params<'_>) -> Answer<bool> {
        Ok(false)
    }

    pub(super) fn protocol_version(&self, _params: &Params<'_>) -> Answer<U64> {
        Ok(U64::from(68))
    }

    pub(super) fn client_version(&self, _params: &Params<'_>) -> Answer<String> {
        Ok(format!("prestate/v{}/dev", env!("CARGO_PKG_VERSION")))
    }

    pub(super) fn sha3(&self, params: &Params<'_>) -> Answer<B256> {
        let data: Bytes = params.one()?;
        Ok(keccak256(data))
    }

    pub(super) fn coinbase(&self, _params: &Params<'_>) -> Answer<Address> {
        Ok(self.chain.config().coinbase)
    }

    pub(super) fn block_number(&self, _params: &Params<'_>) -> Answer<U64> {
        let head = self.chain.head().map_err(|error| fault::server(error.to_string()))?;
        Ok(U64::from(head.number))
    }

    pub(super) fn accounts(&self, _params: &Params<'_>) -> Answer<Vec<Address>> {
        Ok(self.chain.accounts().addresses())
    }
}

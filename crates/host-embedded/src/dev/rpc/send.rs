//! Transactions on their way in.

use super::{
    Answer, DevRpc,
    blocks::{RpcTransaction, json, pending_transaction},
    fault,
};
use crate::dev::{DevError, admission::SentTx, build::next_base_fee, call::CallSite};
use alloy_consensus::{SignableTransaction, Transaction};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_signer::SignerSync;
use jsonrpsee::types::Params;
use prestate_host::{Host, StateReader};
use serde_json::{Map, Value, json};

/// The tip that is offered where none is named, in wei.
const TIP_WEI: u128 = 1_000_000_000;

impl DevRpc {
    pub(super) fn send_raw(&self, params: &Params<'_>) -> Answer<B256> {
        let raw: Bytes = params.one()?;
        self.chain.send_raw(&raw).map_err(fault::dev)
    }

    /// Completes a request, signs it with the sender's key and sends it.
    pub(super) fn send(&self, params: &Params<'_>) -> Answer<B256> {
        let tx = self.signed(params.one()?)?;
        self.chain.send(tx).map_err(fault::dev)
    }

    pub(super) fn sign_transaction(&self, params: &Params<'_>) -> Answer<Value> {
        let tx = self.signed(params.one()?)?;
        let raw = Bytes::from(tx.encoded_2718());
        Ok(json!({ "raw": raw, "tx": json(&tx)? }))
    }

    /// `eth_sign(address, data)`, EIP-191.
    pub(super) fn sign(&self, params: &Params<'_>) -> Answer<Bytes> {
        let (address, data): (Address, Bytes) = params.parse()?;
        let signer = self.chain.accounts().signer(address).ok_or_else(unknown)?;
        let signature =
            signer.sign_message_sync(&data).map_err(|error| fault::server(error.to_string()))?;
        Ok(signature.as_bytes().into())
    }

    fn signed(&self, mut request: TransactionRequest) -> Answer<SentTx> {
        let from = request.from.ok_or_else(unknown)?;
        let signer = self.chain.accounts().signer(from).ok_or_else(unknown)?;
        if request.gas_price.is_some()
            && (request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some())
        {
            return Err(fault::server(
                "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
            ));
        }
        let head = self.chain.head_block().map_err(fault::state)?;
        let state = self.chain.state(head.hash()).map_err(fault::state)?;
        if request.nonce.is_none() {
            let account = state.account(from).map_err(fault::state)?.unwrap_or_default();
            let next = self.chain.with_pool(|pool| pool.next_nonce(from, account.nonce));
            request.nonce = Some(next);
        }
        request.chain_id.get_or_insert(self.chain.spec().chain_id());
        if request.gas_price.is_none() {
            let tip = *request.max_priority_fee_per_gas.get_or_insert(TIP_WEI);
            let base_fee = u128::from(next_base_fee(head.header()));
            request.max_fee_per_gas.get_or_insert(2 * base_fee + tip);
        }
        if request.sidecar.is_some() && request.max_fee_per_blob_gas.is_none() {
            request.max_fee_per_blob_gas = Some(2 * self.next_blob_fee(&head));
        }
        request.populate_blob_hashes();
        if request.to.is_none() {
            request.to = Some(alloy_primitives::TxKind::Create);
        }
        if request.gas.is_none() {
            let site = CallSite::new(self.chain.spec(), head.header(), state);
            request.gas = Some(site.estimate(request.clone()).map_err(fault::call)?);
        }
        let tx = request
            .build_typed_tx()
            .map_err(|_| fault::invalid("fields of different transaction types"))?;
        let signature = signer
            .sign_hash_sync(&tx.signature_hash())
            .map_err(|error| fault::server(error.to_string()))?;
        Ok(tx.into_envelope(signature))
    }

    pub(super) fn pool_status(&self, _params: &Params<'_>) -> Answer<Value> {
        let (pending, queued) = self.pooled()?;
        Ok(json!({
            "pending": format!("{:#x}", pending.len()),
            "queued": format!("{:#x}", queued.len()),
        }))
    }

    pub(super) fn pool_content(&self, _params: &Params<'_>) -> Answer<Value> {
        let (pending, queued) = self.pooled()?;
        Ok(json!({ "pending": by_sender(&pending)?, "queued": by_sender(&queued)? }))
    }

    /// Transactions that can be executed now, and those behind a gap.
    fn pooled(&self) -> Answer<(Vec<RpcTransaction>, Vec<RpcTransaction>)> {
        let state = self.chain.head_state().map_err(fault::state)?;
        let nonce =
            |address| state.account(address).ok().flatten().map_or(0, |account| account.nonce);
        Ok(self.chain.with_pool(|pool| {
            pool.all().iter().map(|tx| pending_transaction(tx)).partition(|tx| {
                tx.nonce() < pool.next_nonce(tx.inner.signer(), nonce(tx.inner.signer()))
            })
        }))
    }
}

fn unknown() -> jsonrpsee::types::ErrorObjectOwned {
    fault::dev(DevError::UnknownAccount)
}

fn by_sender(txs: &[RpcTransaction]) -> Answer<Value> {
    let mut senders = Map::new();
    for tx in txs {
        let sender = tx.inner.signer().to_checksum(None);
        let entry = senders.entry(sender).or_insert_with(|| json!({}));
        entry[tx.nonce().to_string()] = json(tx)?;
    }
    Ok(senders.into())
}

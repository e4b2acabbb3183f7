//! Accounts and their storage.

use super::{Answer, DevRpc, fault};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::{EIP1186AccountProofResponse, EIP1186StorageProof};
use alloy_trie::TrieAccount;
use jsonrpsee::types::Params;
use prestate_host::StateReader;
use prestate_types::AccountInfo;

/// Slots of one `eth_getProof` (Geth `maxGetStorageSlots`).
const MAX_PROVED_SLOTS: usize = 1024;

impl DevRpc {
    fn account(&self, address: Address, at: Option<BlockId>) -> Answer<AccountInfo> {
        let (_, state) = self.site(at)?;
        Ok(state.account(address).map_err(fault::state)?.unwrap_or_default())
    }

    pub(super) fn balance(&self, params: &Params<'_>) -> Answer<U256> {
        let mut params = params.sequence();
        let (address, at) = (params.next()?, params.optional_next()?);
        Ok(self.account(address, at)?.balance)
    }

    pub(super) fn transaction_count(&self, params: &Params<'_>) -> Answer<U64> {
        let mut params = params.sequence();
        let (address, at): (Address, Option<BlockId>) = (params.next()?, params.optional_next()?);
        if at.is_some_and(|at| at.is_pending()) {
            // What the next transaction has to have: also after those that wait for a block.
            let nonce = self.account(address, None)?.nonce;
            return Ok(U64::from(self.chain.with_pool(|pool| pool.next_nonce(address, nonce))));
        }
        Ok(U64::from(self.account(address, at)?.nonce))
    }

    pub(super) fn code(&self, params: &Params<'_>) -> Answer<Bytes> {
        let mut params = params.sequence();
        let (address, at): (Address, _) = (params.next()?, params.optional_next()?);
        let (_, state) = self.site(at)?;
        let account = state.account(address).map_err(fault::state)?.unwrap_or_default();
        if !account.has_code() {
            return Ok(Bytes::new());
        }
        Ok(state.code(account.code_hash).map_err(fault::state)?.original_bytes())
    }

    pub(super) fn storage_at(&self, params: &Params<'_>) -> Answer<B256> {
        let mut params = params.sequence();
        let (address, slot): (Address, String) = (params.next()?, params.next()?);
        let (slot, _) = storage_key(&slot)?;
        let (_, state) = self.site(params.optional_next()?)?;
        state.storage(address, slot).map_err(fault::state)
    }

    pub(super) fn proof(&self, params: &Params<'_>) -> Answer<EIP1186AccountProofResponse> {
        let mut params = params.sequence();
        let (address, keys): (Address, Vec<String>) = (params.next()?, params.next()?);
        if keys.len() > MAX_PROVED_SLOTS {
            return Err(fault::limit("slots", MAX_PROVED_SLOTS as u64, keys.len() as u64));
        }
        let keys: Vec<_> = keys.iter().map(|key| storage_key(key)).collect::<Result<_, _>>()?;
        let (_, state) = self.site(params.optional_next()?)?;
        let slots: Vec<_> = keys.iter().map(|(slot, _)| *slot).collect();
        let proof = state.proof(address, &slots);
        let storage_proof = keys
            .into_iter()
            .zip(proof.slots)
            .map(|((slot, whole), (value, nodes))| EIP1186StorageProof {
                // As it was asked: a number or a whole word.
                key: if whole { slot.into() } else { U256::from_be_bytes(slot.0).into() },
                value: value.into(),
                proof: nodes,
            })
            .collect();
        // As Geth: of an account that does not exist, zero hashes.
        let absent = proof.account == TrieAccount::default();
        let hash = |hash| if absent { B256::ZERO } else { hash };
        Ok(EIP1186AccountProofResponse {
            address,
            balance: proof.account.balance,
            code_hash: hash(proof.account.code_hash),
            nonce: proof.account.nonce,
            storage_hash: hash(proof.account.storage_root),
            account_proof: proof.nodes,
            storage_proof,
        })
    }
}

/// A slot in hex, with or without leading zeros, and whether it is a whole word
/// (`internal/ethapi/api.go`, `decodeStorageKey`).
pub(super) fn storage_key(text: &str) -> Answer<(B256, bool)> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.len() > 64 {
        let bytes = digits.len().div_ceil(2);
        return Err(fault::invalid(format!(
            "storage key too long (want at most 32 bytes): {bytes} bytes"
        )));
    }
    format!("{digits:0>64}")
        .parse()
        .map(|slot| (slot, digits.len() == 64))
        .map_err(|_| fault::invalid("invalid hex in storage key"))
}

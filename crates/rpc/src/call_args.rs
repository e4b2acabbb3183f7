//! The call of `debug_traceCall`, read and completed as Geth does
//! (`internal/ethapi/transaction_args.go`).

mod decode;
mod overrides;

pub(crate) use overrides::{block_overrides, state_overrides, tx_index};

use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use decode::{Fault, Saved, address, big, bytes, each, fixed, hash, nullable, u64, u256, y_parity};
use prestate_diff::Message;
use serde_json::value::RawValue;

/// Gas that a call is given if it names none, and the most it gets (Geth `--rpc.gascap`).
pub(crate) const GAS_CAP: u64 = 50_000_000;

/// What a caller says of a call (Geth `ethapi.TransactionArgs`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CallArgs {
    from: Option<Address>,
    to: Option<Address>,
    gas: Option<u64>,
    gas_price: Option<U256>,
    max_fee_per_gas: Option<U256>,
    max_priority_fee_per_gas: Option<U256>,
    value: Option<U256>,
    nonce: Option<u64>,
    data: Option<Bytes>,
    input: Option<Bytes>,
    access_list: Option<AccessList>,
    chain_id: Option<U256>,
    blob_fee_cap: Option<U256>,
    blob_hashes: Option<Vec<B256>>,
    authorizations: Option<Vec<SignedAuthorization>>,
}

impl CallArgs {
    /// Reads the object.
    ///
    /// # Errors
    /// Go's text.
    pub(crate) fn parse(raw: &RawValue) -> Result<Self, String> {
        let mut args = Self::default();
        let mut saved = Saved::default();
        let read =
            decode::fields(raw, "ethapi.TransactionArgs", &mut saved, |key, value, saved| {
                args.field(key, value, saved)
            });
        let fault = read.err().or(saved.0);
        fault.map_or(Ok(args), |fault| Err(fault.in_struct("TransactionArgs").text()))
    }

    fn field(&mut self, key: &str, raw: &RawValue, saved: &mut Saved) -> Result<(), Fault> {
        match key {
            "from" => self.from = nullable(raw, "from", address)?,
            "to" => self.to = nullable(raw, "to", address)?,
            "gas" => self.gas = nullable(raw, "gas", u64)?,
            "gasprice" => self.gas_price = nullable(raw, "gasPrice", big)?,
            "maxfeepergas" => self.max_fee_per_gas = nullable(raw, "maxFeePerGas", big)?,
            "maxpriorityfeepergas" => {
                self.max_priority_fee_per_gas = nullable(raw, "maxPriorityFeePerGas", big)?;
            }
            "value" => self.value = nullable(raw, "value", big)?,
            "nonce" => self.nonce = nullable(raw, "nonce", u64)?,
            "data" => self.data = nullable(raw, "data", bytes)?,
            "input" => self.input = nullable(raw, "input", bytes)?,
            "accesslist" => {
                let tuples = each(raw, "accessList", "types.AccessList", saved, access_tuple)?;
                self.access_list = tuples.map(AccessList);
            }
            "chainid" => self.chain_id = nullable(raw, "chainId", big)?,
            "maxfeeperblobgas" => self.blob_fee_cap = nullable(raw, "maxFeePerBlobGas", big)?,
            "blobversionedhashes" => {
                self.blob_hashes = each(raw, "blobVersionedHashes", "[]common.Hash", saved, hash)?;
            }
            // Sidecars are read and not looked at.
            "blobs" => {
                let blob = |raw: &RawValue| fixed::<131_072>(raw, "kzg4844.Blob").map(drop);
                each(raw, "blobs", "[]kzg4844.Blob", saved, blob)?;
            }
            "commitments" => {
                let item = |raw: &RawValue| fixed::<48>(raw, "kzg4844.Commitment").map(drop);
                each(raw, "commitments", "[]kzg4844.Commitment", saved, item)?;
            }
            "proofs" => {
                let item = |raw: &RawValue| fixed::<48>(raw, "kzg4844.Proof").map(drop);
                each(raw, "proofs", "[]kzg4844.Proof", saved, item)?;
            }
            "authorizationlist" => {
                let go_type = "[]types.SetCodeAuthorization";
                self.authorizations =
                    each(raw, "authorizationList", go_type, saved, authorization)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The message, with everything filled in that was left out (Geth `CallDefaults`,
    /// `ToMessage`).
    ///
    /// # Errors
    /// Geth's text.
    pub(crate) fn into_message(
        self,
        base_fee: Option<u64>,
        chain_id: u64,
    ) -> Result<Message, String> {
        let has_caps = self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some();
        if self.gas_price.is_some() && has_caps {
            return Err("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".into());
        }
        if self.to.is_none() && self.blob_hashes.is_some() {
            return Err("blob transaction of type create".into());
        }
        if self.to.is_none() && self.authorizations.is_some() {
            return Err("EIP-7702 transaction cannot be used to create contract".into());
        }
        if let Some(have) = self.chain_id.filter(|have| *have != U256::from(chain_id)) {
            return Err(format!("chainId does not match node's (have={have}, want={chain_id})"));
        }
        if base_fee.is_none() && has_caps {
            return Err(
                "maxFeePerGas and maxPriorityFeePerGas are not valid before London is active"
                    .into(),
            );
        }
        let (gas_price, fee_cap, tip_cap) = match (self.gas_price, base_fee) {
            (Some(price), _) => (price, price, price),
            (None, None) => Default::default(),
            (None, Some(base_fee)) => {
                let cap = self.max_fee_per_gas.unwrap_or_default();
                let tip = self.max_priority_fee_per_gas.unwrap_or_default();
                let price = if cap.is_zero() && tip.is_zero() {
                    U256::ZERO
                } else {
                    // Go's addition wraps around.
                    tip.wrapping_add(U256::from(base_fee)).min(cap)
                };
                (price, cap, tip)
            }
        };
        let blob_fee_cap =
            self.blob_fee_cap.or_else(|| self.blob_hashes.is_some().then_some(U256::ZERO));
        Ok(Message {
            from: self.from.unwrap_or_default(),
            to: self.to,
            gas_limit: self.gas.unwrap_or(GAS_CAP).min(GAS_CAP),
            gas_price,
            fee_cap,
            tip_cap,
            value: self.value.unwrap_or_default(),
            data: self.input.or(self.data).unwrap_or_default(),
            access_list: self.access_list,
            blob_fee_cap,
            blob_hashes: self.blob_hashes,
            shows_authorizations: self.gas_price.is_none(),
            authorizations: self.authorizations,
        })
    }
}

fn missing(field: &str, go_struct: &str) -> Fault {
    Fault::other(format!("missing required field '{field}' for {go_struct}"))
}

fn access_tuple(raw: &RawValue) -> Result<AccessListItem, Fault> {
    let (mut to, mut keys) = (None, None);
    let mut saved = Saved::default();
    decode::fields(raw, "types.AccessTuple", &mut saved, |key, value, saved| {
        match key {
            "address" => to = nullable(value, "address", address)?,
            "storagekeys" => keys = each(value, "storageKeys", "[]common.Hash", saved, hash)?,
            _ => {}
        }
        Ok(())
    })?;
    saved.done()?;
    let address = to.ok_or_else(|| missing("address", "AccessTuple"))?;
    let storage_keys = keys.ok_or_else(|| missing("storageKeys", "AccessTuple"))?;
    Ok(AccessListItem { address, storage_keys })
}

fn authorization(raw: &RawValue) -> Result<SignedAuthorization, Fault> {
    let (mut chain_id, mut to, mut nonce, mut parity, mut r, mut s) =
        (None, None, None, None, None, None);
    let mut saved = Saved::default();
    decode::fields(raw, "types.SetCodeAuthorization", &mut saved, |key, value, _| {
        match key {
            "chainid" => chain_id = nullable(value, "chainId", u256)?,
            "address" => to = nullable(value, "address", address)?,
            "nonce" => nonce = nullable(value, "nonce", u64)?,
            "yparity" => parity = nullable(value, "yParity", y_parity)?,
            "r" => r = nullable(value, "r", u256)?,
            "s" => s = nullable(value, "s", u256)?,
            _ => {}
        }
        Ok(())
    })?;
    saved.done()?;
    let need = |field: &str| missing(field, "SetCodeAuthorization");
    let inner = Authorization {
        chain_id: chain_id.ok_or_else(|| need("chainId"))?,
        address: to.ok_or_else(|| need("address"))?,
        nonce: nonce.ok_or_else(|| need("nonce"))?,
    };
    let parity = parity.ok_or_else(|| need("yParity"))?;
    let (r, s) = (r.ok_or_else(|| need("r"))?, s.ok_or_else(|| need("s"))?);
    Ok(SignedAuthorization::new_unchecked(inner, parity, r, s))
}

//! `stateOverrides`, `blockOverrides` and `txIndex` of `debug_traceCall`
//! (Geth `internal/ethapi/override/override.go`).

use super::decode::{Fault, Saved, address, big, bytes, fields, hash, nullable, u64, uint};
use crate::trace_config::go_json::Value;
use alloy_primitives::{B256, U256};
use prestate_diff::{AccountOverride, BlockOverrides, StateOverrides};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const CONFIG: &str = "TraceCallConfig";

/// `txIndex`.
///
/// # Errors
/// Go's text.
pub(crate) fn tx_index(raw: Option<&RawValue>) -> Result<Option<u64>, String> {
    let read =
        |raw: &RawValue| uint(raw).map_err(|fault| fault.at("TxIndex").in_struct(CONFIG).text());
    raw.map(read).transpose()
}

/// `stateOverrides`.
///
/// # Errors
/// Go's text.
pub(crate) fn state_overrides(raw: Option<&RawValue>) -> Result<StateOverrides, String> {
    let mut saved = Saved::default();
    let mut overrides = StateOverrides::new();
    let read = raw.map_or(Ok(()), |raw| accounts(raw, &mut saved, &mut overrides));
    let fault = read.err().or(saved.0);
    fault.map_or(Ok(overrides), |fault| Err(fault.at("StateOverrides").in_struct(CONFIG).text()))
}

fn accounts(
    raw: &RawValue,
    saved: &mut Saved,
    overrides: &mut StateOverrides,
) -> Result<(), Fault> {
    entries(raw, "override.StateOverride", saved, |key, value, saved| {
        let account = account(value, saved)?;
        overrides.insert(address(key)?, account);
        Ok(())
    })
}

fn account(raw: &RawValue, saved: &mut Saved) -> Result<AccountOverride, Fault> {
    let mut account = AccountOverride::default();
    let mut inner = Saved::default();
    let read = fields(raw, "override.OverrideAccount", &mut inner, |key, value, inner| {
        let field = |fault: Fault| fault.in_struct("OverrideAccount");
        match key {
            "nonce" => account.nonce = nullable(value, "nonce", u64).map_err(field)?,
            "code" => account.code = nullable(value, "code", bytes).map_err(field)?,
            "balance" => account.balance = nullable(value, "balance", big).map_err(field)?,
            "state" => account.state = slots(value, "state", inner).map_err(field)?,
            "statediff" => account.state_diff = slots(value, "stateDiff", inner).map_err(field)?,
            "moveprecompiletoaddress" => {
                account.move_precompile_to =
                    nullable(value, "movePrecompileToAddress", address).map_err(field)?;
            }
            _ => {}
        }
        Ok(())
    });
    if let Some(fault) = inner.0 {
        saved.save(fault);
    }
    read.map(|()| account)
}

fn slots(
    raw: &RawValue,
    field: &str,
    saved: &mut Saved,
) -> Result<Option<BTreeMap<B256, B256>>, Fault> {
    if raw.get() == "null" {
        return Ok(None);
    }
    let mut slots = BTreeMap::new();
    let mut inner = Saved::default();
    let read = entries(raw, "map[common.Hash]common.Hash", &mut inner, |key, value, _| {
        let value = hash(value)?;
        slots.insert(hash(key)?, value);
        Ok(())
    });
    if let Some(fault) = inner.0 {
        saved.save(fault.at(field).in_struct("OverrideAccount"));
    }
    read.map(|()| Some(slots)).map_err(|fault| fault.at(field))
}

/// A map's entries with their keys as they stand, quotes and all; Go reads values before keys.
fn entries(
    raw: &RawValue,
    go_type: &'static str,
    saved: &mut Saved,
    mut each: impl FnMut(&RawValue, &RawValue, &mut Saved) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match Value::of(raw) {
        Value::Null => Ok(()),
        Value::Object(members) => {
            for (key, value) in members {
                let key = serde_json::value::to_raw_value(&key)
                    .map_err(|error| Fault::other(error.to_string()))?;
                each(&key, value, saved)?;
            }
            Ok(())
        }
        other => {
            saved.save(Fault::mismatch(other.name(), go_type));
            Ok(())
        }
    }
}

/// `blockOverrides`, and Geth's refusal if there is one that a trace cannot have.
///
/// # Errors
/// Go's text.
pub(crate) fn block_overrides(
    raw: Option<&RawValue>,
) -> Result<(BlockOverrides, Option<&'static str>), String> {
    let mut saved = Saved::default();
    let mut overrides = BlockOverrides::default();
    let mut refused = [None; 2];
    let read = raw.map_or(Ok(()), |raw| {
        fields(raw, "override.BlockOverrides", &mut saved, |key, value, saved| {
            block_field(&mut overrides, &mut refused, key, value, saved)
                .map_err(|fault| fault.in_struct("BlockOverrides"))
        })
    });
    let fault = read.err().or(saved.0);
    match fault {
        None => Ok((overrides, refused.into_iter().flatten().next())),
        Some(fault) => Err(fault.at("BlockOverrides").in_struct(CONFIG).text()),
    }
}

fn block_field(
    overrides: &mut BlockOverrides,
    refused: &mut [Option<&'static str>; 2],
    key: &str,
    raw: &RawValue,
    saved: &mut Saved,
) -> Result<(), Fault> {
    match key {
        "number" => overrides.number = nullable(raw, "Number", big)?,
        "difficulty" => overrides.difficulty = nullable(raw, "Difficulty", big)?,
        "time" => overrides.time = nullable(raw, "Time", u64)?,
        "gaslimit" => overrides.gas_limit = nullable(raw, "GasLimit", u64)?,
        "feerecipient" => overrides.fee_recipient = nullable(raw, "FeeRecipient", address)?,
        "prevrandao" => overrides.prev_randao = nullable(raw, "PrevRandao", hash)?,
        "basefeepergas" => overrides.base_fee = narrow(raw, "BaseFeePerGas", 64)?,
        "blobbasefee" => overrides.blob_base_fee = narrow(raw, "BlobBaseFee", 128)?,
        "beaconroot" => {
            refused[0] = nullable(raw, "BeaconRoot", hash)?
                .map(|_| "block override \"beaconRoot\" is not supported for this RPC method");
        }
        "withdrawals" => match Value::of(raw) {
            Value::Null => refused[1] = None,
            Value::Array => {
                refused[1] =
                    Some("block override \"withdrawals\" is not supported for this RPC method");
            }
            other => saved.save(
                Fault::mismatch(other.name(), "types.Withdrawals")
                    .at("Withdrawals")
                    .in_struct("BlockOverrides"),
            ),
        },
        _ => {}
    }
    Ok(())
}

/// Wei in fewer bits than Geth takes.
fn narrow<T: TryFrom<U256>>(raw: &RawValue, field: &str, bits: u32) -> Result<Option<T>, Fault> {
    let narrow = |wei: U256| {
        T::try_from(wei).map_err(|_| {
            Fault::other(format!("block override {field} of more than {bits} bits: {wei}"))
        })
    };
    nullable(raw, field, big)?.map(narrow).transpose()
}

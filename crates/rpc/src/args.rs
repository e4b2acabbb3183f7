//! Positional parameters, cut and checked in Geth's order and words (`rpc/json.go`).

use alloy_primitives::{B256, Bytes};
use prestate_rpc_api::RpcError;
use serde_json::value::RawValue;

/// The parameters of one call.
///
/// Geth decodes one by one and counts last, so that a wrong argument is named before one too many:
/// a method reads what it takes and then calls [`Args::end`].
#[derive(Debug)]
pub(crate) struct Args<'a>(Vec<&'a RawValue>);

impl<'a> Args<'a> {
    /// Cuts `params`; nothing and `null` are no arguments.
    pub(crate) fn cut(params: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let args = match params.map(|raw| raw.get().trim()) {
            None | Some("null") => Vec::new(),
            Some(text) if text.starts_with('[') => serde_json::from_str(text)
                .map_err(|error| RpcError::invalid_params(error.to_string()))?,
            Some(_) => return Err(RpcError::invalid_params("non-array args")),
        };
        Ok(Self(args))
    }

    /// Refuses more than `most` arguments.
    pub(crate) fn end(&self, most: usize) -> Result<(), RpcError> {
        if self.0.len() > most {
            return Err(RpcError::invalid_params(format!(
                "too many arguments, want at most {most}"
            )));
        }
        Ok(())
    }

    /// An argument that may be left out or null.
    pub(crate) fn optional(&self, at: usize) -> Option<&'a RawValue> {
        self.0.get(at).copied().filter(|raw| raw.get() != "null")
    }

    /// An argument that must be there.
    pub(crate) fn required(&self, at: usize) -> Result<&'a RawValue, RpcError> {
        self.optional(at).ok_or_else(|| {
            RpcError::invalid_params(format!("missing value for required argument {at}"))
        })
    }

    /// A 32-byte hash.
    pub(crate) fn hash(&self, at: usize) -> Result<B256, RpcError> {
        hash(self.required(at)?).map_err(|text| invalid(at, &text))
    }

    /// Bytes in hex.
    pub(crate) fn bytes(&self, at: usize) -> Result<Bytes, RpcError> {
        let go_type = "hexutil.Bytes";
        let text = string(self.required(at)?, go_type).map_err(|text| invalid(at, &text))?;
        hex_bytes(&text).map(Bytes::from).map_err(|text| invalid(at, &unmarshal(&text, go_type)))
    }

    /// An argument that serde reads.
    pub(crate) fn parsed<T: serde::de::DeserializeOwned>(
        &self,
        at: usize,
    ) -> Result<Option<T>, RpcError> {
        let Some(raw) = self.optional(at) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|error| invalid(at, &error.to_string()))
    }

    /// A boolean that may be left out.
    pub(crate) fn flag(&self, at: usize) -> Result<bool, RpcError> {
        Ok(self.parsed(at)?.unwrap_or_default())
    }
}

/// -32602 for an argument.
pub(crate) fn invalid(at: usize, text: &str) -> RpcError {
    RpcError::invalid_params(format!("invalid argument {at}: {text}"))
}

fn unmarshal(text: &str, go_type: &str) -> String {
    format!("json: cannot unmarshal {text} into Go value of type {go_type}")
}

fn string(raw: &RawValue, go_type: &str) -> Result<String, String> {
    serde_json::from_str::<String>(raw.get()).map_err(|_| unmarshal("non-string", go_type))
}

/// `common.Hash` (`hexutil.UnmarshalFixedJSON`).
fn hash(raw: &RawValue) -> Result<B256, String> {
    let go_type = "common.Hash";
    let text = string(raw, go_type)?;
    let bytes = match fixed_hex(&text) {
        Ok(digits) if digits.len() == 64 => hex_bytes(&text),
        Ok(digits) => {
            return Err(format!("hex string has length {}, want 64 for {go_type}", digits.len()));
        }
        Err(text) => Err(text),
    };
    bytes.map(|bytes| B256::from_slice(&bytes)).map_err(|text| unmarshal(&text, go_type))
}

/// The digits of a hex text of whole bytes. An empty text stands for none.
fn fixed_hex(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Ok("");
    }
    let digits = digits(text)?;
    if digits.len() % 2 == 1 {
        return Err("hex string of odd length".to_owned());
    }
    Ok(digits)
}

fn digits(text: &str) -> Result<&str, String> {
    text.strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .ok_or_else(|| "hex string without 0x prefix".to_owned())
}

fn hex_bytes(text: &str) -> Result<Vec<u8>, String> {
    alloy_primitives::hex::decode(fixed_hex(text)?).map_err(|_| "invalid hex string".to_owned())
}

/// `hexutil.DecodeUint64`.
pub(crate) fn quantity(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("empty hex string".to_owned());
    }
    let digits = digits(text)?;
    if digits.is_empty() {
        return Err("hex string \"0x\"".to_owned());
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("hex number with leading zero digits".to_owned());
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("invalid hex string".to_owned());
    }
    u64::from_str_radix(digits, 16).map_err(|_| "hex number > 64 bits".to_owned())
}

//! The block a call names: number, tag, hash or EIP-1898 object.

use crate::args::{Args, invalid, quantity};
use alloy_primitives::B256;
use prestate_rpc_api::RpcError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A block as a caller names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockParam {
    /// By number.
    Number(u64),
    /// By hash; `canonical` asks that it be on the canonical chain.
    Hash {
        /// The hash.
        hash: B256,
        /// `requireCanonical`.
        canonical: bool,
    },
    /// The newest block.
    Latest,
    /// The block being built.
    Pending,
    /// The newest safe block.
    Safe,
    /// The newest finalized block.
    Finalized,
    /// The oldest block.
    Earliest,
}

impl BlockParam {
    fn tag(text: &str) -> Option<Self> {
        Some(match text {
            "latest" => Self::Latest,
            "pending" => Self::Pending,
            "safe" => Self::Safe,
            "finalized" => Self::Finalized,
            "earliest" => Self::Earliest,
            _ => return None,
        })
    }

    /// A number or a tag, as `rpc.BlockNumber` reads it.
    pub(crate) fn number(args: &Args<'_>, at: usize) -> Result<Self, RpcError> {
        number(args.required(at)?).map_err(|text| invalid(at, &text))
    }

    /// Number, tag, hash or object, as `rpc.BlockNumberOrHash` reads it.
    pub(crate) fn any(args: &Args<'_>, at: usize) -> Result<Self, RpcError> {
        any(args.required(at)?).map_err(|text| invalid(at, &text))
    }
}

pub(crate) fn number(raw: &RawValue) -> Result<BlockParam, String> {
    // Geth takes the token as it is and strips quotes.
    let token = raw.get().trim();
    let text = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(token);
    if let Some(tag) = BlockParam::tag(text) {
        return Ok(tag);
    }
    let number = quantity(text)?;
    if number > i64::MAX as u64 {
        return Err("block number larger than int64".to_owned());
    }
    Ok(BlockParam::Number(number))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    block_hash: Option<String>,
    block_number: Option<String>,
    require_canonical: Option<bool>,
}

fn any(raw: &RawValue) -> Result<BlockParam, String> {
    let token = raw.get().trim();
    let string = |kind: &str| format!("json: cannot unmarshal {kind} into Go value of type string");
    match token.as_bytes().first() {
        Some(b'{') => object(serde_json::from_str(token).map_err(|_| string("object"))?),
        Some(b'"') => {
            let text: String = serde_json::from_str(token).map_err(|error| error.to_string())?;
            plain(&text)
        }
        Some(b'[') => Err(string("array")),
        Some(b't' | b'f') => Err(string("bool")),
        _ => Err(string("number")),
    }
}

fn object(object: Object) -> Result<BlockParam, String> {
    match (object.block_hash, object.block_number) {
        (Some(_), Some(_)) => {
            Err("cannot specify both BlockHash and BlockNumber, choose one or the other".to_owned())
        }
        (None, None) => Err("must specify either BlockHash or BlockNumber".to_owned()),
        (Some(hash), None) => {
            let canonical = object.require_canonical.unwrap_or_default();
            // Geth cannot read the object then, and tries it as a string.
            let hash = whole_hash(&hash)
                .ok_or("json: cannot unmarshal object into Go value of type string")?;
            Ok(BlockParam::Hash { hash, canonical })
        }
        (None, Some(number)) => plain_number(&number),
    }
}

/// `0x` and 64 digits.
fn whole_hash(text: &str) -> Option<B256> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    (digits.len() == 64).then(|| digits.parse().ok()).flatten()
}

fn plain(text: &str) -> Result<BlockParam, String> {
    // 0x and 64 digits is a hash, whatever else it could be.
    if text.len() == 66 {
        let hash = whole_hash(text).ok_or("invalid hex string")?;
        return Ok(BlockParam::Hash { hash, canonical: false });
    }
    plain_number(text)
}

fn plain_number(text: &str) -> Result<BlockParam, String> {
    if let Some(tag) = BlockParam::tag(text) {
        return Ok(tag);
    }
    let number = quantity(text)?;
    if number > i64::MAX as u64 {
        return Err("blocknumber too high".to_owned());
    }
    Ok(BlockParam::Number(number))
}

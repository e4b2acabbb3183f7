//! Values of Geth's `hexutil` and `common` types as Go decodes them.
//!
//! A type that decodes itself ends the decoding of the whole argument at its first fault; where Go
//! itself expects an array or object and finds something else, it remembers the first fault and
//! goes on.

use crate::trace_config::go_json::{Value, fold};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde_json::value::RawValue;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    what: What,
    go_struct: &'static str,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// Go's `json.UnmarshalTypeError`: what was found, and the type it should have been.
    Type { found: String, go_type: &'static str },
    /// Any other text, which Go leaves as it is.
    Other(String),
}

impl Fault {
    pub(super) fn mismatch(found: impl Into<String>, go_type: &'static str) -> Self {
        let what = What::Type { found: found.into(), go_type };
        Self { what, go_struct: "", path: String::new() }
    }

    pub(super) fn other(text: String) -> Self {
        Self { what: What::Other(text), go_struct: "", path: String::new() }
    }

    /// Found in this field.
    pub(super) fn at(mut self, field: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => field.to_owned(),
            inner => format!("{field}.{inner}"),
        };
        self
    }

    /// Found in this struct, unless in one inside it.
    pub(super) fn in_struct(mut self, go_struct: &'static str) -> Self {
        if self.go_struct.is_empty() {
            self.go_struct = go_struct;
        }
        self
    }

    /// Go's text.
    pub(crate) fn text(self) -> String {
        let Self { what, go_struct, path } = self;
        match what {
            What::Other(text) => text,
            What::Type { found, go_type } if path.is_empty() => {
                format!("json: cannot unmarshal {found} into Go value of type {go_type}")
            }
            What::Type { found, go_type } => format!(
                "json: cannot unmarshal {found} into Go struct field {go_struct}.{path} of type {go_type}"
            ),
        }
    }
}

/// The first fault that did not end the decoding.
#[derive(Debug, Default)]
pub(crate) struct Saved(pub(super) Option<Fault>);

impl Saved {
    pub(super) fn save(&mut self, fault: Fault) {
        self.0.get_or_insert(fault);
    }

    pub(super) fn done(self) -> Result<(), Fault> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Goes through an object's members, their keys folded; null has none.
pub(super) fn fields(
    raw: &RawValue,
    go_type: &'static str,
    saved: &mut Saved,
    mut each: impl FnMut(&str, &RawValue, &mut Saved) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match Value::of(raw) {
        Value::Null => {}
        Value::Object(members) => {
            for (key, value) in &members {
                each(&fold(key), value, saved)?;
            }
        }
        other => saved.save(Fault::mismatch(other.name(), go_type)),
    }
    Ok(())
}

/// A pointer: null is none.
pub(super) fn nullable<T>(
    raw: &RawValue,
    field: &str,
    read: impl FnOnce(&RawValue) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    if raw.get() == "null" {
        return Ok(None);
    }
    read(raw).map(Some).map_err(|fault| fault.at(field))
}

/// An array: null is none.
pub(super) fn each<T>(
    raw: &RawValue,
    field: &str,
    go_type: &'static str,
    saved: &mut Saved,
    read: impl Fn(&RawValue) -> Result<T, Fault>,
) -> Result<Option<Vec<T>>, Fault> {
    match Value::of(raw) {
        Value::Null => Ok(None),
        Value::Array => {
            let items: Vec<&RawValue> =
                serde_json::from_str(raw.get()).map_err(|error| Fault::other(error.to_string()))?;
            let read = |raw: &RawValue| read(raw).map_err(|fault| fault.at(field));
            items.into_iter().map(read).collect::<Result<_, _>>().map(Some)
        }
        other => {
            saved.save(Fault::mismatch(other.name(), go_type).at(field));
            Ok(None)
        }
    }
}

/// The text between the quotes, as it stands: Geth does not look for escapes.
fn text<'a>(raw: &'a RawValue, go_type: &'static str) -> Result<&'a str, Fault> {
    raw.get()
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or_else(|| Fault::mismatch("non-string", go_type))
}

fn prefixed(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

/// `hexutil.checkText`.
fn digits<'a>(text: &'a str, go_type: &'static str) -> Result<&'a str, Fault> {
    let mismatch = |what| Err(Fault::mismatch(what, go_type));
    match prefixed(text) {
        None if text.is_empty() => Ok(""),
        None => mismatch("hex string without 0x prefix"),
        Some(digits) if digits.len() % 2 == 1 => mismatch("hex string of odd length"),
        Some(digits) => Ok(digits),
    }
}

fn decoded(digits: &str, go_type: &'static str) -> Result<Vec<u8>, Fault> {
    hex::decode(digits).map_err(|_| Fault::mismatch("invalid hex string", go_type))
}

/// `hexutil.UnmarshalFixedJSON`.
pub(super) fn fixed<const N: usize>(
    raw: &RawValue,
    go_type: &'static str,
) -> Result<Vec<u8>, Fault> {
    let digits = digits(text(raw, go_type)?, go_type)?;
    if digits.len() != 2 * N {
        let (have, want) = (digits.len(), 2 * N);
        return Err(Fault::other(format!(
            "hex string has length {have}, want {want} for {go_type}"
        )));
    }
    decoded(digits, go_type)
}

pub(super) fn address(raw: &RawValue) -> Result<Address, Fault> {
    fixed::<20>(raw, "common.Address").map(|bytes| Address::from_slice(&bytes))
}

pub(super) fn hash(raw: &RawValue) -> Result<B256, Fault> {
    fixed::<32>(raw, "common.Hash").map(|bytes| B256::from_slice(&bytes))
}

pub(super) fn bytes(raw: &RawValue) -> Result<Bytes, Fault> {
    let go_type = "hexutil.Bytes";
    decoded(digits(text(raw, go_type)?, go_type)?, go_type).map(Bytes::from)
}

/// `hexutil.checkNumberText` and the digits' value, of at most so many bits.
fn number(raw: &RawValue, bits: usize, go_type: &'static str) -> Result<U256, Fault> {
    let text = text(raw, go_type)?;
    if text.is_empty() {
        return Ok(U256::ZERO);
    }
    let mismatch = |what: &str| Fault::mismatch(what, go_type);
    let digits = prefixed(text).ok_or_else(|| mismatch("hex string without 0x prefix"))?;
    if digits.is_empty() {
        return Err(mismatch("hex string \"0x\""));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(mismatch("hex number with leading zero digits"));
    }
    if digits.len() > bits / 4 {
        return Err(mismatch(&format!("hex number > {bits} bits")));
    }
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(mismatch("invalid hex string"));
    }
    U256::from_str_radix(digits, 16).map_err(|_| mismatch("invalid hex string"))
}

pub(super) fn big(raw: &RawValue) -> Result<U256, Fault> {
    number(raw, 256, "*hexutil.Big")
}

pub(super) fn u256(raw: &RawValue) -> Result<U256, Fault> {
    number(raw, 256, "*uint256.Int")
}

pub(super) fn u64(raw: &RawValue) -> Result<u64, Fault> {
    number(raw, 64, "hexutil.Uint64").map(|number| number.to())
}

pub(super) fn uint(raw: &RawValue) -> Result<u64, Fault> {
    number(raw, 64, "hexutil.Uint").map(|number| number.to())
}

pub(super) fn y_parity(raw: &RawValue) -> Result<u8, Fault> {
    match u64(raw)? {
        parity @ 0..=1 => Ok(parity as u8),
        _ => Err(Fault::other("'yParity' field must be 0 or 1".to_owned())),
    }
}

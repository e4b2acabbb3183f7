//! The JSON-RPC 2.0 envelope, read without building a tree: `id` and `params` stay the text they
//! came as.

use prestate_rpc_api::{RpcError, code};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Longest method name that is looked at: Geth's `maxMethodNameLength` (go-ethereum#31711).
pub(crate) const MAX_METHOD_LEN: usize = 2048;

/// The id of an answer to what had no usable one.
pub(crate) const NULL_ID: &str = "null";

/// One entry of a request.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// To be run. Without an id it is a notification and gets no answer.
    Call { id: Option<&'a str>, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// To be answered with an error.
    Invalid { id: &'a str, error: RpcError },
}

/// A request body.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// One entry.
    Single(Entry<'a>),
    /// At least one, at most the limit.
    Batch(Vec<Entry<'a>>),
}

/// A body that is answered without running anything.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal<'a> {
    /// Not JSON in UTF-8.
    Parse,
    /// `[]`.
    EmptyBatch,
    /// More entries than allowed; Geth answers under the id of the first call, in an array.
    BatchTooLong { id: &'a str, limit: usize, given: usize },
}

impl Refusal<'_> {
    /// The error object, with Geth's texts (`rpc/errors.go`, `rpc/handler.go`).
    pub(crate) fn error(&self) -> RpcError {
        match *self {
            Refusal::Parse => RpcError::new(code::PARSE, "parse error"),
            Refusal::EmptyBatch => RpcError::new(code::INVALID_REQUEST, "empty batch"),
            Refusal::BatchTooLong { limit, given, .. } => RpcError::limit(
                "batch too large",
                "batch-request-limit",
                limit as u64,
                given as u64,
            ),
        }
    }
}

/// Reads a body. A faulty envelope is an [`Entry::Invalid`], only faulty JSON is an error.
pub(crate) fn parse(body: &[u8], max_batch_len: usize) -> Result<Incoming<'_>, Refusal<'_>> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::Parse)?;
    // RawValue checks the whole text without recursion, so depth is no concern.
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| Refusal::Parse)?;
    if !raw.get().starts_with('[') {
        return Ok(Incoming::Single(Entry::read(raw.get())));
    }
    let elements = elements(raw.get(), max_batch_len)?;
    if elements.count == 0 {
        return Err(Refusal::EmptyBatch);
    }
    if elements.count > max_batch_len {
        let id = elements
            .kept
            .iter()
            .find_map(|raw| match Entry::read(raw.get()) {
                Entry::Call { id, .. } => id,
                Entry::Invalid { .. } => None,
            })
            .unwrap_or(NULL_ID);
        return Err(Refusal::BatchTooLong { id, limit: max_batch_len, given: elements.count });
    }
    Ok(Incoming::Batch(elements.kept.into_iter().map(|raw| Entry::read(raw.get())).collect()))
}

fn elements(text: &str, keep: usize) -> Result<Elements<'_>, Refusal<'_>> {
    serde_json::Deserializer::from_str(text)
        .deserialize_seq(ElementsVisitor { keep })
        .map_err(|_| Refusal::Parse)
}

/// The elements of an array: all counted, the first ones kept.
struct Elements<'a> {
    kept: Vec<&'a RawValue>,
    count: usize,
}

struct ElementsVisitor {
    keep: usize,
}

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Elements { kept: Vec::new(), count: 0 };
        while elements.count < self.keep {
            let Some(raw) = seq.next_element()? else { return Ok(elements) };
            elements.kept.push(raw);
            elements.count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            elements.count += 1;
        }
        Ok(elements)
    }
}

impl<'a> Entry<'a> {
    /// Reads one entry from JSON that is known to be well formed.
    fn read(raw: &'a str) -> Self {
        let invalid = |id, text: &str| Entry::Invalid {
            id,
            error: RpcError::new(code::INVALID_REQUEST, text),
        };
        if !raw.starts_with('{') {
            return invalid(NULL_ID, "invalid request");
        }
        let Ok(members) = serde_json::from_str::<Members<'a>>(raw) else {
            return invalid(NULL_ID, "invalid request");
        };
        let id = match members.id.map(RawValue::get) {
            None => None,
            // The kinds that JSON-RPC 2.0 §4 allows; numbers of any form.
            Some(id) if id == NULL_ID || id.starts_with(['"', '-']) || starts_with_digit(id) => {
                Some(id)
            }
            Some(_) => return invalid(NULL_ID, "invalid request: id is no string, number or null"),
        };
        let answer_id = id.unwrap_or(NULL_ID);
        if let Some(key) = members.repeated {
            // Two parsers may take two of them for the one that counts (bitcoin/bitcoin#20949).
            let answer_id = if key == Key::Id { NULL_ID } else { answer_id };
            return invalid(answer_id, &format!("invalid request: {} given twice", key.name()));
        }
        if members.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return invalid(answer_id, "invalid request");
        }
        let Some(method) = members.method.and_then(string).filter(|method| !method.is_empty())
        else {
            return invalid(answer_id, "invalid request");
        };
        if method.len() > MAX_METHOD_LEN {
            let text = format!("method name too long: {} > {MAX_METHOD_LEN}", method.len());
            return invalid(answer_id, &text);
        }
        // Geth takes null params for none.
        let params = members.params.filter(|params| params.get() != "null");
        Entry::Call { id, method, params }
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_digit)
}

/// The value of a JSON string, borrowed where it holds no escape.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Other,
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Key::Jsonrpc => "jsonrpc",
            Key::Id => "id",
            Key::Method => "method",
            Key::Params => "params",
            Key::Other => "member",
        }
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            // Escapes are resolved by now: "\u006dethod" is "method".
            fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "jsonrpc" => Key::Jsonrpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The members that count; unknown ones are passed over.
#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    repeated: Option<Key>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::default();
                while let Some(key) = map.next_key::<Key>()? {
                    let place = match key {
                        Key::Jsonrpc => &mut members.jsonrpc,
                        Key::Id => &mut members.id,
                        Key::Method => &mut members.method,
                        Key::Params => &mut members.params,
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    let value: &'de RawValue = map.next_value()?;
                    if place.replace(value).is_some() && members.repeated != Some(Key::Id) {
                        members.repeated = Some(key);
                    }
                }
                Ok(members)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
                Err(A::Error::custom("not an object"))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

//! Recorded cases: a chain, requests about it, and Geth's answers, in one file.

use super::client::Answer;
use alloy_primitives::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{fmt::Write, fs, io, path::Path};

/// A chain with what Geth answers about it.
///
/// File: a JSON object `{name, about, geth, genesis, blocks, requests}`, one request a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// The name of the case, that of its file.
    pub name: String,
    /// What it shows, with its source.
    pub about: String,
    /// The version of Geth that answered.
    pub geth: String,
    /// Geth's genesis JSON.
    pub genesis: Box<RawValue>,
    /// RLP of blocks 1, 2, … in order.
    pub blocks: Vec<Bytes>,
    /// What was asked once the last block was the head.
    pub requests: Vec<Exchange>,
}

/// A request with Geth's answer: exactly one of `result` and `error` is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Exchange {
    /// `namespace_method`.
    pub method: String,
    /// The `params` as sent.
    pub params: Box<RawValue>,
    /// The `result` as it came, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Box<RawValue>>,
    /// The `error` object as it came.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub error: Option<Box<RawValue>>,
}

/// `"result": null` is a result, not an absent one.
fn present<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(json).map(Some)
}

/// Why a case file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a case.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Exchange {
    /// From a call's parts; `None` if `params` is not JSON.
    pub fn new(method: &str, params: &str, answer: &Answer) -> Option<Self> {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        let (result, error) = match answer {
            Answer::Result(json) => (Some(raw(json)?), None),
            Answer::Error(json) => (None, Some(raw(json)?)),
        };
        Some(Self { method: method.to_owned(), params: raw(params)?, result, error })
    }

    /// The answer recorded.
    pub fn answer(&self) -> Answer {
        match (&self.result, &self.error) {
            (_, Some(error)) => Answer::Error(error.get().to_owned()),
            (Some(result), None) => Answer::Result(result.get().to_owned()),
            (None, None) => Answer::Error("null".to_owned()),
        }
    }
}

impl Case {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let shown = || path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|source| CaseError::Io { path: shown(), source })?;
        serde_json::from_str(&text).map_err(|source| CaseError::Json { path: shown(), source })
    }

    /// Writes a file, one request a line so that differences between versions can be read.
    pub fn write(&self, path: &Path) -> Result<(), CaseError> {
        let shown = || path.display().to_string();
        let json = |source| CaseError::Json { path: path.display().to_string(), source };
        let mut text = String::from("{\n");
        let head = [("name", &self.name), ("about", &self.about), ("geth", &self.geth)];
        for (key, value) in head {
            let _ = writeln!(text, "\"{key}\": {},", serde_json::to_string(value).map_err(json)?);
        }
        let _ = writeln!(text, "\"genesis\": {},", self.genesis.get());
        let list = |lines: Vec<String>| format!("[\n{}\n]", lines.join(",\n"));
        let blocks = self.blocks.iter().map(|block| format!("\"{block}\"")).collect();
        let _ = writeln!(text, "\"blocks\": {},", list(blocks));
        let requests: Result<Vec<_>, _> = self.requests.iter().map(serde_json::to_string).collect();
        let _ = writeln!(text, "\"requests\": {}\n}}", list(requests.map_err(json)?));
        fs::write(path, text).map_err(|source| CaseError::Io { path: shown(), source })
    }
}

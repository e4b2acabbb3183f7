//! How a request can fail, and how often it did: a reply that failed has no latency, so it is
//! counted by kind and never averaged.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, io, str::FromStr};

/// How a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Failure {
    /// No connection.
    Connect,
    /// The connection ended inside the reply, or broke.
    Cut,
    /// No whole reply in time.
    Timeout,
    /// A status other than 200.
    Status(u16),
    /// The body is longer or shorter than the head says, or the head says nothing that can be
    /// read.
    Length,
    /// The body does not decompress, is not JSON, or is not a JSON-RPC reply.
    Json,
    /// The method is not offered: -32601, or an error that says that it is gated.
    Gated,
    /// Refused for asking too often: status 429, -32005, or an error that says so.
    RateLimited,
    /// Another JSON-RPC error, by its code.
    Rpc(i64),
}

/// Words in an error's message that say that the method is not offered. Providers have no common
/// code for it; -32601 is "method not found" of JSON-RPC 2.0, section 5.1.
const GATED: [&str; 5] =
    ["not available", "not supported", "not enabled", "upgrade your plan", "not allowed"];
/// Words that say that too much was asked for in a time (EIP-1474 has -32005, "limit exceeded";
/// Alchemy and Infura answer 429 with text).
const LIMITED: [&str; 5] =
    ["rate limit", "rate-limit", "too many requests", "compute units per second", "throughput"];

impl Failure {
    /// The kind of an error of the transport.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            // A socket's read timeout is `WouldBlock` on Unix.
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Timeout,
            io::ErrorKind::InvalidData => Self::Length,
            _ => Self::Cut,
        }
    }

    /// The kind of a JSON-RPC error.
    pub fn of_rpc(code: i64, message: &str) -> Self {
        let message = message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        match code {
            -32601 => Self::Gated,
            -32005 | 429 => Self::RateLimited,
            _ if says(&LIMITED) => Self::RateLimited,
            _ if says(&GATED) => Self::Gated,
            _ => Self::Rpc(code),
        }
    }

    /// The kind of an HTTP status; `None` of 200.
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            200 => None,
            429 => Some(Self::RateLimited),
            other => Some(Self::Status(other)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Cut => f.write_str("cut"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Length => f.write_str("length"),
            Self::Json => f.write_str("json"),
            Self::Gated => f.write_str("gated"),
            Self::RateLimited => f.write_str("rate limited"),
            Self::Rpc(code) => write!(f, "rpc {code}"),
        }
    }
}

/// Not the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no kind of failure")]
pub struct UnknownFailure {
    /// What was given.
    pub name: String,
}

impl FromStr for Failure {
    type Err = UnknownFailure;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownFailure { name: name.to_owned() };
        Ok(match name {
            "connect" => Self::Connect,
            "cut" => Self::Cut,
            "timeout" => Self::Timeout,
            "length" => Self::Length,
            "json" => Self::Json,
            "gated" => Self::Gated,
            "rate limited" => Self::RateLimited,
            _ => match name.split_once(' ').ok_or_else(unknown)? {
                ("status", status) => Self::Status(status.parse().map_err(|_| unknown())?),
                ("rpc", code) => Self::Rpc(code.parse().map_err(|_| unknown())?),
                _ => return Err(unknown()),
            },
        })
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.to_string()
    }
}

impl TryFrom<String> for Failure {
    type Error = UnknownFailure;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

/// Failures by kind, in the order of [`Failure`]. As JSON an object: `{"cut": 2, "status 503": 1}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally {
    counts: BTreeMap<Failure, u64>,
}

impl Tally {
    /// Counts one.
    pub fn count(&mut self, kind: Failure) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Takes in another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in other.iter() {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// All failures.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many of a kind.
    pub fn of(&self, kind: Failure) -> u64 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Whether nothing failed.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Kinds that came up, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Failure, u64)> + '_ {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }
}

/// `none`, or `2 cut, 1 status 503`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (at, (kind, count)) in self.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        let all = [
            Failure::Connect,
            Failure::Cut,
            Failure::Timeout,
            Failure::Status(503),
            Failure::Length,
            Failure::Json,
            Failure::Gated,
            Failure::RateLimited,
            Failure::Rpc(-32000),
        ];
        let mut tally = Tally::default();
        for (at, kind) in all.into_iter().enumerate() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            (0..=at).for_each(|_| tally.count(kind));
        }
        assert_eq!(tally.total(), 45);
        let json = serde_json::to_string(&tally).unwrap();
        assert!(json.starts_with("{\"connect\":1,\"cut\":2,"), "{json}");
        assert_eq!(serde_json::from_str::<Tally>(&json).unwrap(), tally);
        for name in ["", "cuts", "status x", "rpc", "status 70000"] {
            assert!(name.parse::<Failure>().is_err(), "{name}");
        }
    }

    #[test]
    fn providers_words_for_gated_and_limited() {
        let kind = Failure::of_rpc;
        assert_eq!(kind(-32601, "the method debug_traceBlock does not exist"), Failure::Gated);
        assert_eq!(
            kind(-32600, "debug_traceBlockByNumber is not available on the Free tier - upgrade"),
            Failure::Gated
        );
        assert_eq!(kind(429, "anything"), Failure::RateLimited);
        assert_eq!(
            kind(-32000, "Your app has exceeded its compute units per second capacity"),
            Failure::RateLimited
        );
        assert_eq!(kind(-32000, "block #9 not found"), Failure::Rpc(-32000));
        assert_eq!(Failure::of_status(200), None);
        assert_eq!(Failure::of_status(429), Some(Failure::RateLimited));
        assert_eq!(Failure::of_status(503), Some(Failure::Status(503)));
    }
}

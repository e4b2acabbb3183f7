use super::exchange::Coding;
use crate::outcome::{Failure, Tally};
use alloy_primitives::{Address, B256};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// A slot of an account.
pub type Slot = (Address, B256);

/// What may be asked to get the values of slots after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// `debug_traceBlockByNumber` with the prestate tracer in diff mode, as the study asked it.
    Trace(Coding),
    /// The same without contract code, as `prestate-client` asks it.
    TraceWithoutCode,
    /// One batch of `eth_getStorageAt`.
    Reads,
    /// `prestate_getStorage`.
    Storage,
    /// `prestate_resync` from the parent block.
    Resync,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Trace(Coding::Identity),
        Self::Trace(Coding::Gzip),
        Self::Trace(Coding::Zstd),
        Self::TraceWithoutCode,
        Self::Reads,
        Self::Storage,
        Self::Resync,
    ];

    /// The encoding asked for.
    pub const fn coding(self) -> Coding {
        match self {
            Self::Trace(coding) => coding,
            _ => Coding::Gzip,
        }
    }

    /// Whether the endpoint for traces is asked.
    pub const fn is_trace(self) -> bool {
        matches!(self, Self::Trace(_) | Self::TraceWithoutCode)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(coding) => write!(f, "trace, {coding}"),
            Self::TraceWithoutCode => f.write_str("trace without code, gzip"),
            Self::Reads => f.write_str("batch of eth_getStorageAt"),
            Self::Storage => f.write_str("prestate_getStorage"),
            Self::Resync => f.write_str("prestate_resync"),
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Slots with their values after the block.
    pub(crate) values: HashMap<Slot, B256>,
    /// Items that were refused.
    pub(crate) failed: Tally,
}

impl Question {
    /// The body of the request, about a block and its parent.
    pub(super) fn body(self, block: u64, parent: B256, slots: &[Slot]) -> Bytes {
        let number = format!("0x{block:x}");
        let body = match self {
            Self::Trace(_) | Self::TraceWithoutCode => {
                let mut config = json!({ "diffMode": true });
                if self == Self::TraceWithoutCode {
                    config["disableCode"] = true.into();
                }
                let options = json!({ "tracer": "prestateTracer", "tracerConfig": config });
                call(1, "debug_traceBlockByNumber", json!([number, options]))
            }
            Self::Reads => {
                let items = slots.iter().enumerate();
                let items = items.map(|(at, (address, slot))| {
                    call(at as u64, "eth_getStorageAt", json!([address, slot, number]))
                });
                items.collect()
            }
            Self::Storage => call(1, "prestate_getStorage", json!([number, by_account(slots)])),
            Self::Resync => {
                let watch = by_account(slots).into_iter();
                let watch: BTreeMap<_, _> =
                    watch.map(|(address, slots)| (address, json!({ "slots": slots }))).collect();
                let request = json!({ "from": parent, "watch": watch, "to": number });
                call(1, "prestate_resync", json!([request]))
            }
        };
        body.to_string().into()
    }

    /// The values that an answer gives for the slots asked.
    pub(super) fn read(self, text: &[u8], slots: &[Slot]) -> Result<Values, Failure> {
        match self {
            Self::Trace(_) | Self::TraceWithoutCode => traced(result(text)?, slots),
            Self::Reads => batch(text, slots),
            Self::Storage | Self::Resync => {
                let Stored { storage } = result(text)?;
                let values = storage.into_iter().flat_map(|(address, slots)| {
                    slots.into_iter().map(move |(slot, value)| ((address, slot), value))
                });
                Ok(Values { values: values.collect(), failed: Tally::default() })
            }
        }
    }
}

pub(super) fn call(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn by_account(slots: &[Slot]) -> BTreeMap<Address, Vec<B256>> {
    let mut accounts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (address, slot) in slots {
        accounts.entry(*address).or_default().push(*slot);
    }
    accounts
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl<'a> Answer<'a> {
    fn result(&self) -> Result<&'a str, Failure> {
        match (&self.error, self.result) {
            (Some(Refused { code, message }), _) => Err(Failure::of_rpc(*code, message)),
            (None, Some(result)) => Ok(result.get()),
            (None, None) => Err(Failure::Json),
        }
    }
}

/// The result of one call.
pub(super) fn result<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Failure> {
    let answer: Answer<'_> = serde_json::from_slice(text).map_err(|_| Failure::Json)?;
    serde_json::from_str(answer.result()?).map_err(|_| Failure::Json)
}

/// A batch's answers come in any order (JSON-RPC 2.0, section 6); an error in the place of the
/// array is every item's.
fn batch(text: &[u8], slots: &[Slot]) -> Result<Values, Failure> {
    if text.trim_ascii_start().first() == Some(&b'{') {
        let answer: Answer<'_> = serde_json::from_slice(text).map_err(|_| Failure::Json)?;
        return Err(answer.result().err().unwrap_or(Failure::Json));
    }
    let answers: Vec<Answer<'_>> = serde_json::from_slice(text).map_err(|_| Failure::Json)?;
    let mut read = Values::default();
    let mut answered = vec![false; slots.len()];
    for answer in answers {
        let id = answer.id.and_then(|id| id.get().parse::<usize>().ok());
        let Some((id, slot)) = id.and_then(|id| Some((id, slots.get(id)?))) else {
            read.failed.count(Failure::Json);
            continue;
        };
        answered[id] = true;
        let value = answer.result().and_then(|value| word(value).ok_or(Failure::Json));
        match value {
            Ok(value) => drop(read.values.insert(*slot, value)),
            Err(failure) => read.failed.count(failure),
        }
    }
    // An item without an answer was lost, whatever became of it.
    for _ in answered.iter().filter(|answered| !**answered) {
        read.failed.count(Failure::Length);
    }
    Ok(read)
}

/// A quoted word in hex; some nodes leave leading zeros out.
fn word(json: &str) -> Option<B256> {
    let digits = json.strip_prefix("\"0x")?.strip_suffix('"')?;
    (digits.len() <= 64).then(|| format!("0x{digits:0>64}").parse().ok())?
}

#[derive(Deserialize)]
struct Stored {
    storage: BTreeMap<Address, BTreeMap<B256, B256>>,
}

/// One transaction; code, balances and nonces are skipped while reading.
#[derive(Deserialize)]
struct Traced {
    result: Option<Sides>,
}

#[derive(Deserialize, Default)]
struct Sides {
    pre: BTreeMap<Address, Side>,
    post: BTreeMap<Address, Side>,
}

#[derive(Deserialize, Default)]
struct Side {
    #[serde(default)]
    storage: BTreeMap<B256, B256>,
}

/// What a block did to slots: of each transaction the slots before and after, in order. Geth leaves
/// zeros out (`eth/tracers/native/prestate.go`): a slot only in `pre` was cleared, unless its
/// account is only there, too, and gone.
fn traced(traces: Vec<Traced>, slots: &[Slot]) -> Result<Values, Failure> {
    let mut accounts: HashMap<Address, Vec<B256>> = HashMap::new();
    for (address, slot) in slots {
        accounts.entry(*address).or_default().push(*slot);
    }
    let mut values = HashMap::new();
    for trace in traces {
        let Sides { pre, post } = trace.result.ok_or(Failure::Json)?;
        for (address, watched) in &accounts {
            let before = pre.get(address);
            let Some(after) = post.get(address) else { continue };
            for slot in watched {
                let old = before.and_then(|side| side.storage.get(slot));
                match (after.storage.get(slot), old) {
                    (Some(value), _) => drop(values.insert((*address, *slot), *value)),
                    (None, Some(_)) => drop(values.insert((*address, *slot), B256::ZERO)),
                    (None, None) => {}
                }
            }
        }
    }
    Ok(Values { values, failed: Tally::default() })
}

/// Every slot that a diff trace names, once.
pub(super) fn slots_of_trace(text: &[u8]) -> Result<Vec<Slot>, Failure> {
    let traces: Vec<Traced> = result(text)?;
    let mut slots = Vec::new();
    for trace in traces {
        let Sides { pre, post } = trace.result.ok_or(Failure::Json)?;
        for (address, side) in pre.into_iter().chain(post) {
            slots.extend(side.storage.into_keys().map(|slot| (address, slot)));
        }
    }
    slots.sort_unstable();
    slots.dedup();
    Ok(slots)
}

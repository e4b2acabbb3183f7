//! What Geth would say without its artefacts, as far as its own answers tell.
//!
//! [`without_absent_accounts`] undoes rule D9. The other artefacts cannot be undone from outside:
//! the accounts they may concern are found in the call tree ([`reverted_destructions`] for E2,
//! [`collided_occupants`] for E3, [`unseen_creations`] for B11) and left out on both sides. What
//! prestate says of them is checked against the state instead ([`Fold`]).

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const ABSENT: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";
const NO_CODE: &str = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";

/// Geth's answers about one transaction.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// `prestateTracer` with `diffMode`.
    pub(crate) diff: &'a Value,
    /// `prestateTracer` with `includeEmpty`: every account it looked up.
    pub(crate) looked_up: &'a Value,
    /// `flatCallTracer`.
    pub(crate) calls: &'a Value,
}

/// How often each artefact was met: what the random chains reach.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Met {
    /// D9: absent accounts in `post`.
    pub(crate) absent: usize,
    /// E2: contracts whose SELFDESTRUCT was undone.
    pub(crate) undone: usize,
    /// E3: occupants of refused creations that destroyed themselves.
    pub(crate) occupants: usize,
    /// B11: creations not seen.
    pub(crate) unseen: usize,
}

impl Met {
    /// Counts those of one transaction.
    pub(crate) fn add(&mut self, told: &Told<'_>) {
        let mut plain = told.diff.clone();
        without_absent_accounts(&mut plain);
        let posts = |diff: &Value| diff.get("post").and_then(Value::as_object).map_or(0, Map::len);
        self.absent += posts(told.diff) - posts(&plain);
        self.undone += reverted_destructions(told.calls).len();
        self.occupants += collided_occupants(told.calls).len();
        self.unseen += unseen_creations(told.calls, told.looked_up).len();
    }
}

/// How prestate's default diff differs from Geth's without artefacts; `None` if it does not.
pub(crate) fn difference(told: &Told<'_>, ours: &Value) -> Option<String> {
    let mut geth = told.diff.clone();
    let mut ours = ours.clone();
    without_absent_accounts(&mut geth);
    for address in suspects(told) {
        for diff in [&mut geth, &mut ours] {
            for side in ["pre", "post"] {
                if let Some(accounts) = diff.get_mut(side).and_then(Value::as_object_mut) {
                    accounts.remove(&address);
                }
            }
        }
    }
    (geth != ours).then(|| format!("geth without artefacts {geth}\nours {ours}"))
}

/// Accounts about which Geth's diff may not tell the truth.
fn suspects(told: &Told<'_>) -> BTreeSet<String> {
    let mut suspects = reverted_destructions(told.calls);
    suspects.extend(collided_occupants(told.calls));
    suspects.extend(unseen_creations(told.calls, told.looked_up));
    suspects
}

/// D9: an account that does not exist after the transaction is listed in `post` with a zero code
/// hash. Without it the entry says nothing, or, where the account did exist, that it is gone.
fn without_absent_accounts(diff: &mut Value) {
    if let Some(post) = diff.get_mut("post").and_then(Value::as_object_mut) {
        post.retain(|_, account| account.get("codeHash").and_then(Value::as_str) != Some(ABSENT));
    }
}

/// E2: contracts whose SELFDESTRUCT stands in a frame that was undone.
fn reverted_destructions(calls: &Value) -> BTreeSet<String> {
    let place = |frame: &Value| -> Vec<u64> {
        let place = frame.get("traceAddress").and_then(Value::as_array);
        place.into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let failed: Vec<_> =
        frames(calls).filter(|frame| frame.get("error").is_some()).map(place).collect();
    let undone = |frame: &Value| failed.iter().any(|failed| place(frame).starts_with(failed));
    let destructions = frames(calls).filter(|frame| kind(frame) == "suicide" && undone(frame));
    destructions.filter_map(|frame| text(frame.get("action")?, "address")).collect()
}

/// E3: contracts that destroyed themselves in a transaction in which a creation was refused: the
/// refused one counts as created, whoever lives there.
fn collided_occupants(calls: &Value) -> BTreeSet<String> {
    let (mut refused, mut created, mut destroyed) = (false, BTreeSet::new(), BTreeSet::new());
    for frame in frames(calls) {
        match kind(frame) {
            "create" => match frame.get("result").and_then(|result| text(result, "address")) {
                Some(address) => {
                    created.insert(address);
                }
                None => refused = true,
            },
            "suicide" => {
                destroyed.extend(frame.get("action").and_then(|action| text(action, "address")));
            }
            _ => {}
        }
    }
    if refused { destroyed.difference(&created).cloned().collect() } else { BTreeSet::new() }
}

/// B11: contracts created by a CREATE2 that the tracer skipped: never looked up, or only later,
/// when they were there already (nonce 1).
fn unseen_creations(calls: &Value, looked_up: &Value) -> BTreeSet<String> {
    let created = frames(calls).filter(|frame| kind(frame) == "create");
    let addresses = created.filter_map(|frame| text(frame.get("result")?, "address"));
    addresses
        .filter(|address| {
            let nonce = looked_up.get(address).map(|account| account.get("nonce"));
            nonce.is_none_or(|nonce| nonce.is_some())
        })
        .collect()
}

fn frames(calls: &Value) -> impl Iterator<Item = &Value> {
    calls.as_array().into_iter().flatten()
}

fn kind(frame: &Value) -> &str {
    frame.get("type").and_then(Value::as_str).unwrap_or("")
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// The diffs of a block, one after another: what they say of each account at the end.
#[derive(Debug, Default)]
pub(crate) struct Fold(BTreeMap<String, Known>);

/// What is known of an account; `None` where nothing was said.
#[derive(Debug, Default, Clone)]
struct Known {
    balance: Option<String>,
    nonce: Option<u64>,
    code_hash: Option<String>,
    slots: BTreeMap<String, String>,
}

impl Fold {
    /// Adds the diff of the next transaction.
    pub(crate) fn add(&mut self, diff: &Value) {
        let none = Map::new();
        let side = |name| diff.get(name).and_then(Value::as_object).unwrap_or(&none);
        let (pre, post) = (side("pre"), side("post"));
        for (address, before) in pre {
            let known = self.0.entry(address.clone()).or_default();
            if post.contains_key(address) {
                // A slot in pre that post does not list became zero (rule D6).
                known.slots.extend(slots(before).map(|(slot, _)| (slot, ABSENT.to_owned())));
            } else {
                let gone = known.slots.keys().cloned().chain(slots(before).map(|(slot, _)| slot));
                *known = Known {
                    slots: gone.map(|slot| (slot, ABSENT.to_owned())).collect(),
                    balance: Some("0x0".to_owned()),
                    nonce: Some(0),
                    code_hash: Some(NO_CODE.to_owned()),
                };
            }
        }
        for (address, after) in post {
            let known = self.0.entry(address.clone()).or_default();
            known.slots.extend(slots(after));
            known.balance = text(after, "balance").or(known.balance.take());
            known.nonce = after.get("nonce").and_then(Value::as_u64).or(known.nonce);
            known.code_hash = text(after, "codeHash").or(known.code_hash.take());
        }
    }

    /// Accounts spoken of, with the slots spoken of.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (&String, Vec<&String>)> {
        self.0.iter().map(|(address, known)| (address, known.slots.keys().collect()))
    }

    /// Holds what is known of an account against an `eth_getProof` reply.
    pub(crate) fn check(&self, address: &str, proof: &Value) -> Result<(), String> {
        let Some(known) = self.0.get(address) else { return Ok(()) };
        let mut wrong = Vec::new();
        let mut compare = |what: &str, said: Option<String>, is: Option<String>| {
            if said.is_some() && said != is {
                wrong.push(format!("{what} of {address}: said {said:?}, is {is:?}"));
            }
        };
        compare("balance", known.balance.clone(), text(proof, "balance"));
        compare("nonce", known.nonce.map(|nonce| format!("{nonce:#x}")), text(proof, "nonce"));
        // The hash of no code stands for absence as well.
        let hash =
            text(proof, "codeHash").map(|hash| if hash == ABSENT { NO_CODE.into() } else { hash });
        compare("code hash", known.code_hash.clone(), hash);
        for entry in proof.get("storageProof").and_then(Value::as_array).into_iter().flatten() {
            let (Some(slot), Some(value)) = (text(entry, "key"), text(entry, "value")) else {
                continue;
            };
            let value = format!("0x{:0>64}", value.trim_start_matches("0x"));
            compare(&format!("slot {slot}"), known.slots.get(&slot).cloned(), Some(value));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

fn slots(account: &Value) -> impl Iterator<Item = (String, String)> {
    let storage = account.get("storage").and_then(Value::as_object).into_iter().flatten();
    storage.filter_map(|(slot, value)| Some((slot.clone(), value.as_str()?.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_absent_account_is_taken_out_and_others_stay() {
        let mut diff =
            json!({"post": {"0xa": {"codeHash": ABSENT}, "0xb": {"nonce": 1}}, "pre": {}});
        without_absent_accounts(&mut diff);
        assert_eq!(diff, json!({"post": {"0xb": {"nonce": 1}}, "pre": {}}));
    }

    #[test]
    fn suspects_are_found_in_the_call_tree() {
        let destroy = |place: &[u64]| json!({"type": "suicide", "action": {"address": "0xd"}, "traceAddress": place});
        let call = json!({"type": "call", "traceAddress": []});
        let failed = json!({"type": "call", "error": "Reverted", "traceAddress": [1]});
        let calls = json!([call, failed, destroy(&[1, 0])]);
        assert_eq!(reverted_destructions(&calls), ["0xd".to_owned()].into());
        assert!(reverted_destructions(&json!([call, failed, destroy(&[0])])).is_empty());
        let refused = json!({"type": "create", "error": "collision", "traceAddress": [0]});
        let calls = json!([call, refused, destroy(&[1])]);
        assert_eq!(collided_occupants(&calls), ["0xd".to_owned()].into());
        assert!(collided_occupants(&json!([call, destroy(&[0])])).is_empty());
        let calls = json!([{"type": "create", "result": {"address": "0xf"}, "traceAddress": []}]);
        assert_eq!(unseen_creations(&calls, &json!({})), ["0xf".to_owned()].into());
        assert_eq!(
            unseen_creations(&calls, &json!({"0xf": {"nonce": 1}})),
            ["0xf".to_owned()].into()
        );
        assert!(unseen_creations(&calls, &json!({"0xf": {"balance": "0x0"}})).is_empty());
    }

    #[test]
    fn a_fold_knows_the_last_value_of_everything() {
        let mut fold = Fold::default();
        fold.add(&json!({"pre": {"0xa": {"balance": "0x1", "storage": {"0x1": "0x5"}}}, "post": {"0xa": {"nonce": 2}}}));
        let proof = |value: &str| {
            json!({"balance": "0x9", "nonce": "0x2", "codeHash": NO_CODE,
                   "storageProof": [{"key": "0x1", "value": value}]})
        };
        assert_eq!(fold.check("0xa", &proof("0x0")), Ok(()));
        assert!(fold.check("0xa", &proof("0x5")).unwrap_err().contains("slot 0x1"));
        fold.add(&json!({"pre": {"0xa": {"balance": "0x9"}}, "post": {}}));
        assert!(fold.check("0xa", &proof("0x0")).unwrap_err().contains("balance"));
    }
}

//! The JSON of every type, as it goes over the wire.

use crate::*;
use alloy_primitives::{Address, B256, U256};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::fmt::Debug;

fn hash(n: u8) -> B256 {
    B256::with_last_byte(n)
}

fn block(n: u8) -> BlockHandle {
    BlockHandle { number: n.into(), hash: hash(n) }
}

/// What is written is `json`, and what is read from it is the value.
fn both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, json: Value) {
    assert_eq!(serde_json::to_value(&value).unwrap(), json);
    let text = json.to_string();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value);
}

#[test]
fn positions() {
    both_ways(Position::Hash(hash(7)), json!(hash(7)));
    both_ways(Position::Block(block(7)), json!({ "number": "0x7", "hash": hash(7) }));
    let refused = |json: Value| serde_json::from_value::<Position>(json).unwrap_err().to_string();
    assert_eq!(refused(json!("0x07")), "expected a block hash of 32 bytes in hex");
    assert_eq!(refused(json!(7)), "expected a block hash or {number, hash}");
    assert!(refused(json!({ "number": "0x7" })).contains("missing field `hash`"));
}

#[test]
fn resync() {
    let address = Address::with_last_byte(1);
    let watch = Watch { slots: vec![hash(1)], account: true };
    let mut request = ResyncRequest {
        from: Position::Hash(hash(7)),
        watch: [(address, watch)].into(),
        cold: [(address, vec![hash(2)])].into(),
        to: None,
    };
    let plain = json!({
        "from": hash(7),
        "watch": { address.to_string().to_lowercase(): { "slots": [hash(1)], "account": true } },
        "cold": { address.to_string().to_lowercase(): [hash(2)] },
    });
    both_ways(request.clone(), plain.clone());
    request.to = Some(hash(9).into());
    let mut with_end = plain;
    with_end["to"] = json!(hash(9));
    both_ways(request, with_end);

    let account = AccountState { balance: U256::from(5), nonce: 1, ..Default::default() };
    both_ways(
        Resync {
            from: block(7),
            head: block(9),
            reorg: Some(ReorgNotice { common_ancestor: block(6), dropped: vec![block(7)] }),
            storage: [(address, [(hash(1), B256::ZERO)].into())].into(),
            accounts: [(address, Some(account)), (Address::ZERO, None)].into(),
        },
        json!({
            "from": { "number": "0x7", "hash": hash(7) },
            "head": { "number": "0x9", "hash": hash(9) },
            "reorg": {
                "commonAncestor": { "number": "0x6", "hash": hash(6) },
                "dropped": [{ "number": "0x7", "hash": hash(7) }],
            },
            "storage": { address.to_string().to_lowercase(): { hash(1).to_string(): hash(0) } },
            "accounts": {
                address.to_string().to_lowercase(): { "balance": "0x5", "nonce": "0x1" },
                Address::ZERO.to_string(): null,
            },
        }),
    );
}

#[test]
fn messages() {
    let head = BlockHead { number: 7, hash: hash(7), parent_hash: hash(6), timestamp: 16 };
    let head_json =
        json!({ "number": "0x7", "hash": hash(7), "parentHash": hash(6), "timestamp": "0x10" });
    let change = AccountChange { nonce: Some(2), storage_wiped: true, ..Default::default() };
    let post: DiffSide = [(Address::ZERO, Some(change))].into();
    let pre: DiffSide = [(Address::ZERO, None)].into();
    let sides = json!({
        "pre": { Address::ZERO.to_string(): null },
        "post": { Address::ZERO.to_string(): { "nonce": "0x2", "storageWiped": true } },
    });
    both_ways(
        DiffMessage::Commit(StreamedBlock {
            block: head,
            diff: StreamedDiff::Block { pre: pre.clone(), post: post.clone() },
        }),
        json!({ "type": "commit", "block": head_json, "pre": sides["pre"], "post": sides["post"] }),
    );
    let tx = TransactionDiffView { tx_hash: hash(3), index: 0, pre, post };
    both_ways(
        DiffMessage::Revert(StreamedBlock {
            block: head,
            diff: StreamedDiff::Transactions { transactions: vec![tx] },
        }),
        json!({
            "type": "revert",
            "block": head_json,
            "transactions": [{
                "txHash": hash(3), "index": "0x0", "pre": sides["pre"], "post": sides["post"],
            }],
        }),
    );
    let details = json!({ "limitBytes": 5 }).as_object().unwrap().clone();
    both_ways(
        DiffMessage::Cut(CutNotice {
            reason: CutReason::TooSlow,
            message: "the reader is too slow".to_owned(),
            details,
        }),
        json!({
            "type": "cut",
            "reason": "tooSlow",
            "message": "the reader is too slow",
            "limitBytes": 5,
        }),
    );
    let new: CutReason = serde_json::from_value(json!("somethingNew")).unwrap();
    assert_eq!(new, CutReason::Other);
}

#[test]
fn reads_and_options() {
    let query = AccountQuery { slots: vec![hash(1)], code: CodeOption::Full };
    both_ways(query, json!({ "slots": [hash(1)], "code": "full" }));
    assert_eq!(serde_json::from_value::<AccountQuery>(json!({})).unwrap().code, CodeOption::Hash);
    assert!(serde_json::from_value::<AccountQuery>(json!({ "slot": [] })).is_err());
    both_ways(
        StorageAt {
            block: block(1),
            storage: [(Address::ZERO, [(hash(1), hash(2))].into())].into(),
        },
        json!({
            "block": { "number": "0x1", "hash": hash(1) },
            "storage": { Address::ZERO.to_string(): { hash(1).to_string(): hash(2) } },
        }),
    );
    both_ways(DiffStreamKind::BlockDiffs, json!("blockDiffs"));
    both_ways(DiffStreamKind::TransactionDiffs, json!("transactionDiffs"));
    let options = SubscribeOptions { from: Some(Position::Hash(hash(1))), ..Default::default() };
    both_ways(options, json!({ "from": hash(1), "code": "hash" }));
}

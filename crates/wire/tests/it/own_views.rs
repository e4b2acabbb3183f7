//! The own views: both sides name the same, and either side applied to the other gives it.

use crate::sample::{codes, diff};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use prestate_types::{
    AccountDelta, AccountInfo, BlockDiff, BlockRef, BlockSummary, Codes, KECCAK_EMPTY, SlotDelta,
    StateDiff, TxDiff,
};
use prestate_wire::{
    CodeTable, CodeView, KnownCodes, MissingCode, RopeBuilder, write_block_diff, write_sides,
    write_transaction_diff,
};
use proptest::prelude::*;
use serde_json::Value;

fn write(
    codes: &Codes,
    write: impl FnOnce(&mut RopeBuilder, &KnownCodes<'_>) -> Result<(), MissingCode>,
) -> Result<String, MissingCode> {
    let table = CodeTable::new();
    let mut out = RopeBuilder::new();
    write(&mut out, &KnownCodes::new(&table, codes))?;
    Ok(String::from_utf8(out.finish().to_vec()).unwrap())
}

fn block() -> (BlockDiff, Codes) {
    let code = [0x60, 0x80];
    let made = AccountInfo { nonce: 1, balance: U256::ZERO, code_hash: keccak256(code) };
    let paid = AccountInfo { balance: U256::from(255), ..AccountInfo::EMPTY };
    let accounts = vec![
        (
            Address::with_last_byte(2),
            AccountDelta {
                pre: None,
                post: Some(made),
                storage: vec![SlotDelta::new(B256::ZERO, B256::ZERO, B256::with_last_byte(7))],
                wiped: false,
            },
        ),
        (
            Address::with_last_byte(1),
            AccountDelta {
                pre: Some(paid),
                post: Some(AccountInfo { balance: U256::ZERO, ..paid }),
                ..AccountDelta::default()
            },
        ),
        (
            Address::with_last_byte(3),
            AccountDelta {
                pre: Some(paid),
                post: Some(paid),
                storage: vec![SlotDelta::new(B256::ZERO, B256::with_last_byte(7), B256::ZERO)],
                wiped: true,
            },
        ),
    ];
    let summary = BlockSummary {
        block: BlockRef::new(22_615_247, B256::with_last_byte(4)),
        parent_hash: B256::with_last_byte(3),
        timestamp: 0,
    };
    let known = [(keccak256(code), Bytes::from(code))].into_iter().collect();
    (BlockDiff { summary, diff: StateDiff::from_unsorted(accounts) }, known)
}

#[test]
fn a_block() {
    let (block, known) = block();
    let word = |last: u8| format!("{:?}", B256::with_last_byte(last));
    let address = |last: u8| format!("{:?}", Address::with_last_byte(last));
    let hash = format!("{:?}", keccak256([0x60, 0x80]));
    let expected = |code: &str| {
        format!(
            r#"{{"block":{{"number":"0x15914cf","hash":"{}","parentHash":"{}","timestamp":"0x0"}},"pre":{{"{}":{{"balance":"0xff"}},"{}":null,"{}":{{"storage":{{"{}":"{}"}}}}}},"post":{{"{}":{{"balance":"0x0"}},"{}":{{"balance":"0x0",{code}"nonce":"0x1","storage":{{"{}":"{}"}}}},"{}":{{"storage":{{"{}":"{}"}},"storageWiped":true}}}}}}"#,
            word(4),
            word(3),
            address(1),
            address(2),
            address(3),
            word(0),
            word(7),
            address(1),
            address(2),
            word(0),
            word(7),
            address(3),
            word(0),
            word(0),
        )
    };
    for (view, code) in [
        (CodeView::None, String::new()),
        (CodeView::Hash, format!(r#""codeHash":"{hash}","#)),
        (CodeView::Full, format!(r#""code":"0x6080","codeHash":"{hash}","#)),
    ] {
        let text = write(&known, |out, codes| write_block_diff(out, &block, view, codes));
        assert_eq!(text.unwrap(), expected(&code));
    }
    let text =
        write(&Codes::default(), |out, codes| write_block_diff(out, &block, CodeView::Full, codes));
    assert_eq!(text, Err(MissingCode { hash: keccak256([0x60, 0x80]) }));
}

#[test]
fn a_transaction() {
    let tx = TxDiff { hash: B256::with_last_byte(1), index: 16, ..TxDiff::default() };
    let text = write(&Codes::default(), |out, codes| {
        write_transaction_diff(out, &tx, CodeView::Hash, codes)
    });
    let expected = format!(r#"{{"txHash":"{:?}","index":"0x10","pre":{{}},"post":{{}}}}"#, tx.hash);
    assert_eq!(text.unwrap(), expected);
}

/// A plain reading of a side back into the model.
fn account(value: &Value, other: Option<AccountInfo>) -> Option<AccountInfo> {
    let fields = value.as_object()?;
    let mut info = other.unwrap_or_default();
    let text = |key: &str| fields.get(key).map(|value| value.as_str().unwrap());
    if let Some(balance) = text("balance") {
        info.balance = balance.parse().unwrap();
    }
    if let Some(nonce) = text("nonce") {
        info.nonce = u64::from_str_radix(nonce.strip_prefix("0x").unwrap(), 16).unwrap();
    }
    if let Some(hash) = text("codeHash") {
        info.code_hash = hash.parse().unwrap();
    }
    if let Some(code) = text("code") {
        let code: Bytes = code.parse().unwrap();
        assert_eq!(if code.is_empty() { KECCAK_EMPTY } else { keccak256(code) }, info.code_hash);
    }
    Some(info)
}

proptest! {
    #[test]
    fn sides_name_the_same_and_give_each_other(diff in diff(), full: bool) {
        let view = if full { CodeView::Full } else { CodeView::Hash };
        let known = codes();
        let text = write(&known, |out, codes| write_sides(out, &diff, view, codes)).unwrap();
        let tree: Value = serde_json::from_str(&format!("{{{text}}}")).unwrap();
        let (pre, post) = (tree["pre"].as_object().unwrap(), tree["post"].as_object().unwrap());
        prop_assert_eq!(pre.len(), diff.len());
        prop_assert!(pre.keys().eq(post.keys()));
        for (address, delta) in &diff {
            let (a, b) = (&pre[&format!("{address:?}")], &post[&format!("{address:?}")]);
            prop_assert_eq!(account(a, delta.post), delta.pre);
            prop_assert_eq!(account(b, delta.pre), delta.post);
            if let (Some(a), Some(b)) = (a.as_object(), b.as_object()) {
                prop_assert!(a.keys().eq(b.keys().filter(|key| *key != "storageWiped")));
                prop_assert_eq!(b.contains_key("storageWiped"), delta.wiped);
            }
            for (side, of) in [(a, (|s| s.pre) as fn(&SlotDelta) -> B256), (b, |s| s.post)] {
                if side.is_null() {
                    continue;
                }
                let slots: Vec<(String, String)> = delta.storage.iter().map(|s| (format!("{:?}", s.slot), format!("{:?}", of(s)))).collect();
                let found: Vec<(String, String)> = side.get("storage").and_then(Value::as_object).map(|slots| {
                    slots.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect()
                }).unwrap_or_default();
                prop_assert_eq!(found, slots);
            }
        }
    }
}

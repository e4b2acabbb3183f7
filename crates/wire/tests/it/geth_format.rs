//! Geth's bytes. Expectations are written by hand from the shapes of its own test vectors
//! (`eth/tracers/internal/tracetest/testdata/prestate_tracer*`).

use crate::sample::{code, codes, tx};
use alloy_primitives::{Address, B256, Bytes, U256, address, b256, keccak256};
use prestate_types::{
    AccountDelta, AccountInfo, Codes, GethAccount, GethDiff, GethOptions, KECCAK_EMPTY, SlotDelta,
    StateDiff, TxDiff,
};
use prestate_wire::{
    CodeTable, KnownCodes, MissingCode, RopeBuilder, TraceList, write_geth_diff, write_geth_pair,
    write_geth_state,
};
use proptest::prelude::*;

fn write(
    codes: &Codes,
    write: impl FnOnce(&mut RopeBuilder, &KnownCodes<'_>) -> Result<(), MissingCode>,
) -> Result<String, MissingCode> {
    let table = CodeTable::new();
    let mut out = RopeBuilder::new();
    write(&mut out, &KnownCodes::new(&table, codes))?;
    Ok(String::from_utf8(out.finish().to_vec()).unwrap())
}

const A: Address = address!("0x24658cae9b5ed4d6b2b2c8f5b3f4b2a4ad3f1ce5");
const B: Address = address!("0xdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef");
const SLOT: B256 = b256!("0x000000000000000000000000000000000000000000000000000000000000000a");

fn info(nonce: u64, balance: u64, code: &[u8]) -> AccountInfo {
    let code_hash = if code.is_empty() { KECCAK_EMPTY } else { keccak256(code) };
    AccountInfo { nonce, balance: U256::from(balance), code_hash }
}

fn one(accounts: Vec<(Address, AccountDelta)>) -> TxDiff {
    TxDiff { diff: StateDiff::from_unsorted(accounts), ..TxDiff::default() }
}

fn sample() -> (TxDiff, Codes) {
    let code = [0x60, 0x80];
    let storage = vec![
        SlotDelta::new(SLOT, B256::with_last_byte(5), B256::ZERO),
        SlotDelta::new(B256::ZERO, B256::ZERO, B256::with_last_byte(9)),
    ];
    let contract = AccountDelta {
        pre: Some(info(1, 0, &code)),
        post: Some(info(1, 0x10, &code)),
        storage,
        wiped: false,
    };
    let sender = AccountDelta {
        pre: Some(info(0, 0xabcdef, &[])),
        post: Some(info(1, 0xabcde0, &[])),
        ..AccountDelta::default()
    };
    (
        one(vec![(B, sender), (A, contract)]),
        [(keccak256(code), Bytes::from(code))].into_iter().collect(),
    )
}

#[test]
fn a_diff() {
    let (tx, codes) = sample();
    let text = write(&codes, |out, codes| write_geth_diff(out, &tx, GethOptions::default(), codes));
    let expected = r#"{"post":{"0x24658cae9b5ed4d6b2b2c8f5b3f4b2a4ad3f1ce5":{"balance":"0x10","storage":{"0x0000000000000000000000000000000000000000000000000000000000000000":"0x0000000000000000000000000000000000000000000000000000000000000009"}},"0xdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef":{"balance":"0xabcde0","nonce":1}},"pre":{"0x24658cae9b5ed4d6b2b2c8f5b3f4b2a4ad3f1ce5":{"balance":"0x0","code":"0x6080","codeHash":"0xcfa9c54e9a2cd2dfd4b0b7f1a06f1b3d","nonce":1,"storage":{"0x000000000000000000000000000000000000000000000000000000000000000a":"0x0000000000000000000000000000000000000000000000000000000000000005"}},"0xdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef":{"balance":"0xabcdef"}}}"#;
    let hash = format!("{:?}", keccak256([0x60, 0x80]));
    assert_eq!(text.unwrap(), expected.replace("0xcfa9c54e9a2cd2dfd4b0b7f1a06f1b3d", &hash));
}

#[test]
fn options_leave_fields_out() {
    let (tx, codes) = sample();
    let text = |disable_code, disable_storage| {
        let options = GethOptions { disable_code, disable_storage };
        write(&codes, |out, codes| write_geth_diff(out, &tx, options, codes)).unwrap()
    };
    assert!(
        text(false, false).contains("\"code\":") && text(false, false).contains("\"storage\":")
    );
    let text = [text(true, false), text(false, true)];
    assert!(!text[0].contains("\"code\":") && text[0].contains("\"codeHash\":"));
    assert!(!text[1].contains("\"storage\":") && text[1].contains("\"code\":"));
}

#[test]
fn nothing_changed() {
    let text = write(&Codes::default(), |out, codes| {
        write_geth_diff(out, &TxDiff::default(), GethOptions::default(), codes)
    });
    assert_eq!(text.unwrap(), r#"{"post":{},"pre":{}}"#);
}

/// Rule D7: the only change is a slot going to zero. Rule D5: code cleared is `0x`.
#[test]
fn empty_objects_and_cleared_code() {
    let slot = SlotDelta::new(SLOT, B256::with_last_byte(5), B256::ZERO);
    let same = Some(info(3, 7, &[]));
    let tx =
        one(vec![(A, AccountDelta { pre: same, post: same, storage: vec![slot], wiped: false })]);
    let text = write(&Codes::default(), |out, codes| {
        write_geth_diff(out, &tx, GethOptions::default(), codes)
    });
    assert_eq!(
        text.unwrap(),
        format!(
            r#"{{"post":{{"{A:?}":{{}}}},"pre":{{"{A:?}":{{"balance":"0x7","nonce":3,"storage":{{"{SLOT:?}":"{:?}"}}}}}}}}"#,
            B256::with_last_byte(5)
        )
    );
    let (pre, post) = (Some(info(3, 7, &[1])), Some(info(4, 7, &[])));
    let tx = one(vec![(A, AccountDelta { pre, post, ..AccountDelta::default() })]);
    let known = [(keccak256([1]), Bytes::from([1]))].into_iter().collect();
    let text = write(&known, |out, codes| write_geth_diff(out, &tx, GethOptions::default(), codes));
    assert!(text.unwrap().starts_with(&format!(
        r#"{{"post":{{"{A:?}":{{"code":"0x","codeHash":"{KECCAK_EMPTY:?}","nonce":4}}}},"pre":{{"{A:?}":{{"balance":"0x7","code":"0x01","#
    )));
}

/// Rule D1: an account destroyed keeps all slots looked up, in order, zeros too.
#[test]
fn a_destroyed_account() {
    let (low, high) = (B256::with_last_byte(1), B256::with_last_byte(0xff));
    let delta = AccountDelta {
        pre: Some(info(1, 0, &[])),
        post: None,
        storage: vec![SlotDelta::new(SLOT, B256::with_last_byte(5), B256::ZERO)],
        wiped: true,
    };
    let mut tx = one(vec![(A, delta)]);
    tx.zero_reads = vec![(A, vec![low, high])];
    let text = write(&Codes::default(), |out, codes| {
        write_geth_diff(out, &tx, GethOptions::default(), codes)
    });
    let (zero, five) = (B256::ZERO, B256::with_last_byte(5));
    assert_eq!(
        text.unwrap(),
        format!(
            r#"{{"post":{{}},"pre":{{"{A:?}":{{"balance":"0x0","nonce":1,"storage":{{"{low:?}":"{zero:?}","{SLOT:?}":"{five:?}","{high:?}":"{zero:?}"}}}}}}}}"#
        )
    );
}

/// Rule D9, in exact mode: an account that is not there, by its zero code hash.
#[test]
fn a_plain_state() {
    let absent = GethAccount { code_hash: Some(B256::ZERO), ..GethAccount::default() };
    let bare = GethAccount { code: Some(keccak256(code(0))), ..GethAccount::default() };
    let state = vec![(A, absent), (B, bare), (Address::repeat_byte(0xff), GethAccount::default())];
    let text = write(&codes(), |out, codes| write_geth_state(out, &state, codes)).unwrap();
    let hex = alloy_primitives::hex::encode(code(0));
    assert_eq!(
        text,
        format!(
            r#"{{"{A:?}":{{"codeHash":"{:?}"}},"{B:?}":{{"code":"0x{hex}"}},"0xffffffffffffffffffffffffffffffffffffffff":{{}}}}"#,
            B256::ZERO
        )
    );
}

#[test]
fn a_list() {
    let mut out = RopeBuilder::new();
    TraceList::open(&mut out).close(&mut out);
    assert_eq!(out.finish().to_vec(), b"[]");
    let mut out = RopeBuilder::new();
    let mut list = TraceList::open(&mut out);
    list.result(&mut out, &SLOT);
    out.push("1");
    list.end_entry(&mut out);
    list.error(&mut out, &B256::ZERO);
    out.push("\"out of gas\"");
    list.end_entry(&mut out);
    list.close(&mut out);
    assert_eq!(
        String::from_utf8(out.finish().to_vec()).unwrap(),
        format!(
            r#"[{{"txHash":"{SLOT:?}","result":1}},{{"txHash":"{:?}","error":"out of gas"}}]"#,
            B256::ZERO
        )
    );
}

#[test]
fn a_code_that_is_not_known_is_an_error() {
    let (tx, _) = sample();
    let hash = keccak256([0x60, 0x80]);
    let none = Codes::default();
    let written =
        write(&none, |out, codes| write_geth_diff(out, &tx, GethOptions::default(), codes));
    assert_eq!(written, Err(MissingCode { hash }));
    let options = GethOptions { disable_code: true, ..GethOptions::default() };
    assert!(write(&none, |out, codes| write_geth_diff(out, &tx, options, codes)).is_ok());
}

/// The shape without the writer: keys in order, through a tree.
fn expected(state: &[(Address, GethAccount)], codes: &Codes) -> String {
    let accounts: Vec<String> = state
        .iter()
        .map(|(address, account)| {
            let mut fields = Vec::new();
            if let Some(balance) = account.balance {
                fields.push(format!(r#""balance":"{balance:#x}""#));
            }
            if let Some(hash) = account.code {
                fields.push(format!(r#""code":"{}""#, codes.get(&hash).unwrap()));
            }
            if let Some(hash) = account.code_hash {
                fields.push(format!(r#""codeHash":"{hash:?}""#));
            }
            if account.nonce != 0 {
                fields.push(format!(r#""nonce":{}"#, account.nonce));
            }
            if !account.storage.is_empty() {
                let slots: Vec<String> =
                    account.storage.iter().map(|(k, v)| format!(r#""{k:?}":"{v:?}""#)).collect();
                fields.push(format!(r#""storage":{{{}}}"#, slots.join(",")));
            }
            format!(r#""{address:?}":{{{}}}"#, fields.join(","))
        })
        .collect();
    format!("{{{}}}", accounts.join(","))
}

proptest! {
    #[test]
    fn the_fast_path_writes_what_the_pair_says(tx in tx(), disable_code: bool, disable_storage: bool) {
        let options = GethOptions { disable_code, disable_storage };
        let codes = codes();
        let fast = write(&codes, |out, codes| write_geth_diff(out, &tx, options, codes)).unwrap();
        let pair = GethDiff::of(&tx, options);
        let slow = write(&codes, |out, codes| write_geth_pair(out, &pair, codes)).unwrap();
        prop_assert_eq!(&fast, &slow);
        let plain = format!(r#"{{"post":{},"pre":{}}}"#, expected(&pair.post, &codes), expected(&pair.pre, &codes));
        prop_assert_eq!(&fast, &plain);
    }
}

//! The own views (`prestate_*`): both sides of a change, with the same keys, so that applying
//! `post` goes forward and applying `pre` goes back.

use crate::{CodeSource, MissingCode, RopeBuilder, geth::push_slot};
use prestate_types::{
    AccountDelta, AccountInfo, BlockDiff, BlockSummary, KECCAK_EMPTY, StateDiff, TxDiff,
};

/// How an account's code is shown when it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CodeView {
    /// Not at all.
    None,
    /// `codeHash`.
    #[default]
    Hash,
    /// `code` and `codeHash`.
    Full,
}

/// Writes `{"block":{…},"pre":{…},"post":{…}}`.
///
/// # Errors
/// A code to be shown is not known. What was written before stays in `out`, which is then of no
/// use.
pub fn write_block_diff<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    block: &BlockDiff,
    code: CodeView,
    codes: &C,
) -> Result<(), MissingCode> {
    out.push(b"{\"block\":");
    write_block_summary(out, &block.summary);
    out.push(b",");
    write_sides(out, &block.diff, code, codes)?;
    out.push(b"}");
    Ok(())
}

/// Writes `{"number":"0x…","hash":"0x…","parentHash":"0x…","timestamp":"0x…"}`.
pub fn write_block_summary(out: &mut RopeBuilder, summary: &BlockSummary) {
    out.push(b"{\"number\":\"");
    out.push_quantity(summary.block.number);
    out.push(b"\",\"hash\":\"");
    out.push_hex(summary.block.hash.as_slice());
    out.push(b"\",\"parentHash\":\"");
    out.push_hex(summary.parent_hash.as_slice());
    out.push(b"\",\"timestamp\":\"");
    out.push_quantity(summary.timestamp);
    out.push(b"\"}");
}

/// Writes `{"txHash":"0x…","index":"0x…","pre":{…},"post":{…}}`.
///
/// # Errors
/// As [`write_block_diff`].
pub fn write_transaction_diff<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    tx: &TxDiff,
    code: CodeView,
    codes: &C,
) -> Result<(), MissingCode> {
    out.push(b"{\"txHash\":\"");
    out.push_hex(tx.hash.as_slice());
    out.push(b"\",\"index\":\"");
    out.push_quantity(tx.index);
    out.push(b"\",");
    write_sides(out, &tx.diff, code, codes)?;
    out.push(b"}");
    Ok(())
}

/// Writes `"pre":{…},"post":{…}`, without braces around.
///
/// Accounts and slots ascend. An account that does not exist on a side is `null` there and shown
/// whole on the other; else only what changed is shown, on both sides. A slot that is not set is
/// the zero word. An account whose whole storage was cleared on the way carries
/// `"storageWiped":true` in `post`, see [`AccountDelta::wiped`]; where it is `null` that goes
/// without saying.
///
/// # Errors
/// As [`write_block_diff`].
pub fn write_sides<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    diff: &StateDiff,
    code: CodeView,
    codes: &C,
) -> Result<(), MissingCode> {
    for (side, name) in [(Side::Pre, &b"\"pre\":{"[..]), (Side::Post, b"},\"post\":{")] {
        out.push(name);
        for (at, (address, delta)) in diff.iter().enumerate() {
            out.push(if at == 0 { &b"\""[..] } else { b",\"" });
            out.push_hex(address.as_slice());
            out.push(b"\":");
            write_account(out, delta, side, code, codes)?;
        }
    }
    out.push(b"}");
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Pre,
    Post,
}

fn write_account<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    delta: &AccountDelta,
    side: Side,
    code: CodeView,
    codes: &C,
) -> Result<(), MissingCode> {
    let (here, there) = match side {
        Side::Pre => (delta.pre, delta.post),
        Side::Post => (delta.post, delta.pre),
    };
    let Some(here) = here else {
        out.push(b"null");
        return Ok(());
    };
    let changed = |differs: fn(&AccountInfo, &AccountInfo) -> bool| {
        there.is_none_or(|there| differs(&here, &there))
    };
    let mut fields = Keys { out, first: true };
    if changed(|a, b| a.balance != b.balance) {
        fields.key(b"balance\":\"").push_quantity_256(&here.balance);
        fields.out.push(b"\"");
    }
    if code != CodeView::None && changed(|a, b| a.code_hash != b.code_hash) {
        let hash = here.code_hash;
        if code == CodeView::Hash {
            fields.key(b"codeHash\":\"").push_hex(hash.as_slice());
        } else if hash == KECCAK_EMPTY {
            fields.key(b"code\":\"0x\",\"codeHash\":\"").push_hex(hash.as_slice());
        } else {
            let segment = codes.code(&hash).ok_or(MissingCode { hash })?;
            fields.key(b"code\":\"").push_code(segment);
        }
        fields.out.push(b"\"");
    }
    if changed(|a, b| a.nonce != b.nonce) {
        fields.key(b"nonce\":\"").push_quantity(here.nonce);
        fields.out.push(b"\"");
    }
    if !delta.storage.is_empty() {
        fields.key(b"storage\":{");
        for (at, slot) in delta.storage.iter().enumerate() {
            if at > 0 {
                fields.out.push(b",");
            }
            let value = if side == Side::Pre { &slot.pre } else { &slot.post };
            push_slot(fields.out, &slot.slot, value);
        }
        fields.out.push(b"}");
    }
    if delta.wiped && side == Side::Post {
        fields.key(b"storageWiped\":true");
    }
    let close: &[u8] = if fields.first { b"{}" } else { b"}" };
    fields.out.push(close);
    Ok(())
}

/// Separates the keys of an object.
struct Keys<'a> {
    out: &'a mut RopeBuilder,
    first: bool,
}

impl Keys<'_> {
    /// Writes a separator, the key's opening quote and what is given.
    fn key(&mut self, text: &[u8]) -> &mut RopeBuilder {
        self.out.push(if std::mem::take(&mut self.first) { &b"{\""[..] } else { b",\"" });
        self.out.push(text);
        self.out
    }
}

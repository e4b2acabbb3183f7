//! What Geth prints, byte for byte (`eth/tracers/native/prestate.go`, `gen_account_json.go`).

use crate::{CodeSource, MissingCode, RopeBuilder};
use alloy_primitives::{Address, B256, U256};
use prestate_types::{
    AccountDelta, AccountInfo, GethAccount, GethDiff, GethOptions, GethState, KECCAK_EMPTY, TxDiff,
};

/// The fields of one account in Geth's order, each left out when it has nothing to print.
struct Fields {
    balance: Option<U256>,
    code: Option<B256>,
    code_hash: Option<B256>,
    nonce: u64,
}

/// Writes a JSON object of accounts.
struct Accounts<'a, C: ?Sized> {
    out: &'a mut RopeBuilder,
    codes: &'a C,
    first: bool,
}

impl<'a, C: CodeSource + ?Sized> Accounts<'a, C> {
    fn open(out: &'a mut RopeBuilder, codes: &'a C) -> Self {
        out.push(b"{");
        Self { out, codes, first: true }
    }

    fn account(
        &mut self,
        address: &Address,
        fields: Fields,
        slots: impl Iterator<Item = (B256, B256)>,
    ) -> Result<(), MissingCode> {
        let out = &mut *self.out;
        out.push(if std::mem::take(&mut self.first) { &b"\""[..] } else { b",\"" });
        out.push_hex(address.as_slice());
        // What separates a field from what stands before it.
        let mut lead: &[u8] = b"\":{\"";
        let empty: &[u8] = b"\":{";
        let next: &[u8] = b",\"";
        if let Some(balance) = fields.balance {
            out.push(lead);
            out.push(b"balance\":\"");
            out.push_quantity_256(&balance);
            out.push(b"\"");
            lead = next;
        }
        let mut code_hash = fields.code_hash;
        if let Some(hash) = fields.code {
            out.push(lead);
            out.push(b"code\":\"");
            lead = next;
            if hash == KECCAK_EMPTY {
                out.push(b"0x\"");
            } else {
                let segment = self.codes.code(&hash).ok_or(MissingCode { hash })?;
                if code_hash == Some(hash) {
                    out.push_code(segment);
                    code_hash = None;
                } else {
                    out.push(segment.code_text());
                }
                out.push(b"\"");
            }
        }
        if let Some(hash) = code_hash {
            out.push(lead);
            out.push(b"codeHash\":\"");
            out.push_hex(hash.as_slice());
            out.push(b"\"");
            lead = next;
        }
        if fields.nonce != 0 {
            out.push(lead);
            out.push(b"nonce\":");
            out.push_decimal(fields.nonce);
            lead = next;
        }
        let mut any_slot = false;
        for (slot, value) in slots {
            if any_slot {
                out.push(b",");
            } else {
                out.push(lead);
                out.push(b"storage\":{");
                any_slot = true;
            }
            push_slot(out, &slot, &value);
        }
        if any_slot {
            out.push(b"}}");
        } else {
            if lead.len() != next.len() {
                out.push(empty);
            }
            out.push(b"}");
        }
        Ok(())
    }

    fn close(self) {
        self.out.push(b"}");
    }
}

/// `"0x<slot>":"0x<value>"`
pub(crate) fn push_slot(out: &mut RopeBuilder, slot: &B256, value: &B256) {
    out.push(b"\"");
    out.push_hex(slot.as_slice());
    out.push(b"\":\"");
    out.push_hex(value.as_slice());
    out.push(b"\"");
}

impl Fields {
    fn of(account: &GethAccount) -> Self {
        let GethAccount { balance, code, code_hash, nonce, .. } = account;
        Self { balance: *balance, code: *code, code_hash: *code_hash, nonce: *nonce }
    }

    fn snapshot(info: &AccountInfo, options: GethOptions) -> Self {
        let code_hash = info.has_code().then_some(info.code_hash);
        Self {
            balance: Some(info.balance),
            code: code_hash.filter(|_| !options.disable_code),
            code_hash,
            nonce: info.nonce,
        }
    }

    fn changes(pre: &AccountInfo, post: &AccountInfo, options: GethOptions) -> Self {
        let code_hash = (pre.code_hash != post.code_hash).then_some(post.code_hash);
        Self {
            balance: (pre.balance != post.balance).then_some(post.balance),
            code: code_hash.filter(|_| !options.disable_code),
            code_hash,
            nonce: if pre.nonce == post.nonce { 0 } else { post.nonce },
        }
    }
}

/// Writes the plain mode's result: an object of accounts, ascending by address.
///
/// # Errors
/// A code to be shown is not known. What was written before stays in `out`, which is then of no
/// use.
pub fn write_geth_state<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    state: &GethState,
    codes: &C,
) -> Result<(), MissingCode> {
    let mut accounts = Accounts::open(out, codes);
    for (address, account) in state {
        accounts.account(address, Fields::of(account), account.storage.iter().copied())?;
    }
    accounts.close();
    Ok(())
}

/// Writes the diff mode's result, `{"post":{…},"pre":{…}}` (rule I1), from a finished pair.
///
/// # Errors
/// As [`write_geth_state`].
pub fn write_geth_pair<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    diff: &GethDiff,
    codes: &C,
) -> Result<(), MissingCode> {
    out.push(b"{\"post\":");
    write_geth_state(out, &diff.post, codes)?;
    out.push(b",\"pre\":");
    write_geth_state(out, &diff.pre, codes)?;
    out.push(b"}");
    Ok(())
}

/// Writes the diff mode's result straight from what a transaction changed: the text that
/// [`write_geth_pair`] writes of [`GethDiff::of`], without the pair in between.
///
/// # Errors
/// As [`write_geth_state`].
pub fn write_geth_diff<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    tx: &TxDiff,
    options: GethOptions,
    codes: &C,
) -> Result<(), MissingCode> {
    out.push(b"{\"post\":");
    let mut accounts = Accounts::open(out, codes);
    for (address, delta) in &tx.diff {
        let before = delta.pre.unwrap_or_default();
        let Some(after) = delta.post else { continue };
        if before == after && !shows_storage(delta, options) {
            continue;
        }
        let slots = shown(delta, options).map(|slot| (slot.slot, slot.post));
        let set = slots.filter(|(_, value)| !value.is_zero());
        accounts.account(address, Fields::changes(&before, &after, options), set)?;
    }
    accounts.close();
    out.push(b",\"pre\":");
    let mut accounts = Accounts::open(out, codes);
    for (address, delta) in &tx.diff {
        // Rule D10: what was empty is not shown.
        let before = delta.pre.unwrap_or_default();
        if before.is_empty() {
            continue;
        }
        let fields = Fields::snapshot(&before, options);
        let slots = shown(delta, options).map(|slot| (slot.slot, slot.pre));
        match delta.post {
            Some(after) if before == after && !shows_storage(delta, options) => {}
            // Rule D6: zero is left out.
            Some(_) => accounts.account(address, fields, slots.filter(|(_, v)| !v.is_zero()))?,
            // Rule D1: everything looked up, zeros too.
            None => {
                let reads = if options.disable_storage { &[][..] } else { zero_reads(tx, address) };
                accounts.account(address, fields, merged(slots, reads))?;
            }
        }
    }
    accounts.close();
    out.push(b"}");
    Ok(())
}

fn shows_storage(delta: &AccountDelta, options: GethOptions) -> bool {
    !options.disable_storage && !delta.storage.is_empty()
}

fn shown(
    delta: &AccountDelta,
    options: GethOptions,
) -> impl Iterator<Item = &prestate_types::SlotDelta> {
    let shown = if options.disable_storage { &[][..] } else { &delta.storage };
    shown.iter()
}

fn zero_reads<'a>(tx: &'a TxDiff, address: &Address) -> &'a [B256] {
    tx.zero_reads
        .binary_search_by_key(address, |(reader, _)| *reader)
        .map_or(&[][..], |at| &tx.zero_reads[at].1)
}

/// Two ascending lists as one.
fn merged<'a>(
    slots: impl Iterator<Item = (B256, B256)> + 'a,
    zeros: &'a [B256],
) -> impl Iterator<Item = (B256, B256)> + 'a {
    let mut slots = slots.peekable();
    let mut zeros = zeros.iter().peekable();
    std::iter::from_fn(move || match (slots.peek(), zeros.peek()) {
        (Some((slot, _)), Some(zero)) if slot < *zero => slots.next(),
        (_, Some(_)) => zeros.next().map(|slot| (*slot, B256::ZERO)),
        _ => slots.next(),
    })
}

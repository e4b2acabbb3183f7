use crate::RopeBuilder;
use alloy_primitives::B256;

/// The list that `debug_traceBlock*` answers with: `[{"txHash":"0x…","result":…},…]` (rule J1),
/// written one transaction at a time.
///
/// ```
/// use prestate_wire::{RopeBuilder, TraceList};
///
/// let mut out = RopeBuilder::new();
/// let mut list = TraceList::open(&mut out);
/// list.result(&mut out, &Default::default());
/// out.push("{}");
/// list.end_entry(&mut out);
/// list.close(&mut out);
/// assert!(out.finish().to_vec().ends_with(b"\"result\":{}}]"));
/// ```
#[derive(Debug)]
#[must_use = "a list has to be closed"]
pub struct TraceList {
    first: bool,
}

impl TraceList {
    /// Writes the opening bracket.
    pub fn open(out: &mut RopeBuilder) -> Self {
        out.push(b"[");
        Self { first: true }
    }

    /// Starts an entry up to its result, which the caller writes next.
    pub fn result(&mut self, out: &mut RopeBuilder, tx_hash: &B256) {
        self.entry(out, tx_hash);
        out.push(b"\"result\":");
    }

    /// Starts an entry that failed; the caller writes the error's text next, as a JSON string
    /// with its quotes (rule J2).
    pub fn error(&mut self, out: &mut RopeBuilder, tx_hash: &B256) {
        self.entry(out, tx_hash);
        out.push(b"\"error\":");
    }

    fn entry(&mut self, out: &mut RopeBuilder, tx_hash: &B256) {
        out.push(if std::mem::take(&mut self.first) {
            &b"{\"txHash\":\""[..]
        } else {
            b",{\"txHash\":\""
        });
        out.push_hex(tx_hash.as_slice());
        out.push(b"\",");
    }

    /// Ends the entry.
    pub fn end_entry(&mut self, out: &mut RopeBuilder) {
        out.push(b"}");
    }

    /// Writes the closing bracket.
    pub fn close(self, out: &mut RopeBuilder) {
        out.push(b"]");
    }
}

use alloy_primitives::{B256, map::B256Map};
use prestate_wire::Rope;

/// Bytes held by all replies of a cache, shared codes once.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    owned_bytes: u64,
    code_bytes: u64,
    codes: B256Map<Shared>,
}

/// A code and how many replies show it.
#[derive(Debug, Default)]
struct Shared {
    replies: u64,
    bytes: u64,
}

impl Ledger {
    pub(super) fn owned_bytes(&self) -> u64 {
        self.owned_bytes
    }

    pub(super) fn code_bytes(&self) -> u64 {
        self.code_bytes
    }

    pub(super) fn codes(&self) -> u64 {
        self.codes.len() as u64
    }

    pub(super) fn add(&mut self, reply: &Rope, owned_bytes: u64) {
        self.owned_bytes += owned_bytes;
        for code in reply.codes() {
            self.codes.entry(*code.hash()).or_default().replies += 1;
            self.measure(code.hash(), code.memory_bytes());
        }
    }

    pub(super) fn remove(&mut self, reply: &Rope, owned_bytes: u64) {
        self.owned_bytes -= owned_bytes;
        for code in reply.codes() {
            self.release(code.hash());
        }
    }

    /// The reply, and its codes with it, grew since it was last looked at.
    pub(super) fn recount(&mut self, reply: &Rope, before: u64, after: u64) {
        self.owned_bytes = self.owned_bytes - before + after;
        for code in reply.codes() {
            self.measure(code.hash(), code.memory_bytes());
        }
    }

    fn measure(&mut self, hash: &B256, bytes: u64) {
        if let Some(shared) = self.codes.get_mut(hash) {
            self.code_bytes = self.code_bytes - shared.bytes + bytes;
            shared.bytes = bytes;
        }
    }

    fn release(&mut self, hash: &B256) {
        if let Some(shared) = self.codes.get_mut(hash) {
            shared.replies -= 1;
            if shared.replies == 0 {
                self.code_bytes -= shared.bytes;
                self.codes.remove(hash);
            }
        }
    }
}

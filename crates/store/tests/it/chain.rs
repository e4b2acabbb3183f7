//! A made-up chain: block `(number, fork)` is always the same block, so that a test can ask what
//! must be there without having kept it.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use prestate_store::ChainId;
use prestate_types::{
    AccountDelta, AccountInfo, BlockFacts, BlockRef, BlockSummary, Codes, SlotDelta, StateDiff,
    TxDiff,
};

/// Xorshift* (Marsaglia 2003): plain and always the same.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) fn chain_id() -> ChainId {
    ChainId { chain_id: 1337, genesis_hash: B256::repeat_byte(0x67) }
}

/// Hash of a block. A fork numbered `f` leaves fork 0 at every height it is asked for: its parent
/// is the block of the same fork one below.
pub(crate) fn hash(number: u64, fork: u64) -> B256 {
    keccak256([number.to_be_bytes(), fork.to_be_bytes()].concat())
}

pub(crate) fn block_ref(number: u64, fork: u64) -> BlockRef {
    BlockRef::new(number, hash(number, fork))
}

fn code(number: u64) -> Bytes {
    let mut random = Random::new(number);
    (0..200 + random.below(20_000)).map(|at| (at as u8) ^ (number as u8)).collect()
}

/// The block `(number, fork)` on top of `(number - 1, parent_fork)`, with the codes it needs.
pub(crate) fn block(number: u64, fork: u64, parent_fork: u64, txs: u64) -> (BlockFacts, Codes) {
    let mut random = Random::new(number.wrapping_mul(31).wrapping_add(fork));
    let mut codes = Codes::default();
    let mut diff = |accounts: u64, seed: u64| {
        let mut random = Random::new(seed);
        let entries = (0..accounts)
            .map(|_| {
                let address =
                    Address::from_slice(&keccak256(random.below(300).to_be_bytes())[..20]);
                let body = code(random.below(40));
                let code_hash = keccak256(&body);
                codes.insert(code_hash, body);
                let nonce = random.below(1000);
                let balance = U256::from(random.next()) << 20;
                let pre = AccountInfo { nonce, balance, code_hash };
                let post = AccountInfo {
                    nonce: nonce + 1,
                    balance: balance + U256::from(random.next()),
                    code_hash,
                };
                let storage = (0..random.below(6))
                    .map(|slot| {
                        let key = keccak256((slot + random.below(1000) * 8).to_be_bytes());
                        SlotDelta::new(
                            key,
                            U256::from(random.next()).into(),
                            U256::from(random.next()).into(),
                        )
                    })
                    .collect();
                (address, AccountDelta { pre: Some(pre), post: Some(post), storage, wiped: false })
            })
            .collect::<std::collections::BTreeMap<_, _>>();
        StateDiff::from_unsorted(entries.into_iter().collect())
    };
    let txs = (0..txs)
        .map(|index| TxDiff {
            hash: keccak256([number.to_be_bytes(), index.to_be_bytes(), [7; 8]].concat()),
            index,
            diff: diff(1 + index % 4, random.next()),
            zero_reads: Vec::new(),
        })
        .collect();
    let summary = BlockSummary {
        block: block_ref(number, fork),
        parent_hash: number.checked_sub(1).map_or(B256::ZERO, |below| hash(below, parent_fork)),
        timestamp: 1_600_000_000 + number * 12,
    };
    let facts = BlockFacts {
        summary,
        pre_system: diff(1, number),
        txs,
        post_system: diff(2, number ^ 0xffff),
    };
    (facts, codes)
}

/// A block of the plain chain with a few transactions.
pub(crate) fn plain(number: u64) -> (BlockFacts, Codes) {
    block(number, 0, 0, 5)
}

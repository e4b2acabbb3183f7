use super::{TrafficContracts, TrafficShape, contracts};
use alloy_primitives::{Address, Bytes, U256};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Gas that a token transfer takes at most.
pub(super) const TRANSFER_GAS: u64 = 80_000;
/// Gas that a swap takes at most.
pub(super) const SWAP_GAS: u64 = 180_000;
/// Accounts that tokens and ether are sent to, again and again.
const RECIPIENTS: u64 = 5_000;

/// What a transaction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Action {
    /// `None` creates a contract.
    pub(super) to: Option<Address>,
    pub(super) input: Bytes,
    pub(super) value: U256,
    pub(super) gas: u64,
}

/// What traders do, one action after another. The same seed gives the same actions.
pub(super) struct Actions {
    random: StdRng,
    contracts: TrafficContracts,
    /// Swaps and plain transfers of ether, in percent; the others are token transfers.
    swaps: u32,
    ether: u32,
}

impl Actions {
    pub(super) fn new(seed: u64, contracts: TrafficContracts, shape: TrafficShape) -> Self {
        let (swaps, ether) = match shape {
            TrafficShape::Steady => (60, 10),
            // A block of 8 MiB (EIP-7934) has room for mostly short ones.
            TrafficShape::Heavy => (10, 10),
        };
        Self { random: StdRng::seed_from_u64(seed), contracts, swaps, ether }
    }

    /// Who does what next.
    pub(super) fn next(&mut self) -> (usize, Action) {
        let random = &mut self.random;
        let trader = random.random_range(0..usize::MAX);
        let kind = random.random_range(0..100);
        // Six decades of amounts, as people have them.
        let amount = U256::from(random.random_range(1..1_000_u64))
            * U256::from(10).pow(U256::from(random.random_range(12..17_u64)));
        let action = if kind < self.swaps {
            let pool = &self.contracts.pools[random.random_range(0..self.contracts.pools.len())];
            Action::call(pool.address, contracts::swap(random.random(), amount), SWAP_GAS)
        } else {
            let to = recipient(random.random_range(0..RECIPIENTS));
            if kind < self.swaps + self.ether {
                Action { to: Some(to), input: Bytes::new(), value: amount, gas: 21_000 }
            } else {
                let at = random.random_range(0..self.contracts.tokens.len());
                let token = self.contracts.tokens[at].address;
                Action::call(token, contracts::transfer(to, amount), TRANSFER_GAS)
            }
        };
        (trader, action)
    }
}

/// An account without a key that anybody has.
fn recipient(number: u64) -> Address {
    Address::from_word(alloy_primitives::keccak256(format!("prestate dev recipient {number}")))
}

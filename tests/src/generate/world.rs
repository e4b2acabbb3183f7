//! A whole random chain: accounts, contracts, blocks.

use super::{
    asm::Code,
    chain::BlockRecipe,
    genesis::{Fork, GenesisPlan},
    keys::Keys,
    program::{Programs, SALTS},
    traffic::Traffic,
    transaction::Recipe,
};
use alloy_primitives::{Address, B256, U256, hex};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// Keys that send.
pub const SENDERS: std::ops::Range<usize> = 0..8;
/// Keys that only delegate.
pub const AUTHORITIES: std::ops::Range<usize> = 8..16;
const CONTRACTS: usize = 28;
const PROBES: usize = 12;

/// A contract of the genesis file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// Where it is.
    pub address: Address,
    /// Its code, in pieces that can be dropped one by one.
    pub pieces: Vec<Code>,
    /// Wei.
    pub balance: u128,
    /// Slots.
    pub slots: Vec<(u64, u64)>,
}

/// A chain made from a seed.
#[derive(Debug, Clone)]
pub struct World {
    /// Rules.
    pub fork: Fork,
    /// Contracts.
    pub contracts: Vec<Contract>,
    /// Plain accounts with wei; zero makes an empty account.
    pub accounts: Vec<(Address, u128)>,
    /// Keys delegated at genesis, from Prague on.
    pub delegations: Vec<(usize, Address)>,
    /// Blocks.
    pub blocks: Vec<BlockRecipe>,
    /// Whom calls outside the chain go to; some may have no code.
    pub callees: Vec<Address>,
}

impl World {
    /// The chain of a seed: `blocks` blocks of about `transactions` transactions.
    pub fn random(seed: u64, fork: Fork, blocks: usize, transactions: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let keys = Self::keys();
        let place = |kind: u8, index: usize| {
            let mut word = B256::repeat_byte(kind);
            word[30..].copy_from_slice(&(index as u16).to_be_bytes());
            Address::from_word(word)
        };
        let contracts: Vec<_> = (0..CONTRACTS + PROBES).map(|index| place(0xc0, index)).collect();
        let funded: Vec<_> = (0..4).map(|index| place(0xf0, index)).collect();
        let absent: Vec<_> = (0..4).map(|index| place(0xab, index)).collect();
        let precompiles = (1..5u8).map(Address::with_last_byte);

        let mut known = contracts.clone();
        known.extend(funded.iter().chain(&absent).copied());
        known.extend(precompiles);
        known.extend(AUTHORITIES.map(|key| keys.address(key)));
        known.push(keys.address(0));
        let mut programs = Programs::new(fork, known, rng);
        // Where the shared init codes end up when the contracts create them.
        let mut ahead = Vec::new();
        for creator in contracts.iter().take(6) {
            for init in programs.stock() {
                ahead.extend(SALTS.map(|salt| init.create2_address(*creator, salt)));
            }
            ahead.extend((1..3).map(|nonce| creator.create(nonce)));
        }
        ahead.extend(
            SENDERS
                .flat_map(|key| (0..3).map(move |nonce| (key, nonce)))
                .map(|(key, nonce)| keys.address(key).create(nonce)),
        );
        let some: Vec<_> = (0..24).filter_map(|_| ahead.choose(rng).copied()).collect();
        programs.know(some.iter().copied());

        let mut accounts: Vec<_> = funded.iter().map(|&address| (address, 1_000_000)).collect();
        accounts.push((place(0xe0, 0), 0));
        accounts.extend(some.iter().take(6).map(|&address| (address, 77)));
        let mut deployed: Vec<_> = contracts
            .iter()
            .enumerate()
            .map(|(index, &address)| Contract {
                address,
                pieces: if index < CONTRACTS {
                    programs.contract(rng)
                } else {
                    programs.probe(rng)
                },
                balance: if rng.random_bool(0.5) { rng.random_range(0..1_000) } else { 0 },
                slots: slots(rng),
            })
            .collect();
        // Occupants of addresses that creators will ask for.
        deployed.extend(some.iter().skip(6).take(5).map(|&address| Contract {
            address,
            pieces: programs.contract(rng),
            balance: rng.random_range(0..9),
            slots: slots(rng),
        }));
        let delegations = if fork >= Fork::Prague {
            AUTHORITIES.take(4).map(|key| (key, programs.address(rng))).collect()
        } else {
            Vec::new()
        };
        let callees = deployed.iter().map(|contract| contract.address).collect();
        let traffic = Traffic::new(fork, programs, contracts, &keys);
        let blocks = (0..blocks).map(|_| traffic.block(rng, transactions)).collect();
        Self { fork, contracts: deployed, accounts, delegations, blocks, callees }
    }

    /// The keys such chains use.
    pub fn keys() -> Keys {
        Keys::new(AUTHORITIES.end)
    }

    /// Transactions in all blocks.
    pub fn transactions(&self) -> impl Iterator<Item = &Recipe> {
        self.blocks.iter().flat_map(|block| &block.transactions)
    }

    /// Its genesis file.
    pub fn genesis(&self) -> GenesisPlan {
        let keys = Self::keys();
        let mut genesis = GenesisPlan::new(self.fork);
        for key in SENDERS {
            genesis.fund(keys.address(key), 10u128.pow(24));
        }
        for &(address, wei) in &self.accounts {
            genesis.fund(address, wei);
        }
        for contract in &self.contracts {
            let code = contract.pieces.iter().fold(Code::new(), |code, piece| code.then(piece));
            genesis.contract(contract.address, &code, contract.balance, &contract.slots);
        }
        for &(key, target) in &self.delegations {
            let mut designator = hex!("ef0100").to_vec();
            designator.extend_from_slice(target.as_slice());
            genesis.contract(keys.address(key), &designator.into(), 5_000, &[]);
        }
        // Authorities hold wei or do not exist at all.
        for key in AUTHORITIES.skip(4).take(2) {
            genesis.accounts.entry(keys.address(key)).or_default().balance = U256::from(9_999);
        }
        genesis
    }
}

fn slots(rng: &mut StdRng) -> Vec<(u64, u64)> {
    (0..rng.random_range(0..4)).map(|_| (rng.random_range(0..6), rng.random_range(1..4))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_chain_again() {
        let make = || World::random(7, Fork::Prague, 3, 10);
        let (one, two) = (make(), make());
        assert_eq!(one.genesis(), two.genesis());
        assert!(one.transactions().eq(two.transactions()));
        assert_ne!(one.genesis(), World::random(8, Fork::Prague, 3, 10).genesis());
        assert!(one.transactions().count() >= 15);
    }
}

//! Random transactions and blocks.

use super::{
    chain::BlockRecipe,
    genesis::{CHAIN_ID, Fork},
    keys::Keys,
    program::Programs,
    transaction::{AuthNonce, Authorisation, Fee, Recipe, Shape},
    world::{AUTHORITIES, SENDERS},
};
use alloy_primitives::{Address, Bytes, U256, hex, keccak256};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

/// What blocks are filled with.
#[derive(Debug)]
pub(super) struct Traffic {
    fork: Fork,
    programs: Programs,
    contracts: Vec<Address>,
    senders: Vec<Address>,
}

impl Traffic {
    pub(super) fn new(
        fork: Fork,
        programs: Programs,
        contracts: Vec<Address>,
        keys: &Keys,
    ) -> Self {
        Self { fork, programs, contracts, senders: SENDERS.map(|key| keys.address(key)).collect() }
    }

    pub(super) fn block(&self, rng: &mut StdRng, transactions: usize) -> BlockRecipe {
        let coinbase = match rng.random_range(0..8) {
            // Seen for the first time.
            0..3 => Address::from_word(keccak256(rng.random::<u64>().to_be_bytes())),
            3 => self.senders.choose(rng).copied().unwrap_or_default(),
            4 => self.contracts.choose(rng).copied().unwrap_or_default(),
            5 => self.programs.address(rng),
            _ => Address::repeat_byte(0x77),
        };
        let count = rng.random_range(transactions / 2..=transactions + transactions / 2);
        let mut blobs = 0;
        let transactions = (0..count).map(|_| self.transaction(rng, &mut blobs)).collect();
        // A sender whose wei was moved away by delegated code gets some back.
        let refill = (self.senders.choose(rng).copied().unwrap_or_default(), 100_000_000_000);
        let withdrawals = (0..rng.random_range(0..3))
            .map(|_| (self.programs.address(rng), rng.random_range(0..2) * rng.random_range(1..9)));
        BlockRecipe { coinbase, transactions, withdrawals: withdrawals.chain([refill]).collect() }
    }

    fn transaction(&self, rng: &mut StdRng, blobs: &mut u8) -> Recipe {
        let creates = rng.random_ratio(1, 8);
        let to = match rng.random_range(0..10) {
            0..7 => self.contracts.choose(rng).copied().unwrap_or_default(),
            _ => self.programs.address(rng),
        };
        let value = match rng.random_range(0..6) {
            0..4 => 0,
            4 => rng.random_range(1..9),
            _ => rng.random_range(1..1u64 << 40),
        };
        let shape = self.shape(rng, creates, blobs);
        let (to, input) = if creates {
            (None, self.programs.init(rng, 0).bytes())
        } else {
            (Some(to), input(rng))
        };
        let mut recipe = Recipe {
            sender: rng.random_range(SENDERS),
            to,
            value: U256::from(value),
            input,
            gas: 0,
            fee: if rng.random_ratio(1, 5) {
                Fee::NoTip
            } else {
                Fee::Tip(rng.random_range(1..50))
            },
            shape,
        };
        recipe.gas = least_gas(&recipe)
            + match rng.random_range(0..12) {
                0 => 0,
                1 | 2 => rng.random_range(0..8_000),
                3 | 4 => rng.random_range(0..60_000),
                5..11 => rng.random_range(60_000..600_000),
                _ => rng.random_range(600_000..3_000_000),
            };
        recipe
    }

    fn shape(&self, rng: &mut StdRng, creates: bool, blobs: &mut u8) -> Shape {
        match rng.random_range(0..12) {
            0..2 => Shape::Legacy,
            2 => Shape::AccessList(self.access_list(rng)),
            3 => Shape::Dynamic(self.access_list(rng)),
            4 if self.fork >= Fork::Cancun && !creates && *blobs < 3 => {
                *blobs += 1;
                Shape::Blob(1)
            }
            5..8 if self.fork >= Fork::Prague && !creates => Shape::SetCode(
                (0..rng.random_range(1..4)).map(|_| self.authorisation(rng)).collect(),
            ),
            _ => Shape::Dynamic(Vec::new()),
        }
    }

    fn access_list(&self, rng: &mut StdRng) -> Vec<(Address, Vec<u64>)> {
        let slots = |rng: &mut StdRng| {
            (0..rng.random_range(0..3)).map(|_| rng.random_range(0..6)).collect()
        };
        (0..rng.random_range(0..3)).map(|_| (self.programs.address(rng), slots(rng))).collect()
    }

    fn authorisation(&self, rng: &mut StdRng) -> Authorisation {
        let authority = match rng.random_range(0..5) {
            0 => rng.random_range(SENDERS),
            // Few, so that the same account is delegated again and again.
            _ => rng.random_range(AUTHORITIES),
        };
        let target = match rng.random_range(0..6) {
            0 | 1 => Address::ZERO,
            2 => self.programs.address(rng),
            _ => self.contracts.choose(rng).copied().unwrap_or_default(),
        };
        let nonce = match rng.random_range(0..10) {
            0 => AuthNonce::Off(1),
            1 => AuthNonce::Exactly(u64::MAX),
            2 => AuthNonce::Exactly(rng.random_range(0..4)),
            _ => AuthNonce::Right,
        };
        Authorisation {
            authority,
            target,
            chain_id: *[CHAIN_ID, CHAIN_ID, CHAIN_ID, 0, 0, 999].choose(rng).unwrap_or(&0),
            nonce,
            recovers: !rng.random_ratio(1, 12),
        }
    }
}

/// Call data: none, a selector with arguments, or bytes.
fn input(rng: &mut StdRng) -> Bytes {
    let selectors = [hex!("a9059cbb"), hex!("23b872dd"), hex!("00000000"), hex!("deadbeef")];
    match rng.random_range(0..6) {
        0..3 => Bytes::new(),
        3 | 4 => {
            let mut data = selectors.choose(rng).copied().unwrap_or_default().to_vec();
            data.resize(4 + 32 * rng.random_range(0..3), rng.random_range(0..2));
            data.into()
        }
        _ => (0..rng.random_range(1..90))
            .map(|_| rng.random::<u8>() * rng.random_range(0..2))
            .collect(),
    }
}

/// No less than this makes a valid transaction (intrinsic gas, EIP-7623 floor), a little over.
fn least_gas(recipe: &Recipe) -> u64 {
    let bytes = recipe.input.len() as u64;
    let create = if recipe.to.is_none() { 32_000 + 2 * bytes.div_ceil(32) } else { 0 };
    let list = match &recipe.shape {
        Shape::AccessList(list) | Shape::Dynamic(list) => {
            list.iter().map(|(_, slots)| 2_400 + 1_900 * slots.len() as u64).sum()
        }
        Shape::SetCode(list) => 25_000 * list.len() as u64,
        _ => 0,
    };
    21_000 + 40 * bytes + create + list
}

//! Transactions of every kind that changes state in a way of its own, over contracts of a few
//! bytes each.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip7702, TxEnvelope};
use alloy_eips::{eip2718::Encodable2718, eip7702::Authorization};
use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;

pub(crate) const CHAIN_ID: u64 = 1337;

/// `f(n, base, value)`: sets slots `base..base + n` to `value, value + 1, …`.
const STORE: &str = "60005b806000351460\
    1c57806040350181602035015560010160025 65b00";
/// Makes a child with the value it is sent, whose constructor destroys it.
const SHORT_LIVED: &str = "6133ff6000526002601e34f000";
/// Sends its balance to the caller and is destroyed, if made in the same transaction.
const DESTROYED: &str = "33ff";
/// Sets a slot and reverts.
const REVERTING: &str = "600160005560006000fd";

fn code(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    hex.parse::<Bytes>().unwrap().to_vec()
}

/// A constructor that returns `runtime`.
fn deploying(runtime: &[u8]) -> Bytes {
    let length = u16::try_from(runtime.len()).unwrap().to_be_bytes();
    let mut init = vec![0x61, length[0], length[1], 0x60, 15, 0x5f, 0x39];
    init.extend([0x61, length[0], length[1], 0x5f, 0xf3]);
    // PUSH0 is one byte: the constructor is twelve long, and says so.
    init[4] = u8::try_from(init.len()).unwrap();
    init.extend(runtime);
    init.into()
}

/// An account that signs, with the nonce it is at.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    signer: PrivateKeySigner,
    pub(crate) nonce: u64,
}

impl Account {
    /// One of the accounts that reth's development genesis funds.
    pub(crate) fn funded() -> Self {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        Self { signer: key.parse().unwrap(), nonce: 0 }
    }

    /// An account of its own, empty at first.
    pub(crate) fn fresh(seed: u64) -> Self {
        let key = keccak256(seed.to_be_bytes());
        Self { signer: PrivateKeySigner::from_bytes(&key).unwrap(), nonce: 0 }
    }

    pub(crate) fn address(&self) -> Address {
        self.signer.address()
    }

    fn fees() -> (u128, u128) {
        (20_000_000_000, 1_000_000_000)
    }

    /// Signs the next transaction.
    pub(crate) fn send(&mut self, to: TxKind, value: u64, input: Bytes, gas_limit: u64) -> Bytes {
        let (max_fee_per_gas, max_priority_fee_per_gas) = Self::fees();
        let tx = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: self.nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value: U256::from(value),
            input,
            ..TxEip1559::default()
        };
        self.nonce += 1;
        let signature = self.signer.sign_hash_sync(&tx.signature_hash()).unwrap();
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
    }

    /// Signs a set-code transaction: `authority` is delegated to `to`, or set free by the zero
    /// address.
    pub(crate) fn delegate(&mut self, authority: &mut Self, to: Address) -> Bytes {
        let (max_fee_per_gas, max_priority_fee_per_gas) = Self::fees();
        let authorization =
            Authorization { chain_id: U256::from(CHAIN_ID), address: to, nonce: authority.nonce };
        authority.nonce += 1;
        let signature = authority.signer.sign_hash_sync(&authorization.signature_hash()).unwrap();
        let tx = TxEip7702 {
            chain_id: CHAIN_ID,
            nonce: self.nonce,
            gas_limit: 200_000,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to: authority.address(),
            authorization_list: vec![authorization.into_signed(signature)],
            ..TxEip7702::default()
        };
        self.nonce += 1;
        let signature = self.signer.sign_hash_sync(&tx.signature_hash()).unwrap();
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
    }
}

/// Where the contracts stand, and who calls them.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) payer: Account,
    pub(crate) store: Address,
    pub(crate) large: Address,
    short_lived: Address,
    destroyed: Address,
    reverting: Address,
    delegating: Account,
    step: u64,
}

impl Workload {
    /// Deploys the contracts, one of them with `large_code` bytes more than it runs.
    pub(crate) fn deploy(large_code: usize) -> (Self, Vec<Bytes>) {
        let mut payer = Account::funded();
        let mut large = code(STORE);
        // Not all alike: it must not compress to nothing.
        large.extend((0..large_code.div_ceil(32)).flat_map(|word| keccak256(word.to_be_bytes()).0));
        let runtimes = [code(STORE), large, code(SHORT_LIVED), code(DESTROYED), code(REVERTING)];
        let mut addresses = Vec::new();
        let mut txs = Vec::new();
        for runtime in runtimes {
            addresses.push(payer.address().create(payer.nonce));
            let gas = 200_000 + 260 * runtime.len() as u64;
            txs.push(payer.send(TxKind::Create, 0, deploying(&runtime), gas));
        }
        let workload = Self {
            payer,
            store: addresses[0],
            large: addresses[1],
            short_lived: addresses[2],
            destroyed: addresses[3],
            reverting: addresses[4],
            delegating: Account::fresh(u64::MAX),
            step: 0,
        };
        (workload, txs)
    }

    /// A call of a storing contract.
    pub(crate) fn store(&mut self, to: Address, slots: u64, base: u64, value: u64) -> Bytes {
        let words = [slots, base, value].map(|word| U256::from(word).to_be_bytes::<32>());
        let input = Bytes::from(words.concat());
        self.payer.send(TxKind::Call(to), 0, input, 60_000 + 23_000 * slots)
    }

    /// One of each kind, different from step to step.
    pub(crate) fn block(&mut self) -> Vec<Bytes> {
        self.step += 1;
        let step = self.step;
        let (store, large) = (self.store, self.large);
        let call = |to| TxKind::Call(to);
        let mut txs = vec![
            // New slots, changed ones, ones set to zero (the first value is the base).
            self.store(store, 3, step, step),
            self.store(store, 2, step.saturating_sub(2), 0),
            self.store(large, 2, step % 5, step),
            // A new account, then one that exists.
            self.payer.send(call(Account::fresh(step).address()), 1_000, Bytes::new(), 21_000),
            self.payer.send(call(Account::fresh(step / 2).address()), 1, Bytes::new(), 21_000),
            // Nothing but gas.
            self.payer.send(call(self.payer.address()), 0, Bytes::new(), 21_000),
            self.payer.send(call(self.short_lived), 5, Bytes::new(), 200_000),
            self.payer.send(call(self.short_lived), 0, Bytes::new(), 200_000),
            self.payer.send(call(self.destroyed), step, Bytes::new(), 100_000),
            self.payer.send(call(self.reverting), 0, Bytes::new(), 100_000),
            // Out of gas inside.
            self.payer.send(call(self.store), 0, self.input(50, step, 1), 60_000),
            // A contract that is made and stays, and one whose constructor fails.
            self.payer.send(TxKind::Create, step, deploying(&code(DESTROYED)), 200_000),
            self.payer.send(TxKind::Create, 0, code(REVERTING).into(), 200_000),
        ];
        let target = if step % 2 == 1 { self.store } else { Address::ZERO };
        let mut authority = self.delegating.clone();
        txs.push(self.payer.delegate(&mut authority, target));
        self.delegating = authority;
        txs
    }

    fn input(&self, slots: u64, base: u64, value: u64) -> Bytes {
        [slots, base, value].map(|word| U256::from(word).to_be_bytes::<32>()).concat().into()
    }
}

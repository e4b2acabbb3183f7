use super::actions::Action;
use crate::dev::{
    DevChain, DevError,
    build::{Tx, next_base_fee},
};
use alloy_consensus::{SignableTransaction, TxEip1559, transaction::Recovered};
use alloy_primitives::{Address, Bytes, TxKind, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use prestate_host::{Host, StateReader};
use std::{collections::BTreeMap, thread};

/// The tip of the traffic in wei: above nothing, below what clients offer.
const TIP_WEI: u128 = 100_000_000;
/// Fewer signatures than this are not worth a thread.
const SIGNED_BY_ONE: usize = 256;

/// Keys of the traffic, the same on every chain; not those of the funded accounts, so that their
/// nonces are left alone.
pub(super) struct Traders {
    deployer: PrivateKeySigner,
    traders: Vec<PrivateKeySigner>,
}

impl Traders {
    pub(super) fn new(count: usize) -> Self {
        let key = |index: usize| {
            let mut secret = keccak256(format!("prestate dev traffic {index}"));
            loop {
                // One hash in 2^128 is no key.
                match PrivateKeySigner::from_bytes(&secret) {
                    Ok(signer) => return signer,
                    Err(_) => secret = keccak256(secret),
                }
            }
        };
        Self { deployer: key(0), traders: (1..=count).map(key).collect() }
    }

    pub(super) fn deployer(&self) -> Address {
        self.deployer.address()
    }

    pub(super) fn len(&self) -> usize {
        self.traders.len()
    }

    pub(super) fn address(&self, trader: usize) -> Address {
        self.traders[trader % self.traders.len()].address()
    }

    /// All, the deployer first.
    pub(super) fn addresses(&self) -> Vec<Address> {
        std::iter::once(self.deployer()).chain((0..self.len()).map(|at| self.address(at))).collect()
    }

    /// Signs actions of traders, each with its sender's next nonce.
    pub(super) fn sign(
        &self,
        chain: &DevChain,
        actions: &[(usize, Action)],
    ) -> Result<Vec<Recovered<Tx>>, DevError> {
        let signer = |trader: usize| &self.traders[trader % self.traders.len()];
        let unsigned = actions.iter().map(|(trader, action)| (signer(*trader), action.clone()));
        sign_all(chain, unsigned.collect())
    }

    /// Signs actions of the deployer.
    pub(super) fn sign_deployer(
        &self,
        chain: &DevChain,
        actions: Vec<Action>,
    ) -> Result<Vec<Recovered<Tx>>, DevError> {
        sign_all(chain, actions.into_iter().map(|action| (&self.deployer, action)).collect())
    }
}

fn sign_all(
    chain: &DevChain,
    actions: Vec<(&PrivateKeySigner, Action)>,
) -> Result<Vec<Recovered<Tx>>, DevError> {
    let head = chain.head_block()?;
    let state = chain.head_state()?;
    let base_fee = u128::from(next_base_fee(head.header()));
    let chain_id = chain.spec().chain_id();
    let mut nonces = BTreeMap::new();
    let mut unsigned = Vec::with_capacity(actions.len());
    for (signer, action) in actions {
        let address = signer.address();
        let next = match nonces.get_mut(&address) {
            Some(next) => next,
            None => {
                let nonce = state.account(address)?.unwrap_or_default().nonce;
                let next = chain.with_pool(|pool| pool.next_nonce(address, nonce));
                nonces.entry(address).or_insert(next)
            }
        };
        let tx = TxEip1559 {
            chain_id,
            nonce: *next,
            gas_limit: action.gas,
            max_fee_per_gas: 2 * base_fee + TIP_WEI,
            max_priority_fee_per_gas: TIP_WEI,
            to: action.to.map_or(TxKind::Create, TxKind::Call),
            value: action.value,
            input: action.input,
            ..TxEip1559::default()
        };
        *next += 1;
        unsigned.push((signer, tx));
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = unsigned.len().div_ceil(threads).max(SIGNED_BY_ONE);
    thread::scope(|scope| {
        let parts: Vec<_> = unsigned
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    part.iter().map(|(signer, tx)| sign(signer, tx)).collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let mut signed = Vec::with_capacity(unsigned.len());
        for part in parts {
            match part.join() {
                Ok(part) => signed.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(signed)
    })
}

fn sign(signer: &PrivateKeySigner, tx: &TxEip1559) -> Result<Recovered<Tx>, DevError> {
    let signature = signer
        .sign_hash_sync(&tx.signature_hash())
        .map_err(|error| DevError::Refused(error.to_string()))?;
    let tx = Tx::Eip1559(tx.clone().into_signed(signature));
    Ok(Recovered::new_unchecked(tx, signer.address()))
}

impl Action {
    /// A call that costs at most so much gas.
    pub(super) fn call(to: Address, input: Bytes, gas: u64) -> Self {
        Self { to: Some(to), input, gas, value: Default::default() }
    }

    /// A contract creation.
    pub(super) fn create(input: Bytes, gas: u64) -> Self {
        Self { to: None, input, gas, value: Default::default() }
    }
}

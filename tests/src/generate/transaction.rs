//! Transactions as recipes: everything but nonces and signatures, which depend on the chain.

use super::{genesis::CHAIN_ID, keys::Keys};
use alloy_consensus::{
    SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    transaction::RlpEcdsaEncodableTx,
};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use alloy_rlp::Header;
use alloy_signer::SignerSync;

/// What a transaction pays for gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fee {
    /// The base fee and no more.
    NoTip,
    /// So much to the coinbase per gas, in wei.
    Tip(u64),
}

/// The nonce in a 7702 tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthNonce {
    /// The authority's nonce when the tuple is processed, as far as is known.
    Right,
    /// That plus so much.
    Off(u64),
    /// This.
    Exactly(u64),
}

/// A tuple of an EIP-7702 list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorisation {
    /// Whose account is delegated, by key.
    pub authority: usize,
    /// To what; zero clears.
    pub target: Address,
    /// Zero for any chain.
    pub chain_id: u64,
    /// See [`AuthNonce`].
    pub nonce: AuthNonce,
    /// Whether the signature recovers.
    pub recovers: bool,
}

/// The envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// EIP-155.
    Legacy,
    /// Type 1.
    AccessList(Vec<(Address, Vec<u64>)>),
    /// Type 2.
    Dynamic(Vec<(Address, Vec<u64>)>),
    /// Type 3 with so many blobs.
    Blob(u8),
    /// Type 4.
    SetCode(Vec<Authorisation>),
}

/// A transaction to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Who sends it, by key.
    pub sender: usize,
    /// `None` creates a contract.
    pub to: Option<Address>,
    /// Wei sent along.
    pub value: U256,
    /// Call data or init code.
    pub input: Bytes,
    /// Gas limit.
    pub gas: u64,
    /// What it pays.
    pub fee: Fee,
    /// Its type.
    pub shape: Shape,
}

impl Recipe {
    /// A call without value or input, 1 wei of tip, ample gas.
    pub fn call(sender: usize, to: Address) -> Self {
        Self {
            sender,
            to: Some(to),
            value: U256::ZERO,
            input: Bytes::new(),
            gas: 1_000_000,
            fee: Fee::Tip(1),
            shape: Shape::Dynamic(Vec::new()),
        }
    }

    /// A contract creation.
    pub fn create(sender: usize, init: Bytes) -> Self {
        Self { to: None, input: init, ..Self::call(sender, Address::ZERO) }
    }

    /// With value.
    pub fn value(mut self, wei: u128) -> Self {
        self.value = U256::from(wei);
        self
    }

    /// With call data.
    pub fn input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = input.into();
        self
    }

    /// With this gas limit.
    pub const fn gas(mut self, gas: u64) -> Self {
        self.gas = gas;
        self
    }

    /// Without tip.
    pub const fn no_tip(mut self) -> Self {
        self.fee = Fee::NoTip;
        self
    }

    /// As this type.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// EIP-2718 bytes for Geth's block builder. `base_fee` is that of the block it goes into,
    /// `auth_nonces` are the nonces for [`AuthNonce::Right`], one a tuple. A blob transaction comes
    /// with an empty sidecar: the builder counts hashes and never looks at blobs.
    pub fn sign(&self, keys: &Keys, nonce: u64, base_fee: u64, auth_nonces: &[u64]) -> Bytes {
        let to = self.to.map_or(TxKind::Create, TxKind::Call);
        // A blob or set-code transaction has no creating form (the field is a plain address).
        let called = self.to.unwrap_or_default();
        let tip = match self.fee {
            Fee::NoTip => 0,
            Fee::Tip(wei) => u128::from(wei),
        };
        let price = u128::from(base_fee) + tip;
        let (value, input, gas_limit) = (self.value, self.input.clone(), self.gas);
        match &self.shape {
            Shape::Legacy => encode(
                keys,
                self.sender,
                TxLegacy {
                    chain_id: Some(CHAIN_ID),
                    nonce,
                    gas_price: price,
                    gas_limit,
                    to,
                    value,
                    input,
                },
            ),
            Shape::AccessList(list) => encode(
                keys,
                self.sender,
                TxEip2930 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_price: price,
                    gas_limit,
                    to,
                    value,
                    access_list: access_list(list),
                    input,
                },
            ),
            Shape::Dynamic(list) => encode(
                keys,
                self.sender,
                TxEip1559 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: tip,
                    to,
                    value,
                    access_list: access_list(list),
                    input,
                },
            ),
            Shape::Blob(count) => {
                // Version byte 1 (EIP-4844), the rest is never compared with a commitment here.
                let hash = |index| B256::with_last_byte(index) | B256::right_padding_from(&[1]);
                let plain = encode(
                    keys,
                    self.sender,
                    TxEip4844 {
                        chain_id: CHAIN_ID,
                        nonce,
                        gas_limit,
                        max_fee_per_gas: price,
                        max_priority_fee_per_gas: tip,
                        to: called,
                        value,
                        access_list: AccessList::default(),
                        blob_versioned_hashes: (0..*count).map(hash).collect(),
                        max_fee_per_blob_gas: 1_000_000_000_000,
                        input,
                    },
                );
                with_empty_sidecar(&plain)
            }
            Shape::SetCode(list) => encode(
                keys,
                self.sender,
                TxEip7702 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: tip,
                    to: called,
                    value,
                    access_list: AccessList::default(),
                    authorization_list: list
                        .iter()
                        .zip(auth_nonces.iter().copied().chain(std::iter::repeat(0)))
                        .map(|(tuple, nonce)| tuple.sign(keys, nonce))
                        .collect(),
                    input,
                },
            ),
        }
    }
}

impl Authorisation {
    /// A valid tuple.
    pub const fn new(authority: usize, target: Address) -> Self {
        Self { authority, target, chain_id: CHAIN_ID, nonce: AuthNonce::Right, recovers: true }
    }

    fn sign(&self, keys: &Keys, right: u64) -> SignedAuthorization {
        let nonce = match self.nonce {
            AuthNonce::Right => right,
            AuthNonce::Off(by) => right.wrapping_add(by),
            AuthNonce::Exactly(nonce) => nonce,
        };
        let inner =
            Authorization { chain_id: U256::from(self.chain_id), address: self.target, nonce };
        if !self.recovers {
            // r of zero recovers to nobody.
            return SignedAuthorization::new_unchecked(inner, 0, U256::ZERO, U256::from(1));
        }
        let signature = sign_hash(keys, self.authority, &inner.signature_hash());
        inner.into_signed(signature)
    }
}

fn sign_hash(keys: &Keys, key: usize, hash: &B256) -> Signature {
    #[expect(clippy::expect_used, reason = "signing a hash with a key in memory cannot fail")]
    keys.signer(key).sign_hash_sync(hash).expect("a local key signs any hash")
}

fn encode<T>(keys: &Keys, key: usize, transaction: T) -> Bytes
where
    T: SignableTransaction<Signature> + RlpEcdsaEncodableTx,
{
    let signature = sign_hash(keys, key, &transaction.signature_hash());
    let mut out = Vec::new();
    transaction.eip2718_encode(&signature, &mut out);
    out.into()
}

fn access_list(entries: &[(Address, Vec<u64>)]) -> AccessList {
    let item = |(address, slots): &(Address, Vec<u64>)| AccessListItem {
        address: *address,
        storage_keys: slots.iter().map(|&slot| B256::from(U256::from(slot))).collect(),
    };
    AccessList(entries.iter().map(item).collect())
}

/// `0x03 || rlp([fields, blobs, commitments, proofs])` (EIP-4844, networking), the lists empty.
fn with_empty_sidecar(plain: &[u8]) -> Bytes {
    let fields = &plain[1..];
    let mut out = vec![3];
    Header { list: true, payload_length: fields.len() + 3 }.encode(&mut out);
    out.extend_from_slice(fields);
    out.extend_from_slice(&[alloy_rlp::EMPTY_LIST_CODE; 3]);
    out.into()
}

//! Transactions for a dev chain.
#![expect(clippy::expect_used, reason = "fixed inputs of tests: what fails is reported by a panic")]

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip4844, TxEip7702, TxLegacy};
use alloy_eips::{
    eip2718::Encodable2718,
    eip4844::builder::{SidecarBuilder, SimpleCoder},
    eip7594::BlobTransactionSidecarVariant,
    eip7702::Authorization,
};
use alloy_primitives::{Address, Bytes, Signature, U256, address};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use prestate_host_embedded::dev::{DevChain, Hardfork};

/// Chain id of a dev chain.
pub const CHAIN_ID: u64 = 31_337;
/// In wei.
pub const GWEI: u128 = 1_000_000_000;
/// An account that nobody has.
pub const FRESH: Address = address!("0x00000000000000000000000000000000000f4e5b");

/// The signers of a chain's funded accounts, in order.
pub fn signers(chain: &DevChain) -> Vec<PrivateKeySigner> {
    let key = |(_, key)| PrivateKeySigner::from_bytes(&key).expect("a key");
    chain.accounts().keys().map(key).collect()
}

/// A transaction, signed, in its EIP-2718 bytes.
pub fn signed<T: SignableTransaction<Signature>>(signer: &PrivateKeySigner, tx: T) -> Bytes
where
    alloy_consensus::Signed<T>: Encodable2718,
{
    let signature = signer.sign_hash_sync(&tx.signature_hash()).expect("a signature");
    tx.into_signed(signature).encoded_2718().into()
}

/// A transfer of type 0.
pub fn legacy(signer: &PrivateKeySigner, nonce: u64, to: Address, value: u128) -> Bytes {
    signed(
        signer,
        TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce,
            gas_price: 3 * GWEI,
            gas_limit: 100_000,
            to: to.into(),
            value: U256::from(value),
            input: Bytes::new(),
        },
    )
}

/// A transaction of type 2 without value.
pub fn dynamic(nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 3 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: FRESH.into(),
        ..TxEip1559::default()
    }
}

/// Sets slot 1 to 1 and leaves a contract that logs.
pub fn deployment() -> Bytes {
    "0x60016001556006600f5f3960065ff35f5fa0000000".parse().expect("hex")
}

/// A transaction of type 3 with one blob, in the network's form of the hardfork.
pub fn blob_tx(signer: &PrivateKeySigner, hardfork: Hardfork) -> Bytes {
    let builder = SidecarBuilder::<SimpleCoder>::from_slice(b"a blob");
    let sidecar: BlobTransactionSidecarVariant = if hardfork >= Hardfork::Osaka {
        BlobTransactionSidecarVariant::Eip7594(builder.build_7594().expect("KZG"))
    } else {
        BlobTransactionSidecarVariant::Eip4844(builder.build_4844().expect("KZG"))
    };
    let tx = TxEip4844 {
        chain_id: CHAIN_ID,
        gas_limit: 100_000,
        max_fee_per_gas: 3 * GWEI,
        max_priority_fee_per_gas: GWEI,
        max_fee_per_blob_gas: GWEI,
        to: FRESH,
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        ..TxEip4844::default()
    };
    let tx = alloy_consensus::TxEip4844WithSidecar::from_tx_and_sidecar(tx, sidecar);
    let signature = signer.sign_hash_sync(&tx.signature_hash()).expect("a signature");
    tx.into_signed(signature).encoded_2718().into()
}

/// A transaction of type 4 that delegates the authority's account to [`FRESH`].
pub fn set_code(signer: &PrivateKeySigner, authority: &PrivateKeySigner) -> Bytes {
    let authorization = Authorization { chain_id: U256::from(CHAIN_ID), address: FRESH, nonce: 0 };
    let signature = authority.sign_hash_sync(&authorization.signature_hash()).expect("a signature");
    let tx = TxEip7702 {
        chain_id: CHAIN_ID,
        gas_limit: 200_000,
        max_fee_per_gas: 3 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: FRESH,
        authorization_list: vec![authorization.into_signed(signature)],
        ..TxEip7702::default()
    };
    signed(signer, tx)
}

//! What a transaction must be like to be taken at all, in Geth's order and words
//! (`core/txpool/validation.go`, `ValidateTransaction`).

use super::build::Tx;
use alloy_consensus::{
    EthereumTxEnvelope, Transaction, TxEip4844Variant, TxType, Typed2718,
    transaction::{Recovered, SignerRecoverable},
};
use alloy_eips::{
    eip2718::{Decodable2718, Encodable2718},
    eip4844::{BYTES_PER_BLOB, env_settings::EnvKzgSettings},
    eip7594::{BlobTransactionSidecarVariant, CELLS_PER_EXT_BLOB, MAX_BLOBS_PER_TX_FUSAKA},
};
use revm::primitives::hardfork::SpecId;

/// A transaction as it is sent: blob transactions with their sidecar.
pub(crate) type SentTx = EthereumTxEnvelope<TxEip4844Variant<BlobTransactionSidecarVariant>>;

/// Geth's `txMaxSize`, 128 KiB, without blobs.
const MAX_BYTES: usize = 4 * 32 * 1024;
/// The blob pool's, 1 MiB, without blobs.
const MAX_BLOB_TX_BYTES: usize = 1024 * 1024;
/// EIP-7825.
const MAX_TX_GAS: u64 = 1 << 24;
/// EIP-3860.
const MAX_INIT_CODE_BYTES: usize = 49_152;

/// Why a transaction is no candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Inadmissible(pub(crate) String);

/// What decides whether a transaction is a candidate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) chain_id: u64,
    pub(crate) spec: SpecId,
    pub(crate) block_gas_limit: u64,
}

/// Reads a transaction from its EIP-2718 bytes.
pub(crate) fn decode(mut raw: &[u8]) -> Result<SentTx, Inadmissible> {
    if raw.is_empty() {
        return Err(Inadmissible("typed transaction too short".to_owned()));
    }
    let first = raw.first().copied();
    let tx = SentTx::decode_2718(&mut raw).map_err(|error| match first {
        // EIP-2718: a type byte, of none that is known.
        Some(first) if first < 0x80 && !(1..=4).contains(&first) => {
            Inadmissible("transaction type not supported".to_owned())
        }
        _ => Inadmissible(format!("rlp: {error}")),
    })?;
    if raw.is_empty() {
        Ok(tx)
    } else {
        Err(Inadmissible("rlp: input contains more than one value".to_owned()))
    }
}

impl Rules {
    /// Checks a transaction and takes its sidecar off.
    pub(crate) fn admit(&self, tx: SentTx) -> Result<Recovered<Tx>, Inadmissible> {
        self.check(&tx).map_err(Inadmissible)?;
        let (tx, sidecar) = without_sidecar(tx);
        let signer = tx.recover_signer().map_err(|_| Inadmissible("invalid sender".to_owned()))?;
        if tx.is_eip4844() {
            self.check_sidecar(&tx, sidecar).map_err(Inadmissible)?;
        }
        Ok(Recovered::new_unchecked(tx, signer))
    }

    fn check(&self, tx: &SentTx) -> Result<(), String> {
        let kind = tx.tx_type();
        let needs = match kind {
            TxType::Eip4844 => Some((SpecId::CANCUN, "Cancun")),
            TxType::Eip7702 => Some((SpecId::PRAGUE, "Prague")),
            _ => None,
        };
        let (bytes, limit) = match kind {
            TxType::Eip4844 => {
                let blobs = tx.blob_count().unwrap_or(0) as usize;
                (tx.encode_2718_len().saturating_sub(blobs * BYTES_PER_BLOB), MAX_BLOB_TX_BYTES)
            }
            _ => (tx.encode_2718_len(), MAX_BYTES),
        };
        if bytes > limit {
            return Err(format!("oversized data: transaction size {bytes}, limit {limit}"));
        }
        if let Some((_, name)) = needs.filter(|(spec, _)| self.spec < *spec) {
            let number = tx.ty();
            return Err(format!(
                "transaction type not supported: type {number} rejected, pool not yet in {name}"
            ));
        }
        let code_bytes = tx.input().len();
        if self.spec >= SpecId::SHANGHAI && tx.is_create() && code_bytes > MAX_INIT_CODE_BYTES {
            return Err(format!(
                "max initcode size exceeded: code size {code_bytes} limit {MAX_INIT_CODE_BYTES}"
            ));
        }
        let gas = tx.gas_limit();
        if self.spec >= SpecId::OSAKA && gas > MAX_TX_GAS {
            return Err(format!("transaction gas limit too high (cap: {MAX_TX_GAS}, tx: {gas})"));
        }
        if gas > self.block_gas_limit {
            return Err("exceeds block gas limit".to_owned());
        }
        if tx.max_priority_fee_per_gas().is_some_and(|tip| tip > tx.max_fee_per_gas()) {
            return Err("max priority fee per gas higher than max fee per gas".to_owned());
        }
        if let Some(have) = tx.chain_id().filter(|have| *have != self.chain_id) {
            return Err(format!(
                "invalid sender: invalid chain id for signer: have {have} want {}",
                self.chain_id
            ));
        }
        if tx.nonce() == u64::MAX {
            return Err("nonce has max value".to_owned());
        }
        let minimum = intrinsic_gas(tx, self.spec);
        if gas < minimum {
            return Err(format!("intrinsic gas too low: gas {gas}, minimum needed {minimum}"));
        }
        let floor = floor_data_gas(tx);
        if self.spec >= SpecId::PRAGUE && gas < floor {
            return Err(format!(
                "insufficient gas for floor data gas cost: gas {gas}, minimum needed {floor}"
            ));
        }
        if kind == TxType::Eip7702 && tx.authorization_list().is_none_or(<[_]>::is_empty) {
            return Err("set code tx must have at least one authorization tuple".to_owned());
        }
        Ok(())
    }

    fn check_sidecar(
        &self,
        tx: &Tx,
        sidecar: Option<BlobTransactionSidecarVariant>,
    ) -> Result<(), String> {
        let mut sidecar = sidecar.ok_or("missing sidecar in blob transaction")?;
        let settings = EnvKzgSettings::Default.get();
        if let BlobTransactionSidecarVariant::Eip4844(old) = &sidecar
            && self.spec >= SpecId::OSAKA
        {
            // As Geth does for senders that do not know EIP-7594 yet: proofs of cells are made from
            // the blobs (`internal/ethapi/api.go`, `SendRawTransaction`).
            let made = old.clone().try_into_7594(settings);
            let made = made.map_err(|error| format!("KZG verification error: {error}"))?;
            sidecar = BlobTransactionSidecarVariant::Eip7594(made);
        }
        let want = u8::from(self.spec >= SpecId::OSAKA);
        let got = u8::from(sidecar.is_eip7594());
        if want != got {
            return Err(format!("unexpected sidecar version, want: {want}, got: {got}"));
        }
        if tx.max_fee_per_blob_gas().is_some_and(|cap| cap < 1) {
            return Err(
                "transaction gas price below minimum: blob fee cap 0, minimum needed 1".to_owned()
            );
        }
        let hashes = tx.blob_versioned_hashes().unwrap_or_default();
        let count = hashes.len();
        if count == 0 {
            return Err("blobless blob transaction".to_owned());
        }
        if count as u64 > MAX_BLOBS_PER_TX_FUSAKA {
            return Err(format!(
                "too many blobs in transaction: have {count}, permitted {MAX_BLOBS_PER_TX_FUSAKA}"
            ));
        }
        let blobs = sidecar.blobs().len();
        if blobs != count {
            return Err(format!("invalid number of {blobs} blobs compared to {count} blob hashes"));
        }
        let (proofs, expected) = match &sidecar {
            BlobTransactionSidecarVariant::Eip4844(sidecar) => (sidecar.proofs.len(), count),
            BlobTransactionSidecarVariant::Eip7594(sidecar) => {
                (sidecar.cell_proofs.len(), count * CELLS_PER_EXT_BLOB)
            }
        };
        if proofs != expected {
            return Err(format!("invalid number of {proofs} blob proofs expected {expected}"));
        }
        sidecar
            .validate(hashes, settings)
            .map_err(|error| format!("KZG verification error: {error}"))
    }
}

fn without_sidecar(tx: SentTx) -> (Tx, Option<BlobTransactionSidecarVariant>) {
    match tx {
        SentTx::Legacy(tx) => (Tx::Legacy(tx), None),
        SentTx::Eip2930(tx) => (Tx::Eip2930(tx), None),
        SentTx::Eip1559(tx) => (Tx::Eip1559(tx), None),
        SentTx::Eip7702(tx) => (Tx::Eip7702(tx), None),
        SentTx::Eip4844(tx) => {
            let (tx, signature, hash) = tx.into_parts();
            let (tx, sidecar) = match tx {
                TxEip4844Variant::TxEip4844(tx) => (tx, None),
                TxEip4844Variant::TxEip4844WithSidecar(tx) => {
                    let (tx, sidecar) = tx.into_parts();
                    (tx, Some(sidecar))
                }
            };
            (Tx::Eip4844(alloy_consensus::Signed::new_unchecked(tx, signature, hash)), sidecar)
        }
    }
}

/// Gas before the first opcode (`core/state_transition.go`, `IntrinsicGas`).
fn intrinsic_gas(tx: &SentTx, spec: SpecId) -> u64 {
    let input = tx.input();
    let zeros = input.iter().filter(|byte| **byte == 0).count() as u64;
    let mut gas = 21_000 + zeros * 4 + (input.len() as u64 - zeros) * 16;
    if tx.is_create() {
        gas += 32_000;
        if spec >= SpecId::SHANGHAI {
            // EIP-3860.
            gas += 2 * (input.len() as u64).div_ceil(32);
        }
    }
    if let Some(list) = tx.access_list() {
        // EIP-2930.
        let keys = list.iter().map(|item| item.storage_keys.len() as u64).sum::<u64>();
        gas += 2_400 * list.len() as u64 + 1_900 * keys;
    }
    // EIP-7702.
    gas + 25_000 * tx.authorization_list().map_or(0, <[_]>::len) as u64
}

/// EIP-7623: what the data costs at least.
fn floor_data_gas(tx: &SentTx) -> u64 {
    let input = tx.input();
    let zeros = input.iter().filter(|byte| **byte == 0).count() as u64;
    21_000 + 10 * (zeros + 4 * (input.len() as u64 - zeros))
}

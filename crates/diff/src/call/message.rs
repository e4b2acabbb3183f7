use super::{CallEnvironment, CallError};
use alloy_consensus::{
    EthereumTxEnvelope, Signed, TxEip4844, TxEip7702, TxLegacy, transaction::Recovered,
};
use alloy_eips::{
    eip2930::AccessList,
    eip4844::{DATA_GAS_PER_BLOB, VERSIONED_HASH_VERSION_KZG},
    eip7702::SignedAuthorization,
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use revm::{
    context::{TxEnv, either::Either},
    context_interface::Cfg,
    primitives::hardfork::SpecId,
};

/// EIP-7594: most blobs of a transaction.
const MAX_BLOBS: usize = 6;

/// A message as the EVM takes it (Geth `core.Message`): fees resolved, nothing signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The sender.
    pub from: Address,
    /// The recipient; `None` makes a contract.
    pub to: Option<Address>,
    /// Gas given.
    pub gas_limit: u64,
    /// Wei per gas that is paid.
    pub gas_price: U256,
    /// Most wei per gas that may be paid.
    pub fee_cap: U256,
    /// Most wei per gas for the beneficiary.
    pub tip_cap: U256,
    /// Wei sent.
    pub value: U256,
    /// Call data or init code.
    pub data: Bytes,
    /// EIP-2930.
    pub access_list: Option<AccessList>,
    /// Most wei per blob gas (EIP-4844).
    pub blob_fee_cap: Option<U256>,
    /// EIP-4844.
    pub blob_hashes: Option<Vec<B256>>,
    /// EIP-7702.
    pub authorizations: Option<Vec<SignedAuthorization>>,
    /// Whether tracers are told of the authorizations: Geth shows them a legacy transaction if
    /// the caller names a gas price.
    pub shows_authorizations: bool,
}

impl Message {
    fn blob_gas(&self) -> u64 {
        self.blob_hashes.as_ref().map_or(0, |hashes| hashes.len() as u64 * DATA_GAS_PER_BLOB)
    }

    /// Geth's checks before it executes (`core/state_transition.go`, `preCheck`), in its order
    /// and words, but for those that a call skips.
    pub(super) fn check(&self, environment: &CallEnvironment, balance: U256) -> Result<(), String> {
        let rules = environment.rules();
        let from = self.from;
        let is = |fork| rules.is_enabled_in(fork);
        let unsupported =
            |kind: &str| Err(format!("transaction type not supported: {kind} tx (sender {from})"));
        let (cap, tip) = (self.fee_cap, self.tip_cap);
        if is(SpecId::LONDON) && !(cap.is_zero() && tip.is_zero()) {
            if cap < tip {
                return Err(format!(
                    "max priority fee per gas higher than max fee per gas: address {from}, maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
                ));
            }
            let base_fee = environment.env.block_env.basefee;
            if cap < U256::from(base_fee) {
                return Err(format!(
                    "max fee per gas less than block base fee: address {from}, maxFeePerGas: {cap}, baseFee: {base_fee}"
                ));
            }
        }
        if self.access_list.is_some() && !is(SpecId::BERLIN) {
            return unsupported("access list");
        }
        if self.blob_fee_cap.is_some() && !is(SpecId::CANCUN) {
            return unsupported("blob");
        }
        self.check_blobs(environment)?;
        if let Some(authorizations) = &self.authorizations {
            if !is(SpecId::PRAGUE) {
                return unsupported("setcode");
            }
            if authorizations.is_empty() {
                return Err(format!("EIP-7702 transaction with empty auth list (sender {from})"));
            }
        }
        let limit = environment.env.cfg_env.max_initcode_size();
        if self.to.is_none() && is(SpecId::SHANGHAI) && self.data.len() > limit {
            let size = self.data.len();
            return Err(format!("max initcode size exceeded: code size {size} limit {limit}"));
        }
        self.check_balance(environment, balance)
    }

    fn check_blobs(&self, environment: &CallEnvironment) -> Result<(), String> {
        let rules = environment.rules();
        let Some(hashes) = &self.blob_hashes else { return Ok(()) };
        if hashes.is_empty() {
            return Err("blob transaction missing blob hashes".to_owned());
        }
        if rules.is_enabled_in(SpecId::OSAKA) && hashes.len() > MAX_BLOBS {
            return Err("blob transaction has too many blobs".to_owned());
        }
        if let Some(at) = hashes.iter().position(|hash| hash[0] != VERSIONED_HASH_VERSION_KZG) {
            return Err(format!("blob {at} has invalid hash version"));
        }
        let cap = self.blob_fee_cap.unwrap_or_default();
        let price = environment.blob_base_fee();
        if !cap.is_zero() && cap < U256::from(price) {
            let from = self.from;
            return Err(format!(
                "max fee per blob gas less than block blob gas fee: address {from} blobGasFeeCap: {cap}, blobBaseFee: {price}"
            ));
        }
        Ok(())
    }

    fn check_balance(&self, environment: &CallEnvironment, have: U256) -> Result<(), String> {
        let from = self.from;
        let short = "insufficient funds for gas * price + value";
        let gas = U256::from(self.gas_limit);
        let blob_gas = U256::from(self.blob_gas());
        let blob_cap = self.blob_fee_cap.unwrap_or_default();
        let want = gas
            .checked_mul(self.gas_price)
            .and(gas.checked_mul(self.fee_cap))
            .and_then(|fee| fee.checked_add(self.value))
            .and_then(|sum| sum.checked_add(blob_gas.checked_mul(blob_cap)?))
            .filter(|_| blob_gas.checked_mul(U256::from(environment.blob_base_fee())).is_some());
        match want {
            None => Err(format!("{short}: address {from} required balance exceeds 256 bits")),
            Some(want) if have < want => {
                Err(format!("{short}: address {from} have {have} want {want}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// The message for the EVM.
    pub(super) fn tx_env(&self, environment: &CallEnvironment) -> Result<TxEnv, CallError> {
        let rules = environment.rules();
        let wei = |fee: U256| {
            u128::try_from(fee).map_err(|_| {
                CallError::Refused(format!("fees of more than 128 bits are not supported: {fee}"))
            })
        };
        let london = rules.is_enabled_in(SpecId::LONDON);
        let tx_type = if self.authorizations.is_some() {
            4
        } else if self.blob_hashes.is_some() {
            3
        } else if london {
            2
        } else {
            u8::from(self.access_list.is_some())
        };
        Ok(TxEnv {
            tx_type,
            caller: self.from,
            gas_limit: self.gas_limit,
            gas_price: wei(if london { self.fee_cap } else { self.gas_price })?,
            gas_priority_fee: if london { Some(wei(self.tip_cap)?) } else { None },
            kind: self.to.map_or(TxKind::Create, TxKind::Call),
            value: self.value,
            data: self.data.clone(),
            nonce: 0,
            chain_id: Some(environment.chain_id()),
            access_list: self.access_list.clone().unwrap_or_default(),
            blob_hashes: self.blob_hashes.clone().unwrap_or_default(),
            max_fee_per_blob_gas: wei(self.blob_fee_cap.unwrap_or_default())?,
            authorization_list: self
                .authorizations
                .iter()
                .flatten()
                .cloned()
                .map(Either::Left)
                .collect(),
        })
    }

    /// The transaction that tracers see. They look at its sender, recipient and authorizations.
    pub(super) fn seen(&self) -> Recovered<EthereumTxEnvelope<TxEip4844>> {
        let signature = Signature::new(U256::ZERO, U256::ZERO, false);
        let tx = match (&self.authorizations, self.to) {
            (Some(authorizations), Some(to)) if self.shows_authorizations => {
                let tx = TxEip7702 {
                    to,
                    authorization_list: authorizations.clone(),
                    ..TxEip7702::default()
                };
                EthereumTxEnvelope::Eip7702(Signed::new_unchecked(tx, signature, B256::ZERO))
            }
            _ => {
                let to = self.to.map_or(TxKind::Create, TxKind::Call);
                let tx = TxLegacy { to, ..TxLegacy::default() };
                EthereumTxEnvelope::Legacy(Signed::new_unchecked(tx, signature, B256::ZERO))
            }
        };
        Recovered::new_unchecked(tx, self.from)
    }
}

use super::Message;
use alloy_consensus::Header;
use alloy_evm::EvmEnv;
use alloy_primitives::{Address, B256, U256, map::AddressSet};
use prestate_host::{ChainSpec, evm_env};
use revm::{
    context_interface::block::BlobExcessGasAndPrice,
    precompile::{PrecompileSpecId, Precompiles},
    primitives::hardfork::SpecId,
};

/// Fields of a header that a call replaces (Geth `override.BlockOverrides`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockOverrides {
    /// The block's number.
    pub number: Option<U256>,
    /// Its difficulty, which opcodes see only before the merge.
    pub difficulty: Option<U256>,
    /// Its time in seconds.
    pub time: Option<u64>,
    /// Its gas limit.
    pub gas_limit: Option<u64>,
    /// Its beneficiary.
    pub fee_recipient: Option<Address>,
    /// Its random value.
    pub prev_randao: Option<B256>,
    /// Its base fee in wei.
    pub base_fee: Option<u64>,
    /// Its blob base fee in wei.
    pub blob_base_fee: Option<u128>,
}

/// Rules and block that a message runs under.
#[derive(Debug, Clone)]
pub struct CallEnvironment {
    pub(super) env: EvmEnv,
    has_base_fee: bool,
}

impl CallEnvironment {
    /// Those of a header, changed. Which rules are in force follows from the changed number,
    /// time and random value.
    pub fn new(spec: &ChainSpec, header: &Header, overrides: &BlockOverrides) -> Self {
        let mut changed = header.clone();
        changed.number = overrides.number.map_or(header.number, |number| number.saturating_to());
        changed.timestamp = overrides.time.unwrap_or(header.timestamp);
        changed.gas_limit = overrides.gas_limit.unwrap_or(header.gas_limit);
        changed.beneficiary = overrides.fee_recipient.unwrap_or(header.beneficiary);
        changed.base_fee_per_gas = overrides.base_fee.or(header.base_fee_per_gas);
        let mut env = evm_env(spec, &changed);

        let random = overrides
            .prev_randao
            .or_else(|| header.difficulty.is_zero().then_some(header.mix_hash));
        let by_fork = env.cfg_env.spec;
        // A random value is what tells Geth that the merge is past.
        let rules = match random {
            Some(_) if by_fork < SpecId::MERGE => SpecId::MERGE,
            None if by_fork >= SpecId::MERGE => SpecId::LONDON,
            _ => by_fork,
        };
        if rules != by_fork {
            env.cfg_env.set_spec_and_mainnet_gas_params(rules);
        }
        let block = &mut env.block_env;
        block.number = overrides.number.unwrap_or_else(|| U256::from(header.number));
        block.prevrandao = random;
        block.difficulty = overrides.difficulty.unwrap_or(header.difficulty);
        // The price follows from the block as it was, whatever its time is said to be.
        let price = evm_env(spec, header).block_env.blob_excess_gas_and_price;
        let excess_blob_gas = price.map_or(0, |price| price.excess_blob_gas);
        let blob_gasprice = overrides
            .blob_base_fee
            .or(price.map(|price| price.blob_gasprice))
            .unwrap_or(u128::from(alloy_eips::eip4844::BLOB_TX_MIN_BLOB_GASPRICE as u64));
        block.blob_excess_gas_and_price =
            Some(BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice });

        let cfg = &mut env.cfg_env;
        cfg.disable_nonce_check = true;
        cfg.disable_eip3607 = true;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        cfg.max_blobs_per_tx = None;
        Self { env, has_base_fee: changed.base_fee_per_gas.is_some() }
    }

    /// The block's base fee in wei, `None` before London.
    pub fn base_fee(&self) -> Option<u64> {
        self.has_base_fee.then_some(self.env.block_env.basefee)
    }

    /// The low 64 bits of the block's number, all that Geth compares.
    pub(super) fn number(&self) -> u64 {
        self.env.block_env.number.as_limbs()[0]
    }

    pub(super) fn rules(&self) -> SpecId {
        self.env.cfg_env.spec
    }

    pub(super) fn chain_id(&self) -> u64 {
        self.env.cfg_env.chain_id
    }

    pub(super) fn blob_base_fee(&self) -> u128 {
        self.env.block_env.blob_excess_gas_and_price.map_or(0, |price| price.blob_gasprice)
    }

    /// Who offers nothing is asked for nothing, so that no fee cap is below the base fee.
    pub(super) fn lower_fees(&mut self, message: &Message) {
        if message.gas_price.is_zero() {
            self.env.block_env.basefee = 0;
        }
        if message.blob_fee_cap == Some(U256::ZERO)
            && let Some(price) = &mut self.env.block_env.blob_excess_gas_and_price
        {
            price.blob_gasprice = 0;
        }
    }

    pub(super) fn precompiles(&self) -> &'static Precompiles {
        Precompiles::new(PrecompileSpecId::from_spec_id(self.rules()))
    }

    pub(super) fn precompile_addresses(&self) -> AddressSet {
        self.precompiles().addresses_set().clone()
    }
}

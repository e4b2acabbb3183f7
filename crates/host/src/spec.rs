use crate::IrregularChange;
use alloy_eips::{eip7840::BlobParams, eip7892::BlobScheduleBlobParams};
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_genesis::ChainConfig;
use alloy_hardforks::{EthereumChainHardforks, EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, B256, U256, address, map::B256Map};
use parking_lot::RwLock;
use revm::primitives::hardfork::SpecId;
use std::sync::Arc;

/// Chain id, hardforks and blob parameters: what decides the rules of a block.
#[derive(Debug, Clone)]
pub struct ChainSpec {
    chain_id: u64,
    hardforks: EthereumChainHardforks,
    blobs: BlobScheduleBlobParams,
    deposit_contract: Option<Address>,
    /// Shared by all clones. What is in it never changes.
    irregular: Arc<RwLock<B256Map<Arc<IrregularChange>>>>,
}

/// Why a chain configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Only the built-in chains can be named by id.
    #[error(
        "chain {0} is not built in (mainnet 1, sepolia 11155111, holesky 17000, hoodi 560048): give its genesis file"
    )]
    UnknownChain(u64),
}

impl ChainSpec {
    /// From its parts.
    pub fn new(
        chain_id: u64,
        hardforks: EthereumChainHardforks,
        blobs: BlobScheduleBlobParams,
        deposit_contract: Option<Address>,
    ) -> Self {
        Self { chain_id, hardforks, blobs, deposit_contract, irregular: Arc::default() }
    }

    /// Ethereum mainnet.
    pub fn mainnet() -> Self {
        Self::public(
            1,
            EthereumHardfork::mainnet(),
            address!("0x00000000219ab540356cBB839Cbe05303d7705Fa"),
        )
    }

    /// A public chain by its id.
    pub fn by_chain_id(chain_id: u64) -> Result<Self, SpecError> {
        match chain_id {
            1 => Ok(Self::mainnet()),
            11_155_111 => Ok(Self::public(
                chain_id,
                EthereumHardfork::sepolia(),
                address!("0x7f02C3E3c98b133055B8B348B2Ac625669Ed295D"),
            )),
            17_000 => Ok(Self::public(
                chain_id,
                EthereumHardfork::holesky(),
                address!("0x4242424242424242424242424242424242424242"),
            )),
            560_048 => Ok(Self::public(
                chain_id,
                EthereumHardfork::hoodi(),
                address!("0x00000000219ab540356cBB839Cbe05303d7705Fa"),
            )),
            other => Err(SpecError::UnknownChain(other)),
        }
    }

    fn public(
        chain_id: u64,
        forks: impl IntoIterator<Item = (EthereumHardfork, ForkCondition)>,
        deposit_contract: Address,
    ) -> Self {
        let hardforks = EthereumChainHardforks::new(forks);
        let at = |fork| match hardforks.ethereum_fork_activation(fork) {
            ForkCondition::Timestamp(time) => Some(time),
            _ => None,
        };
        let bpo = [
            (EthereumHardfork::Bpo1, BlobParams::bpo1()),
            (EthereumHardfork::Bpo2, BlobParams::bpo2()),
        ];
        let scheduled = bpo
            .into_iter()
            .filter_map(|(fork, params)| Some((at(fork)?, params)))
            .collect::<Vec<_>>();
        let blobs = BlobScheduleBlobParams::mainnet().with_scheduled(scheduled);
        Self::new(chain_id, hardforks, blobs, Some(deposit_contract))
    }

    /// The rules of a genesis file's `config` (Geth's `params.ChainConfig`).
    pub fn from_genesis(config: &ChainConfig) -> Self {
        use EthereumHardfork as Fork;
        let by_block = [
            (Fork::Homestead, config.homestead_block),
            (Fork::Dao, config.dao_fork_block.filter(|_| config.dao_fork_support)),
            (Fork::Tangerine, config.eip150_block),
            (Fork::SpuriousDragon, config.eip158_block),
            (Fork::Byzantium, config.byzantium_block),
            (Fork::Constantinople, config.constantinople_block),
            // Geth: without an entry of its own, Petersburg comes with Constantinople.
            (Fork::Petersburg, config.petersburg_block.or(config.constantinople_block)),
            (Fork::Istanbul, config.istanbul_block),
            (Fork::MuirGlacier, config.muir_glacier_block),
            (Fork::Berlin, config.berlin_block),
            (Fork::London, config.london_block),
            (Fork::ArrowGlacier, config.arrow_glacier_block),
            (Fork::GrayGlacier, config.gray_glacier_block),
        ];
        let by_time = [
            (Fork::Shanghai, config.shanghai_time),
            (Fork::Cancun, config.cancun_time),
            (Fork::Prague, config.prague_time),
            (Fork::Osaka, config.osaka_time),
            (Fork::Bpo1, config.bpo1_time),
            (Fork::Bpo2, config.bpo2_time),
            (Fork::Bpo3, config.bpo3_time),
            (Fork::Bpo4, config.bpo4_time),
            (Fork::Bpo5, config.bpo5_time),
            (Fork::Amsterdam, config.amsterdam_time),
        ];
        let mut forks = vec![(Fork::Frontier, ForkCondition::Block(0))];
        forks.extend(
            by_block.into_iter().filter_map(|(fork, at)| Some((fork, ForkCondition::Block(at?)))),
        );
        // Chains of today start merged, or say at which block they did.
        let merged = config.merge_netsplit_block.or_else(|| {
            (config.terminal_total_difficulty == Some(U256::ZERO)
                || config.terminal_total_difficulty_passed)
                .then_some(0)
        });
        forks.extend(merged.map(|at| (Fork::Paris, ForkCondition::Block(at))));
        forks.extend(
            by_time
                .into_iter()
                .filter_map(|(fork, at)| Some((fork, ForkCondition::Timestamp(at?)))),
        );
        Self::new(
            config.chain_id,
            EthereumChainHardforks::new(forks),
            config.blob_schedule_blob_params(),
            config.deposit_contract_address,
        )
    }

    /// EIP-155 chain id.
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The state change that a block brings about by decree, `None` for all blocks of real chains
    /// (the DAO fork's is known to the executor).
    pub fn irregular_change(&self, block: &B256) -> Option<Arc<IrregularChange>> {
        self.irregular.read().get(block).cloned()
    }

    /// Decrees what a block changes before anything in it runs. A block's change is decreed once,
    /// before the block is executed or handed out; a later one for the same block is not heard.
    pub fn decree(&self, block: B256, change: IrregularChange) {
        self.irregular.write().entry(block).or_insert_with(|| Arc::new(change));
    }

    /// The rules in force at a block, by revm's name (`Frontier` … `Prague`, `Osaka`).
    pub fn rules_at(&self, number: u64, timestamp: u64) -> SpecId {
        alloy_evm::spec_by_timestamp_and_block_number(self, timestamp, number)
    }

    /// Blob parameters in force at a block's time, `None` before Cancun (EIP-7840, EIP-7892).
    pub fn blob_params_at(&self, timestamp: u64) -> Option<BlobParams> {
        if let Some(params) = self.blobs.active_scheduled_params_at_timestamp(timestamp) {
            Some(*params)
        } else if self.is_osaka_active_at_timestamp(timestamp) {
            Some(*self.blobs.osaka())
        } else if self.is_prague_active_at_timestamp(timestamp) {
            Some(*self.blobs.prague())
        } else if self.is_cancun_active_at_timestamp(timestamp) {
            Some(*self.blobs.cancun())
        } else {
            None
        }
    }
}

impl EthereumHardforks for ChainSpec {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        self.hardforks.ethereum_fork_activation(fork)
    }
}

impl EthExecutorSpec for ChainSpec {
    fn deposit_contract_address(&self) -> Option<Address> {
        self.deposit_contract
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::eip7892::{BPO1_TARGET_BLOBS_PER_BLOCK, BPO2_TARGET_BLOBS_PER_BLOCK};

    #[test]
    fn blob_targets_of_mainnet_follow_its_forks() {
        let spec = ChainSpec::mainnet();
        let target = |time| spec.blob_params_at(time).map(|params| params.target_blob_count);
        assert_eq!(target(1_710_338_134), None);
        assert_eq!(target(1_710_338_135), Some(3));
        assert_eq!(target(1_746_612_311), Some(6));
        assert_eq!(target(1_764_798_551), Some(6));
        assert_eq!(target(1_765_290_071), Some(BPO1_TARGET_BLOBS_PER_BLOCK));
        assert_eq!(target(1_767_747_671), Some(BPO2_TARGET_BLOBS_PER_BLOCK));
    }

    #[test]
    fn a_private_chain_must_bring_its_genesis() {
        let refused = ChainSpec::by_chain_id(1337).unwrap_err();
        assert!(refused.to_string().contains("1337"));
    }
}

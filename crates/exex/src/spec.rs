use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumChainHardforks, EthereumHardfork, EthereumHardforks};
use prestate_host::ChainSpec;
use reth_ethereum::chainspec::{ChainSpec as RethSpec, EthChainSpec};

/// The rules of a chain as the node has them.
pub(crate) fn chain_spec(node: &RethSpec) -> ChainSpec {
    let forks = EthereumHardfork::VARIANTS
        .iter()
        .map(|fork| (*fork, node.ethereum_fork_activation(*fork)))
        .collect::<Vec<_>>();
    ChainSpec::new(
        node.chain_id(),
        EthereumChainHardforks::new(forks),
        node.blob_params.clone(),
        node.deposit_contract_address(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use reth_ethereum::chainspec::{DEV, MAINNET, SEPOLIA};

    #[test]
    fn rules_of_public_chains_are_those_built_in() {
        let mainnet = (&**MAINNET, ChainSpec::mainnet());
        let sepolia = (&**SEPOLIA, ChainSpec::by_chain_id(11_155_111).unwrap());
        let times = [0, 1_438_269_973, 1_681_338_455, 1_710_338_135, 1_746_612_311, 1_800_000_000];
        for (node, built_in) in [mainnet, sepolia] {
            let taken = chain_spec(node);
            assert_eq!(taken.chain_id(), built_in.chain_id());
            assert_eq!(taken.deposit_contract_address(), built_in.deposit_contract_address());
            for (number, time) in [0, 1_150_000, 12_965_000, 17_034_870, 22_431_084, 30_000_000]
                .into_iter()
                .flat_map(|number| times.map(|time| (number, time)))
            {
                let (here, there) = (taken.rules_at(number, time), built_in.rules_at(number, time));
                assert_eq!(here, there, "chain {} block {number}", taken.chain_id());
                assert_eq!(taken.blob_params_at(time), built_in.blob_params_at(time), "at {time}");
            }
        }
    }

    #[test]
    fn the_dev_chain_runs_the_newest_rules_the_node_has() {
        let spec = chain_spec(&DEV);
        assert_eq!(spec.chain_id(), 1337);
        assert!(spec.rules_at(0, 0) >= revm::primitives::hardfork::SpecId::PRAGUE);
    }
}

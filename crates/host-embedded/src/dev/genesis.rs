use super::config::{DevConfig, Hardfork};
use alloy_eips::{eip2935, eip4788, eip7002, eip7251, eip7840::BlobParams};
use alloy_genesis::{ChainConfig, Genesis, GenesisAccount};
use alloy_primitives::{Address, Bytes, U256, address, bytes};

const WEI_PER_ETHER: u64 = 1_000_000_000_000_000_000;
/// As Geth's and Anvil's dev chains begin.
const BASE_FEE: u128 = 1_000_000_000;

/// The deterministic deployment proxy, where every tool expects it
/// (<https://github.com/Arachnid/deterministic-deployment-proxy>).
const CREATE2_DEPLOYER: Address = address!("0x4e59b44847b379578588920cA78FbF26c0B4956C");
const CREATE2_DEPLOYER_CODE: Bytes = bytes!(
    "0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
);

/// The genesis of a dev chain that begins at `timestamp` (seconds since 1970).
pub fn dev_genesis(config: &DevConfig, accounts: &[Address], timestamp: u64) -> Genesis {
    let balance = U256::from(config.balance_ether) * U256::from(WEI_PER_ETHER);
    let funded = accounts
        .iter()
        .map(|address| (*address, GenesisAccount { balance, ..GenesisAccount::default() }));
    let contracts = contracts(config.hardfork).into_iter().map(|(address, code)| {
        let account =
            GenesisAccount { nonce: Some(1), code: Some(code), ..GenesisAccount::default() };
        (address, account)
    });
    Genesis {
        config: chain_config(config),
        timestamp,
        gas_limit: config.gas_limit,
        base_fee_per_gas: Some(BASE_FEE),
        coinbase: config.coinbase,
        alloc: funded.chain(contracts).collect(),
        ..Genesis::default()
    }
}

fn chain_config(config: &DevConfig) -> ChainConfig {
    let at = |fork| (config.hardfork >= fork).then_some(0);
    let schedule = [
        ("cancun", BlobParams::cancun()),
        ("prague", BlobParams::prague()),
        ("osaka", BlobParams::osaka()),
        ("bpo1", BlobParams::bpo1()),
        ("bpo2", BlobParams::bpo2()),
    ];
    ChainConfig {
        chain_id: config.chain_id,
        homestead_block: Some(0),
        eip150_block: Some(0),
        eip155_block: Some(0),
        eip158_block: Some(0),
        byzantium_block: Some(0),
        constantinople_block: Some(0),
        petersburg_block: Some(0),
        istanbul_block: Some(0),
        berlin_block: Some(0),
        london_block: Some(0),
        merge_netsplit_block: Some(0),
        terminal_total_difficulty: Some(U256::ZERO),
        terminal_total_difficulty_passed: true,
        shanghai_time: at(Hardfork::Shanghai),
        cancun_time: at(Hardfork::Cancun),
        prague_time: at(Hardfork::Prague),
        osaka_time: at(Hardfork::Osaka),
        bpo1_time: at(Hardfork::Bpo1),
        bpo2_time: at(Hardfork::Bpo2),
        blob_schedule: schedule.map(|(name, params)| (name.to_owned(), params)).into(),
        ..ChainConfig::default()
    }
}

fn contracts(fork: Hardfork) -> Vec<(Address, Bytes)> {
    let mut contracts = vec![(CREATE2_DEPLOYER, CREATE2_DEPLOYER_CODE)];
    if fork >= Hardfork::Cancun {
        contracts.push((eip4788::BEACON_ROOTS_ADDRESS, eip4788::BEACON_ROOTS_CODE.clone()));
    }
    if fork >= Hardfork::Prague {
        contracts.push((eip2935::HISTORY_STORAGE_ADDRESS, eip2935::HISTORY_STORAGE_CODE.clone()));
        contracts.push((
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.clone(),
        ));
        contracts.push((
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE.clone(),
        ));
    }
    contracts
}

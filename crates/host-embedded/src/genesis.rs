use alloy_consensus::{
    BlockBody, EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS,
};
use alloy_eips::{eip1559::INITIAL_BASE_FEE, eip7685::EMPTY_REQUESTS_HASH};
use alloy_genesis::Genesis;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::{TrieAccount, root};
use prestate_host::{Block, ChainSpec, RecoveredBlock};
use prestate_types::AccountInfo;

/// The genesis block of a genesis file, as Geth makes it (`core/genesis.go`, `ToBlock`).
pub fn genesis_block(genesis: &Genesis, spec: &ChainSpec) -> RecoveredBlock {
    let (number, time) = (genesis.number.unwrap_or_default(), genesis.timestamp);
    let shanghai = spec.is_shanghai_active_at_timestamp(time);
    let cancun = spec.is_cancun_active_at_timestamp(time);
    let prague = spec.is_prague_active_at_timestamp(time);
    let accounts = genesis.alloc.iter().map(|(address, account)| {
        let storage = account.storage.iter().flatten().map(|(slot, value)| (*slot, *value));
        let code_hash = account.code.as_ref().map_or(prestate_types::KECCAK_EMPTY, keccak256);
        let info = AccountInfo {
            nonce: account.nonce.unwrap_or_default(),
            balance: account.balance,
            code_hash,
        };
        (*address, info, storage.collect::<Vec<_>>())
    });
    let header = Header {
        parent_hash: genesis.parent_hash.unwrap_or_default(),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: genesis.coinbase,
        state_root: state_root(accounts),
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        difficulty: genesis.difficulty,
        number,
        gas_limit: genesis.gas_limit,
        timestamp: time,
        extra_data: genesis.extra_data.clone(),
        mix_hash: genesis.mix_hash,
        nonce: genesis.nonce.into(),
        base_fee_per_gas: spec.is_london_active_at_block(number).then(|| {
            genesis
                .base_fee_per_gas
                .map_or(INITIAL_BASE_FEE, |fee| u64::try_from(fee).unwrap_or(u64::MAX))
        }),
        withdrawals_root: shanghai.then_some(EMPTY_WITHDRAWALS),
        blob_gas_used: cancun.then(|| genesis.blob_gas_used.unwrap_or_default()),
        excess_blob_gas: cancun.then(|| genesis.excess_blob_gas.unwrap_or_default()),
        parent_beacon_block_root: cancun.then_some(B256::ZERO),
        requests_hash: prague.then_some(EMPTY_REQUESTS_HASH),
        ..Default::default()
    };
    let body = BlockBody {
        transactions: Vec::new(),
        ommers: Vec::new(),
        withdrawals: shanghai.then(Default::default),
    };
    RecoveredBlock::new_unhashed(Block { header, body }, Vec::new())
}

/// The root of the state trie over whole accounts. Costs time in proportion to the whole state:
/// for small states and checks.
pub fn state_root(
    accounts: impl IntoIterator<Item = (Address, AccountInfo, Vec<(B256, B256)>)>,
) -> B256 {
    root::state_root_unhashed(accounts.into_iter().map(|(address, info, storage)| {
        let set = storage.into_iter().filter(|(_, value)| !value.is_zero());
        let storage_root = root::storage_root_unhashed(
            set.map(|(slot, value)| (slot, U256::from_be_bytes(value.0))),
        );
        let account = TrieAccount {
            nonce: info.nonce,
            balance: info.balance,
            storage_root,
            code_hash: info.code_hash,
        };
        (address, account)
    }))
}

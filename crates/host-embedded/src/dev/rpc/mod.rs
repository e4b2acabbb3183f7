//! `eth_*`, `net_*`, `web3_*` and `dev_*` of a dev chain, as a jsonrpsee module.

mod accounts;
mod blocks;
mod calls;
mod control;
mod fault;
mod fees;
mod filters;
mod logs;
mod node;
mod receipts;
mod send;
mod site;
mod subscribe;

use super::DevChain;
use filters::Filters;
use jsonrpsee::{RpcModule, core::RegisterMethodError, types::ErrorObjectOwned};
use std::sync::Arc;

/// What a method answers.
type Answer<T> = Result<T, ErrorObjectOwned>;

/// The chain as its methods see it.
#[derive(Debug)]
pub struct DevRpc {
    chain: Arc<DevChain>,
    filters: Filters,
}

/// The methods of a dev chain. They run on blocking threads of the runtime they are called in.
///
/// # Errors
/// None in practice: the names are all different.
pub fn dev_module(chain: Arc<DevChain>) -> Result<RpcModule<DevRpc>, RegisterMethodError> {
    let mut module = RpcModule::new(DevRpc { chain, filters: Filters::default() });
    macro_rules! methods {
        ($($name:literal => $method:ident;)*) => {$(
            module.register_blocking_method($name, |params, rpc, _| rpc.$method(&params))?;
        )*};
    }
    methods! {
        "dev_accounts" => dev_accounts;
        "dev_contracts" => dev_contracts;
        "dev_mine" => mine;
        "dev_reorg" => reorg;
        "dev_setBalance" => set_balance;
        "dev_setStorageAt" => set_storage_at;
        "eth_accounts" => accounts;
        "eth_blobBaseFee" => blob_base_fee;
        "eth_blockNumber" => block_number;
        "eth_call" => call;
        "eth_chainId" => chain_id;
        "eth_coinbase" => coinbase;
        "eth_createAccessList" => create_access_list;
        "eth_estimateGas" => estimate_gas;
        "eth_feeHistory" => fee_history;
        "eth_gasPrice" => gas_price;
        "eth_getBalance" => balance;
        "eth_getBlockByHash" => block_by_hash;
        "eth_getBlockByNumber" => block_by_number;
        "eth_getBlockReceipts" => block_receipts;
        "eth_getBlockTransactionCountByHash" => transaction_count_by_hash;
        "eth_getBlockTransactionCountByNumber" => transaction_count_by_number;
        "eth_getCode" => code;
        "eth_getFilterChanges" => filter_changes;
        "eth_getFilterLogs" => filter_logs;
        "eth_getLogs" => logs;
        "eth_getProof" => proof;
        "eth_getRawTransactionByHash" => raw_transaction;
        "eth_getStorageAt" => storage_at;
        "eth_getTransactionByBlockHashAndIndex" => transaction_by_block_hash;
        "eth_getTransactionByBlockNumberAndIndex" => transaction_by_block_number;
        "eth_getTransactionByHash" => transaction;
        "eth_getTransactionCount" => transaction_count;
        "eth_getTransactionReceipt" => receipt;
        "eth_getUncleCountByBlockHash" => uncle_count_by_hash;
        "eth_getUncleCountByBlockNumber" => uncle_count_by_number;
        "eth_maxPriorityFeePerGas" => max_priority_fee;
        "eth_newBlockFilter" => new_block_filter;
        "eth_newFilter" => new_filter;
        "eth_newPendingTransactionFilter" => new_pending_filter;
        "eth_protocolVersion" => protocol_version;
        "eth_sendRawTransaction" => send_raw;
        "eth_sendTransaction" => send;
        "eth_sign" => sign;
        "eth_signTransaction" => sign_transaction;
        "eth_syncing" => syncing;
        "eth_uninstallFilter" => uninstall_filter;
        "net_listening" => listening;
        "net_peerCount" => peer_count;
        "net_version" => net_version;
        "txpool_content" => pool_content;
        "txpool_status" => pool_status;
        "web3_clientVersion" => client_version;
        "web3_sha3" => sha3;
    }
    subscribe::register(&mut module)?;
    Ok(module)
}

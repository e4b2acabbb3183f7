use crate::{
    RpcConfig, Sources,
    run::Executions,
    service::{Answer, Call, Service, Subscribed, notifications_unsupported},
    sources::Known,
};
use async_trait::async_trait;
use prestate_host::Host;
use prestate_rpc_api::{RpcError, code};
use prestate_store::ReplyCache;
use prestate_wire::CodeTable;
use std::{sync::Arc, time::Duration};

/// The methods answered, sorted.
pub const METHODS: &[&str] = &[
    "debug_getCacheStatus",
    "debug_getRawBlock",
    "debug_getRawHeader",
    "debug_getRawReceipts",
    "debug_getRawTransaction",
    "debug_traceBlock",
    "debug_traceBlockByHash",
    "debug_traceBlockByNumber",
    "debug_traceCall",
    "debug_traceTransaction",
    "eth_blockNumber",
    "eth_chainId",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "net_version",
    "prestate_getAccounts",
    "prestate_getBlockDiff",
    "prestate_getDiffRange",
    "prestate_getStorage",
    "prestate_getTransactionDiff",
    "prestate_getTransactionDiffs",
    "prestate_resync",
    "prestate_status",
    "prestate_subscribe",
    "prestate_unsubscribe",
    "trace_block",
    "trace_filter",
    "trace_get",
    "trace_replayBlockTransactions",
    "trace_replayTransaction",
    "trace_transaction",
    "web3_clientVersion",
];

/// Longest method name looked at (Geth `rpc/handler.go`, go-ethereum#31711).
const MAX_METHOD_BYTES: usize = 2048;

/// The namespaces over a host. Cloning shares everything.
#[derive(Debug, Clone)]
pub struct Rpc(Arc<Shared>);

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) known: Known,
    pub(crate) codes: Arc<CodeTable>,
    pub(crate) config: RpcConfig,
    pub(crate) executions: Executions,
    pub(crate) reads: Executions,
    pub(crate) cache: ReplyCache<RpcError>,
}

impl Rpc {
    /// The namespaces over a host, and over what follows it.
    pub fn new(sources: impl Into<Sources>, config: RpcConfig) -> Self {
        let Sources { host, pipeline, archive } = sources.into();
        let executions = Executions::new(config.max_executions, config.max_queue);
        let reads = Executions::new(config.max_reads, config.max_queue);
        let cache = ReplyCache::new(config.cache_bytes);
        Self(Arc::new(Shared {
            host,
            known: Known { pipeline, archive },
            codes: Arc::new(CodeTable::new()),
            config,
            executions,
            reads,
            cache,
        }))
    }
}

/// Pause between two rounds of housekeeping.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(1);
/// Look-ups in a round that make a reply worth a copy in one piece: what it saves is then more
/// than what it took.
const JOINED_LOOKUPS: u32 = 16;
/// One part in so many of the cache may be taken up by such copies.
const JOINED_SHARE: u64 = 16;
/// Codes compressed better in one round: some milliseconds of one core.
const IMPROVED_CODES: usize = 8;

impl Rpc {
    /// Loads what the EVM loads at first use, then looks after shared codes until dropped: those
    /// in use are compressed better little by little, and texts nobody asked for lately give their
    /// memory back. Run it beside the transport.
    pub async fn keep_house(self) {
        let mut warm = false;
        loop {
            let shared = Arc::clone(&self.0);
            // Seconds of a core, taken only by chains that can need what they load.
            if !warm && shared.has_blobs() {
                warm = true;
                let _ = tokio::task::spawn_blocking(prestate_diff::warm_up).await;
            }
            tokio::time::sleep(HOUSEKEEPING_PAUSE).await;
            let round = tokio::task::spawn_blocking(move || {
                shared.codes.improve(IMPROVED_CODES);
                shared.codes.release_texts();
                let budget = shared.config.cache_bytes / JOINED_SHARE;
                shared.cache.join_hottest(JOINED_LOOKUPS, budget);
            });
            // A panic in it must not end the house; the next round tries again.
            let _ = round.await;
        }
    }
}

impl Shared {
    /// Whether the head's rules know blobs, and so the precompile that loads a trusted setup:
    /// its header then says how much blob gas there was (EIP-4844).
    fn has_blobs(&self) -> bool {
        let head = self.host.head().ok().and_then(|head| self.host.block(head.hash).ok().flatten());
        head.is_some_and(|block| block.excess_blob_gas.is_some())
    }
}

#[async_trait]
impl Service for Rpc {
    async fn call(&self, call: Call<'_>) -> Result<Answer, RpcError> {
        let shared = &self.0;
        let params = call.params;
        match call.method {
            "debug_traceBlockByNumber" => shared.trace_block_by_number(params).await,
            "debug_traceBlockByHash" => shared.trace_block_by_hash(params).await,
            "debug_traceBlock" => shared.trace_block_rlp(params).await,
            "debug_traceCall" => shared.trace_call(params).await,
            "debug_traceTransaction" => shared.trace_transaction(params).await,
            "debug_getCacheStatus" => shared.cache_status(params),
            "debug_getRawBlock" => shared.raw_block(params),
            "debug_getRawHeader" => shared.raw_header(params),
            "debug_getRawReceipts" => shared.raw_receipts(params).await,
            "debug_getRawTransaction" => shared.raw_transaction(params),
            "prestate_getBlockDiff" => shared.block_diff(params).await,
            "prestate_getTransactionDiffs" => shared.transaction_diffs(params).await,
            "prestate_getTransactionDiff" => shared.transaction_diff(params).await,
            "prestate_getDiffRange" => shared.diff_range(params).await,
            "prestate_getStorage" => shared.storage(params).await,
            "prestate_getAccounts" => shared.accounts(params).await,
            "prestate_resync" => shared.resync(params).await,
            "prestate_subscribe" | "prestate_unsubscribe" => Err(notifications_unsupported()),
            "prestate_status" => shared.status(params),
            "trace_block" => shared.parity_block(params).await,
            "trace_transaction" => shared.parity_transaction(params).await,
            "trace_get" => shared.parity_get(params).await,
            "trace_filter" => shared.parity_filter(params).await,
            "trace_replayBlockTransactions" => shared.parity_replay_block(params).await,
            "trace_replayTransaction" => shared.parity_replay_transaction(params).await,
            "eth_chainId" => shared.chain_id(params),
            "eth_blockNumber" => shared.block_number(params),
            "eth_getBlockByNumber" => shared.block_by_number(params).await,
            "eth_getBlockByHash" => shared.block_by_hash(params).await,
            "net_version" => shared.net_version(params),
            "web3_clientVersion" => shared.client_version(params),
            "" => Err(RpcError::new(code::INVALID_REQUEST, "invalid request")),
            long if long.len() > MAX_METHOD_BYTES => Err(RpcError::new(
                code::INVALID_REQUEST,
                format!("method name too long: {} > {MAX_METHOD_BYTES}", long.len()),
            )),
            other => Err(RpcError::method_not_found(other)),
        }
    }

    fn methods(&self) -> &[&'static str] {
        METHODS
    }

    fn subscriptions(&self) -> &[&'static str] {
        &["prestate"]
    }

    async fn subscribe(&self, call: Call<'_>) -> Result<Subscribed, RpcError> {
        match call.method {
            "prestate_subscribe" => self.0.subscribe(call.params).await,
            other => Err(RpcError::method_not_found(other)),
        }
    }
}

//! A node in this process, its chain made through the engine API.

use crate::http::{call, call_with};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_engine::{Claims, JwtSecret};
use clap::Parser;
use hyper::header;
use prestate_exex::PrestateArgs;
use prestate_host::Host;
use prestate_reth::{Launched, launch};
use prestate_types::BlockRef;
use reth_ethereum::{
    chainspec::{ChainSpec, DEV},
    node::{
        builder::{NodeBuilder, NodeConfig},
        core::{
            args::{DatadirArgs, RpcServerArgs},
            dirs::MaybePlatformPath,
        },
    },
    provider::db::{ClientVersion, init_db, mdbx::DatabaseArguments},
    tasks::Runtime,
};
use reth_rpc_server_types::{RethRpcModule, RpcModuleSelection};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long anything is waited for that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Flags {
    #[command(flatten)]
    args: PrestateArgs,
}

/// Prestate's arguments from its flags.
pub(crate) fn args(flags: &[&str]) -> PrestateArgs {
    Flags::try_parse_from([&["node"], flags].concat()).unwrap().args
}

/// A node, its chain made block by block. It stops when dropped.
pub(crate) struct Node {
    pub(crate) launched: Launched,
    pub(crate) http: SocketAddr,
    pub(crate) host: Arc<dyn Host>,
    runtime: Runtime,
    time: u64,
    /// After all that holds the node's database, in the order of dropping.
    _closed: Closed,
    _folder: Option<TempDir>,
}

/// Waits until a node's database is closed: a process that ends before aborts in RocksDB. Whatever
/// holds the database holds the node's chain specification too.
struct Closed(Weak<ChainSpec>);

impl Drop for Closed {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.0.strong_count() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runtime.graceful_shutdown_with_timeout(Duration::from_secs(5));
    }
}

fn config(folder: &Path) -> NodeConfig<ChainSpec> {
    let secret = folder.join("jwt.hex");
    std::fs::write(&secret, SECRET).unwrap();
    let api = RpcModuleSelection::from_iter([
        RethRpcModule::Eth,
        RethRpcModule::Net,
        RethRpcModule::Web3,
        RethRpcModule::Debug,
        RethRpcModule::Testing,
    ]);
    let mut rpc = RpcServerArgs::default().with_unused_ports().with_http().with_ws();
    rpc = rpc.with_http_api(api.clone()).with_ws_api(api).with_ipc_random_path();
    rpc.auth_jwtsecret = Some(secret);
    let datadir = DatadirArgs {
        datadir: MaybePlatformPath::from(folder.join("node")),
        ..DatadirArgs::default()
    };
    let chain = Arc::new(ChainSpec::clone(&DEV));
    let mut config = NodeConfig::test().with_chain(chain).with_datadir_args(datadir);
    config.network.discovery.disable_discovery = true;
    config.with_rpc(rpc)
}

impl Node {
    /// Starts a node on a new folder. The lane takes a free port.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Self::start_in(folder.path(), flags).await.unwrap();
        node._folder = Some(folder);
        node
    }

    /// Starts a node on a folder.
    pub(crate) async fn start_in(folder: &Path, flags: &[&str]) -> eyre::Result<Self> {
        let config = config(folder);
        let closed = Closed(Arc::downgrade(&config.chain));
        let runtime = Runtime::test();
        let version = ClientVersion::default();
        let database = init_db(config.datadir().db(), DatabaseArguments::new(version))?;
        let builder =
            NodeBuilder::new(config).with_database(database).with_launch_context(runtime.clone());
        let mut all =
            vec!["--prestate.http.port=0", "--prestate.workers=2", "--prestate.reserve=0"];
        all.extend(flags);
        let launched = launch(builder, args(&all)).await?;
        let http = launched.http.unwrap();
        let host = launched.prestate.host().unwrap();
        let time = DEV.genesis.timestamp;
        Ok(Self { launched, http, host, runtime, time, _closed: closed, _folder: None })
    }

    /// Where the lane listens.
    pub(crate) async fn lane(&self) -> SocketAddr {
        let mut addr = self.launched.prestate.lane_addr();
        let bound = tokio::time::timeout(PATIENCE, addr.wait_for(Option::is_some)).await;
        bound.unwrap().unwrap().unwrap()
    }

    fn attributes(&mut self) -> Value {
        self.time += 12;
        json!({
            "timestamp": format!("0x{:x}", self.time),
            "prevRandao": B256::from(U256::from(self.time)),
            "suggestedFeeRecipient": Address::with_last_byte(0xfe),
            "withdrawals": [{
                "index": "0x1", "validatorIndex": "0x2", "amount": "0x3",
                "address": Address::from_word(B256::from(U256::from(self.time))),
            }],
            "parentBeaconBlockRoot": B256::repeat_byte(0xbe),
        })
    }

    /// Puts a block on top of the head.
    pub(crate) async fn commit(&mut self, txs: &[Bytes]) -> BlockRef {
        let attributes = self.attributes();
        let params = json!([attributes, txs, null]);
        let hash = call(self.http, "testing_commitBlockV1", params).await.unwrap();
        let block = self.known(hash.as_str().unwrap().parse().unwrap());
        self.wait(|| self.host.head().is_ok_and(|head| head == block)).await;
        block
    }

    /// Makes a block on top of any canonical block, and tells the node of it; not its head yet.
    pub(crate) async fn propose(&mut self, parent: B256, txs: &[Bytes]) -> B256 {
        let attributes = self.attributes();
        let params = json!([parent, attributes, txs, null]);
        let built = call(self.http, "testing_buildBlockV1", params).await.unwrap();
        let payload = &built["executionPayload"];
        let params = json!([payload, [], B256::repeat_byte(0xbe), built["executionRequests"]]);
        let status = self.engine("engine_newPayloadV4", params).await;
        assert_eq!(status["status"], "VALID", "{status}");
        payload["blockHash"].as_str().unwrap().parse().unwrap()
    }

    /// Makes a block the head; `finalized` may be zero.
    pub(crate) async fn choose(&self, head: B256, finalized: B256) {
        let state = json!({
            "headBlockHash": head, "safeBlockHash": finalized, "finalizedBlockHash": finalized,
        });
        let chosen = self.engine("engine_forkchoiceUpdatedV3", json!([state, null])).await;
        assert_eq!(chosen["payloadStatus"]["status"], "VALID", "{chosen}");
        self.wait(|| self.host.head().is_ok_and(|now| now.hash == head)).await;
    }

    async fn engine(&self, method: &str, params: Value) -> Value {
        let secret = JwtSecret::from_hex(SECRET).unwrap();
        let token = secret.encode(&Claims::with_current_timestamp()).unwrap();
        let bearer = [(header::AUTHORIZATION, format!("Bearer {token}"))];
        call_with(self.launched.engine, method, params, &bearer).await.unwrap()
    }

    fn known(&self, hash: B256) -> BlockRef {
        let block = self.host.block(hash).unwrap();
        BlockRef::new(block.unwrap().number, hash)
    }

    /// Waits until something is so.
    pub(crate) async fn wait(&self, mut so: impl FnMut() -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.expect("it did not come about in a minute");
    }

    /// Waits until the newest durable block is this one.
    pub(crate) async fn settled(&self, block: BlockRef) {
        let prestate = &self.launched.prestate;
        self.wait(|| {
            prestate
                .pipeline_status()
                .is_some_and(|status| status.durable == Some(block) && status.in_flight_blocks == 0)
        })
        .await;
    }
}

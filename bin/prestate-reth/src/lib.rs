//! A reth node that keeps and serves the state diffs of its blocks. The program is a few lines
//! over [`launch`]; tests launch the same node in their own process.

mod archive;
mod namespaces;

pub use archive::Commands;
pub use namespaces::Namespaces;

use prestate_exex::{Prestate, PrestateArgs, install};
use reth_ethereum::{
    chainspec::ChainSpec,
    node::{
        EthereumAddOns, EthereumNode,
        api::NodeTypesWithDBAdapter,
        builder::{NodeBuilder, WithLaunchContext},
    },
    provider::{db::DatabaseEnv, providers::BlockchainProvider},
};
use std::{fmt, future::Future, net::SocketAddr, pin::Pin};

/// The database of an Ethereum node.
pub type Provider = BlockchainProvider<NodeTypesWithDBAdapter<EthereumNode, DatabaseEnv>>;

/// A node that runs.
pub struct Launched {
    /// Prestate inside it.
    pub prestate: Prestate,
    /// The node's database.
    pub provider: Provider,
    /// Where the node's own HTTP listens, if it does.
    pub http: Option<SocketAddr>,
    /// Where its WebSocket listens, if it does.
    pub ws: Option<SocketAddr>,
    /// The socket of its IPC, if it has one.
    pub ipc: Option<String>,
    /// Where the engine API listens.
    pub engine: SocketAddr,
    /// Ends with the node.
    pub exit: Pin<Box<dyn Future<Output = eyre::Result<()>> + Send>>,
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("http", &self.http)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

/// Launches an Ethereum node with prestate in it, with the debugging capabilities that `--dev`
/// needs to mine.
///
/// # Errors
/// Whatever keeps the node from starting. Of prestate's own troubles only under
/// `--prestate.strict`.
pub async fn launch(
    builder: WithLaunchContext<NodeBuilder<DatabaseEnv, ChainSpec>>,
    args: PrestateArgs,
) -> eyre::Result<Launched> {
    let prestate = Prestate::new(args)?;
    let builder = builder
        .with_types::<EthereumNode>()
        .with_components(EthereumNode::components())
        .with_add_ons(EthereumAddOns::default().with_rpc_middleware(prestate.layer()));
    let handle = install(builder, &prestate).launch_with_debug_capabilities().await?;
    let servers = &handle.node.add_ons_handle.rpc_server_handles;
    let (http, ws) = (servers.rpc.http_local_addr(), servers.rpc.ws_local_addr());
    let (ipc, engine) = (servers.rpc.ipc_endpoint(), servers.auth.local_addr());
    let provider = handle.node.provider.clone();
    let stopping = prestate.clone();
    let exit = Box::pin(async move {
        handle.wait_for_node_exit().await?;
        // Which of the node's tasks ends first decides what it says of the others.
        match stopping.fatal() {
            Some(reason) => Err(eyre::eyre!("{reason}")),
            None => Ok(()),
        }
    });
    Ok(Launched { prestate, provider, http, ws, ipc, engine, exit })
}

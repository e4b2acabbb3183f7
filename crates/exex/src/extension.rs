use crate::{
    args::PrestateArgs,
    follow::{self, Home},
    health::Area,
    host::{RethHost, RethProvider},
    intercept::{Answering, InterceptLayer},
    lane,
    services::Part,
    session::Place,
    shared::Shared,
    spec::chain_spec,
};
use alloy_eips::BlockNumHash;
use prestate_host::Host;
use prestate_pipeline::PipelineStatus;
use prestate_rpc::into_module;
use prestate_store::ChainId;
use reth_ethereum::{
    EthPrimitives,
    chainspec::{ChainSpec, EthChainSpec},
    exex::ExExContext,
    node::{
        api::{FullNodeComponents, NodeTypes},
        builder::rpc::RpcContext,
        core::version::version_metadata,
    },
};
use reth_rpc_eth_api::EthApiTypes;
use std::{future::Future, io, net::SocketAddr, sync::Arc};
use tokio::sync::watch;

/// The name the node knows the execution extension by.
pub const EXEX_ID: &str = "prestate";

/// Prestate inside a reth node. Clones speak of the same one.
///
/// [`crate::install`] puts it into a node by itself. Beside other extensions, call its parts from
/// your own hooks, of which a node has one each: [`Self::exex`] from `install_exex`,
/// [`Self::extend_rpc`] from `extend_rpc_modules`, [`Self::layer`] with `with_rpc_middleware`.
#[derive(Debug, Clone)]
pub struct Prestate {
    shared: Arc<Shared>,
    addr: watch::Sender<Option<SocketAddr>>,
}

impl Prestate {
    /// Makes the threads it serves on; nothing else happens yet.
    ///
    /// # Errors
    /// The threads could not be started.
    pub fn new(args: PrestateArgs) -> io::Result<Self> {
        Ok(Self { shared: Arc::new(Shared::new(args)?), addr: watch::Sender::new(None) })
    }

    /// For `install_exex`: takes the node's context, returns the future that follows the node for
    /// as long as it runs.
    ///
    /// # Errors
    /// Under `--prestate.strict` only: a configuration that cannot be met. The node does not start
    /// then.
    pub async fn exex<Node>(
        self,
        ctx: ExExContext<Node>,
    ) -> eyre::Result<impl Future<Output = eyre::Result<()>> + Send>
    where
        Node:
            FullNodeComponents<Types: NodeTypes<Primitives = EthPrimitives, ChainSpec = ChainSpec>>,
        Node::Provider: RethProvider,
    {
        let shared = self.shared;
        if let Some(reason) = shared.args.short_retention() {
            if shared.args.strict {
                return Err(shared.give_up(&format!("{reason}: --prestate.retention")));
            }
            let remedy = "name at least 64 blocks with --prestate.retention";
            shared.health.report(Area::Retention, reason, remedy);
        }
        let spec = &ctx.config.chain;
        let chain = ChainId { chain_id: spec.chain_id(), genesis_hash: spec.genesis_hash() };
        let version = version_metadata().short_version.to_string();
        let host = RethHost::new(ctx.provider().clone(), chain_spec(spec), version);
        let host = Arc::new(host);
        shared.set_host(host.clone());
        let place = (!shared.args.no_archive).then(|| {
            let path = shared.args.datadir.clone();
            let path = path.unwrap_or_else(|| ctx.config.datadir().data_dir().join("prestate"));
            Place { path, chain }
        });
        let genesis = BlockNumHash::new(0, chain.genesis_hash);
        let stopped = shared.clone();
        ctx.task_executor().spawn_with_graceful_shutdown_signal(async move |signal| {
            let guard = signal.await;
            let _ = tokio::task::spawn_blocking(move || stopped.stop()).await;
            drop(guard);
        });
        Ok(follow::run(ctx, Home { shared, host, place, genesis }))
    }

    /// For `extend_rpc_modules`: merges `prestate_*` into every transport of the node, and opens
    /// the lane on its own port.
    ///
    /// # Errors
    /// Names that are taken already; under `--prestate.strict` also a lane that cannot be opened.
    pub fn extend_rpc<Node, EthApi>(
        &self,
        ctx: &mut RpcContext<'_, Node, EthApi>,
    ) -> eyre::Result<()>
    where
        Node: FullNodeComponents,
        EthApi: EthApiTypes,
    {
        let shared = &self.shared;
        if !shared.args.http_disable {
            let asked = shared.args.http_api.as_deref();
            let service = lane::service(shared.current.clone(), ctx.modules, asked);
            let opened = shared.args.lane_config().map_err(eyre::Report::from);
            let opened = opened.and_then(|config| {
                let (mut bound, first) = lane::start(shared, service, config);
                let addr = self.addr.clone();
                shared.runtime().spawn(async move {
                    while bound.changed().await.is_ok() {
                        addr.send_replace(*bound.borrow_and_update());
                    }
                });
                Ok(first?)
            });
            if let Err(error) = opened {
                if shared.args.strict {
                    return Err(error.wrap_err("prestate: the lane (--prestate.strict)"));
                }
                let remedy = "correct the --prestate.http flags";
                shared.health.report(Area::Lane, format!("{error:#}"), remedy);
            }
        }
        let own = |name: &str| name.starts_with("prestate_");
        let part = Part::new(shared.current.clone(), own, Some(shared.runtime()));
        ctx.modules.merge_configured(into_module(Arc::new(part)))?;
        Ok(())
    }

    /// For `with_rpc_middleware`; lets everything through without `--prestate.intercept-debug`.
    pub fn layer(&self) -> InterceptLayer {
        let answering =
            self.shared.args.intercept_debug.then(|| Answering { shared: self.shared.clone() });
        InterceptLayer { answering }
    }

    /// Where the lane listens, once it does.
    pub fn lane_addr(&self) -> watch::Receiver<Option<SocketAddr>> {
        self.addr.subscribe()
    }

    /// How the pipeline stands, while one runs.
    pub fn pipeline_status(&self) -> Option<PipelineStatus> {
        Some(self.shared.pipeline()?.status())
    }

    /// Why the node was stopped, if it was for `--prestate.strict`. A node that stops for an
    /// extension may well report success.
    pub fn fatal(&self) -> Option<&str> {
        self.shared.fatal()
    }

    /// The node as a host, once its extension was started.
    pub fn host(&self) -> Option<Arc<dyn Host>> {
        self.shared.host()
    }
}

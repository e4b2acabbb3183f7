use crate::{
    health::Area,
    services::{Current, Part},
    shared::Shared,
};
use jsonrpsee::{Methods, RpcModule};
use prestate_lane::{Lane, LaneConfig, LaneError};
use prestate_rpc::{Joined, METHODS, Modules, Service};
use reth_ethereum::rpc::builder::TransportRpcModules;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Time that requests under way get when the node stops; the node waits five seconds in all.
const GRACE: Duration = Duration::from_secs(2);
/// Pause between attempts to listen.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What the lane answers of the node where the node itself serves neither HTTP nor WebSocket.
const STANDARD: [&str; 3] = ["eth", "net", "web3"];
/// Namespaces in which the node is asked first: it knows pending state, filters and the pool.
const NODE_FIRST: [&str; 3] = ["eth", "net", "web3"];

/// Prestate's namespaces and the node's as one service.
///
/// Those of the node are what its HTTP and WebSocket serve, or the standard ones if there is
/// neither; `asked` can name any other that a transport of the node has, IPC included.
pub(crate) fn service(
    own: Arc<Current>,
    node: &TransportRpcModules,
    asked: Option<&[String]>,
) -> Arc<dyn Service> {
    let space = |name: &str| name.split_once('_').map_or("", |(space, _)| space).to_owned();
    let networked = node.module_config().http().is_some() || node.module_config().ws().is_some();
    let served = |name: &str| match asked {
        Some(asked) => asked.iter().any(|entry| *entry == name || *entry == space(name)),
        None if networked => {
            let over = |methods: Option<Methods>| {
                methods.is_some_and(|methods| methods.method(name).is_some())
            };
            over(node.http_methods(|other| other == name))
                || over(node.ws_methods(|other| other == name))
        }
        None => STANDARD.contains(&&*space(name)),
    };
    let mine = |name: &str| METHODS.contains(&name) && !NODE_FIRST.contains(&&*space(name));
    let methods = node.methods_by(|name| served(name) && !mine(name));
    let mut module = RpcModule::new(());
    // Names are unique: `methods_by` takes each once.
    let _ = module.merge(methods);
    let node: Arc<dyn Service> = Arc::new(Modules::new(module));
    // Of two services that know a method the first answers it.
    let first = Part::new(own.clone(), mine, None);
    Arc::new(Joined::new(Arc::new(first), [node, own]))
}

/// Listens on the shared runtime, again and again until the address is free. The first attempt is
/// waited for.
pub(crate) fn start(
    shared: &Arc<Shared>,
    service: Arc<dyn Service>,
    config: LaneConfig,
) -> (watch::Receiver<Option<SocketAddr>>, Result<(), LaneError>) {
    let (bound, addr) = watch::channel(None);
    let (first, attempted) = std::sync::mpsc::sync_channel(1);
    let (sharing, runtime) = (shared.clone(), shared.runtime());
    let lane = runtime.spawn(async move {
        let shared = sharing;
        let mut stop = shared.stopping();
        let mut pause = FIRST_PAUSE;
        loop {
            match Lane::bind(config.clone(), service.clone()).await {
                Ok(running) => {
                    shared.health.clear(Area::Lane);
                    let addr = running.local_addr();
                    tracing::info!(target: "prestate", url = %format!("http://{addr}"), "lane started");
                    bound.send_replace(Some(addr));
                    let _ = first.try_send(Ok(()));
                    let _ = stop.wait_for(|stop| *stop).await;
                    return running.shutdown(GRACE).await;
                }
                Err(error) => {
                    let remedy = "free the address or name another one with --prestate.http.addr \
                                  and --prestate.http.port; it is tried again";
                    shared.health.report(Area::Lane, error.to_string(), remedy);
                    let _ = first.try_send(Err(error));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    });
    shared.serves(lane);
    // Binding does not wait for anything.
    let attempt = attempted.recv_timeout(Duration::from_secs(5)).unwrap_or(Ok(()));
    (addr, attempt)
}

use crate::{EXEX_ID, Prestate, RethProvider};
use reth_ethereum::{
    EthPrimitives,
    chainspec::ChainSpec,
    node::{
        api::{FullNodeTypes, NodeTypes},
        builder::{
            NodeAdapter, NodeBuilderWithComponents, NodeComponentsBuilder, WithLaunchContext,
            rpc::RethRpcAddOns,
        },
    },
};

/// A node with its components chosen, ready for extensions.
pub type Builder<T, CB, AO> = WithLaunchContext<NodeBuilderWithComponents<T, CB, AO>>;

/// Puts prestate into a node: the execution extension, the namespaces and the lane. The middleware
/// is up to the node's add-ons: `EthereumAddOns::default().with_rpc_middleware(prestate.layer())`.
///
/// It takes the node's one `extend_rpc_modules` hook. Where that is needed for something else too,
/// call [`Prestate::extend_rpc`] from it instead.
pub fn install<T, CB, AO>(builder: Builder<T, CB, AO>, prestate: &Prestate) -> Builder<T, CB, AO>
where
    T: FullNodeTypes<Types: NodeTypes<Primitives = EthPrimitives, ChainSpec = ChainSpec>>,
    T::Provider: RethProvider,
    CB: NodeComponentsBuilder<T>,
    AO: RethRpcAddOns<NodeAdapter<T, CB::Components>>,
{
    let (exex, rpc) = (prestate.clone(), prestate.clone());
    builder
        .install_exex(EXEX_ID, async move |ctx| exex.exex(ctx).await)
        .extend_rpc_modules(move |mut ctx| rpc.extend_rpc(&mut ctx))
}

use reth_rpc_server_types::{
    LenientRpcModuleValidator, RethRpcModule, RpcModuleSelection, RpcModuleValidator,
};

/// Names that `--http.api` and its like may list: reth's, and `prestate`, which is served in any
/// case.
#[derive(Debug, Clone, Copy)]
pub struct Namespaces;

impl RpcModuleValidator for Namespaces {
    fn parse_selection(names: &str) -> Result<RpcModuleSelection, String> {
        let selection = LenientRpcModuleValidator::parse_selection(names)?;
        if let RpcModuleSelection::Selection(modules) = &selection {
            for module in modules {
                if let RethRpcModule::Other(name) = module
                    && name != "prestate"
                {
                    return Err(format!("Unknown RPC module: '{name}'"));
                }
            }
        }
        Ok(selection)
    }
}

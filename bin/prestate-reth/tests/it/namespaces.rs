use prestate_reth::Namespaces;
use reth_rpc_server_types::RpcModuleValidator;

#[test]
fn only_the_namespaces_there_are_can_be_named() {
    assert!(Namespaces::parse_selection("eth,debug,prestate").is_ok());
    assert!(Namespaces::parse_selection("all").is_ok());
    let refused = Namespaces::parse_selection("eth,prestat").unwrap_err();
    assert!(refused.contains("prestat"), "{refused}");
}

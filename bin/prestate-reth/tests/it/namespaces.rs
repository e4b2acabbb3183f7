use clap::Parser;
use prestate_exex::PrestateArgs;
use prestate_reth::{Commands, Namespaces};
use reth_ethereum::cli::{Cli, Commands as Reths, chainspec::EthereumChainSpecParser};
use reth_rpc_server_types::RpcModuleValidator;

#[test]
fn only_the_namespaces_there_are_can_be_named() {
    assert!(Namespaces::parse_selection("eth,debug,prestate").is_ok());
    assert!(Namespaces::parse_selection("all").is_ok());
    let refused = Namespaces::parse_selection("eth,prestat").unwrap_err();
    assert!(refused.contains("prestat"), "{refused}");
}

/// Flags of the node and of prestate that end alike are told apart.
#[test]
fn flags_of_both_are_told_apart() {
    let flags = [
        "prestate-reth",
        "node",
        "--http.port",
        "1",
        "--prestate.http.port",
        "2",
        "--http.addr",
        "127.0.0.3",
        "--prestate.http.addr",
        "127.0.0.4",
        "--datadir",
        "/a",
        "--prestate.datadir",
        "/b",
        "--http.api",
        "eth",
        "--prestate.http.api",
        "debug",
    ];
    let cli =
        Cli::<EthereumChainSpecParser, PrestateArgs, Namespaces, Commands>::try_parse_from(flags);
    let Reths::Node(node) = cli.unwrap().command else { panic!("another command") };
    assert_eq!((node.rpc.http_port, node.ext.http_port), (1, 2));
    assert_eq!(node.rpc.http_addr.to_string(), "127.0.0.3");
    assert_eq!(node.ext.http_addr.to_string(), "127.0.0.4");
    assert_eq!(node.datadir.datadir.to_string(), "/a");
    assert_eq!(node.ext.datadir.as_deref(), Some(std::path::Path::new("/b")));
    assert_eq!(node.ext.http_api, Some(vec!["debug".to_owned()]));
    let help =
        Cli::<EthereumChainSpecParser, PrestateArgs, Namespaces, Commands>::try_parse_from([
            "prestate-reth",
            "node",
            "--help",
        ]);
    assert!(help.unwrap_err().to_string().contains("Prestate:"), "a heading of their own");
}

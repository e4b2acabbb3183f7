//! The crates of the workspace and their edges are those of the design's table.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use prestate_tests::fixtures::workspace;
use std::collections::BTreeMap;

/// A row of the table: what a crate may use of the workspace, and which crates from outside it
/// must not name.
struct Row {
    name: &'static str,
    may_use: &'static [&'static str],
    must_not: &'static [&'static str],
}

/// Edges for tests and measurements only. What stands above the seam is tested through the hosts
/// of `host-embedded`; the archive is measured on blocks replayed by `diff`.
const TESTS_USE: [(&str, &[&str]); 3] = [
    ("prestate-store", &["host", "diff", "host-embedded"]),
    ("prestate-pipeline", &["host-embedded"]),
    ("prestate-rpc", &["host-embedded"]),
];

/// What runs an EVM.
const EVM: [&str; 4] = ["revm", "revm-inspectors", "alloy-evm", "reth-primitives-traits"];

const TABLE: [Row; 15] = [
    // No I/O, no EVM, no JSON.
    Row {
        name: "prestate-types",
        may_use: &[],
        must_not: &[
            "tokio",
            "revm",
            "revm-inspectors",
            "alloy-evm",
            "reth-primitives-traits",
            "serde_json",
            "serde",
            "bytes",
            "hyper",
            "axum",
            "jsonrpsee",
        ],
    },
    // Never reth's git crates: all of them but the traits are named reth-*, see `forbidden`.
    Row {
        name: "prestate-host",
        may_use: &["types"],
        must_not: &["serde_json", "hyper", "axum", "jsonrpsee"],
    },
    // No clock, no socket, no bytes.
    Row {
        name: "prestate-diff",
        may_use: &["types", "host"],
        must_not: &["tokio", "hyper", "serde_json", "bytes", "libdeflater", "flate2", "zstd"],
    },
    // No host, no store, no parsing of JSON.
    Row {
        name: "prestate-wire",
        may_use: &["types"],
        must_not: &["tokio", "hyper", "serde_json", "redb", EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    // No parsing of JSON.
    Row {
        name: "prestate-store",
        may_use: &["types", "wire"],
        must_not: &["serde_json", "serde", "hyper", EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    // No EVM, and no node above it: nothing but the program carries segments about.
    Row {
        name: "prestate-segments",
        may_use: &["types", "store"],
        must_not: &["redb", "hyper", "axum", EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    Row {
        name: "prestate-pipeline",
        may_use: &["types", "host", "diff", "wire", "store"],
        must_not: &["hyper", "axum", "jsonrpsee"],
    },
    Row {
        name: "prestate-rpc-api",
        may_use: &["types"],
        must_not: &["hyper", "axum", EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    // No compression.
    Row {
        name: "prestate-rpc",
        may_use: &["types", "host", "diff", "wire", "store", "pipeline", "rpc-api"],
        must_not: &["libdeflater", "flate2", "zstd", "hyper", "axum"],
    },
    // No host, no store.
    Row {
        name: "prestate-lane",
        may_use: &["types", "wire", "rpc-api", "rpc"],
        must_not: &["redb", EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    Row {
        name: "prestate-host-embedded",
        may_use: &["types", "host"],
        must_not: &["hyper", "axum"],
    },
    Row {
        name: "prestate-client",
        may_use: &["types", "rpc-api"],
        must_not: &[EVM[0], EVM[1], EVM[2], EVM[3]],
    },
    Row {
        name: "prestate-bench",
        may_use: &[
            "types",
            "host",
            "diff",
            "wire",
            "store",
            "pipeline",
            "rpc-api",
            "rpc",
            "lane",
            "host-embedded",
            "client",
        ],
        must_not: &[],
    },
    // The program and the tests name any crate but exex.
    Row { name: "prestate", may_use: &["*"], must_not: &[] },
    Row { name: "prestate-tests", may_use: &["*"], must_not: &[] },
];

/// A dependency that a manifest names.
struct Edge {
    to: String,
    /// Only for tests: those may use the fake host and parsers, but no crate above.
    dev: bool,
}

/// Edges by crate.
type Edges = BTreeMap<String, Vec<Edge>>;

/// What the table does not allow.
fn violations(edges: &Edges) -> Vec<String> {
    let mut found = Vec::new();
    for name in edges.keys() {
        if !TABLE.iter().any(|row| row.name == name) {
            found.push(format!("{name} is not in the table"));
        }
    }
    for row in &TABLE {
        // A row may stand for a crate that is still to come.
        for Edge { to, dev } in edges.get(row.name).into_iter().flatten() {
            let allowed = match to.strip_prefix("prestate-") {
                Some("exex") => false,
                Some(short) => {
                    let for_tests = TESTS_USE.iter().find(|(name, _)| *name == row.name);
                    row.may_use.contains(&short)
                        || row.may_use == ["*"]
                        || *dev && for_tests.is_some_and(|(_, uses)| uses.contains(&short))
                }
                // Nobody uses the program.
                None if to == "prestate" => false,
                None => *dev || !row.must_not.contains(&to.as_str()) && !reths_own(to),
            };
            if !allowed {
                found.push(format!("{} must not use {to}", row.name));
            }
        }
    }
    found
}

/// Whether only the reth host may name it. The four that are real on the registry
/// (`reth-primitives-traits` and what it brings) are not git crates.
fn reths_own(name: &str) -> bool {
    let on_the_registry =
        ["reth-primitives-traits", "reth-codecs", "reth-rpc-traits", "reth-zstd-compressors"];
    name.starts_with("reth") && !on_the_registry.contains(&name)
}

fn edges(metadata: &Metadata) -> Edges {
    let edge = |dependency: &cargo_metadata::Dependency| Edge {
        to: dependency.name.clone(),
        dev: dependency.kind == DependencyKind::Development,
    };
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| (package.name.to_string(), package.dependencies.iter().map(edge).collect()))
        .collect()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(workspace().join("Cargo.toml"))
        .no_deps()
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .expect("cargo describes the workspace")
}

#[test]
fn every_edge_is_in_the_table() {
    assert_eq!(violations(&edges(&metadata())), Vec::<String>::new());
}

#[test]
fn folders_are_names_without_the_prefix() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().and_then(|path| path.file_name());
        let name = package.name.as_str();
        let expected = if name == "prestate" { name } else { name.trim_start_matches("prestate-") };
        assert_eq!(folder, Some(expected));
    }
}

#[test]
fn an_edge_upwards_a_forbidden_crate_and_a_stranger_are_found() {
    let with = |from: &str, to: &str, dev| {
        // Every crate of the table, without any edge but this one.
        let mut edges: Edges = TABLE.iter().map(|row| (row.name.to_owned(), Vec::new())).collect();
        edges.entry(from.to_owned()).or_default().push(Edge { to: to.to_owned(), dev });
        violations(&edges)
    };
    assert_eq!(
        with("prestate-types", "prestate-host", false),
        ["prestate-types must not use prestate-host"]
    );
    assert_eq!(
        with("prestate-wire", "prestate-store", true),
        ["prestate-wire must not use prestate-store"]
    );
    assert_eq!(
        with("prestate-store", "serde_json", false),
        ["prestate-store must not use serde_json"]
    );
    assert_eq!(with("prestate-host", "reth-exex", false), ["prestate-host must not use reth-exex"]);
    assert_eq!(
        with("prestate-tests", "prestate-exex", false),
        ["prestate-tests must not use prestate-exex"]
    );
    assert_eq!(with("prestate-rpc", "prestate", false), ["prestate-rpc must not use prestate"]);
    assert_eq!(with("prestate-new", "serde", false), ["prestate-new is not in the table"]);
    assert_eq!(
        with("prestate-rpc", "prestate-host-embedded", false),
        ["prestate-rpc must not use prestate-host-embedded"]
    );
    assert!(with("prestate-rpc", "prestate-host-embedded", true).is_empty(), "tests may");
    assert!(with("prestate-wire", "serde_json", true).is_empty(), "tests may parse JSON");
}

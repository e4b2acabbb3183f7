//! The README's maps are held against what is there.

use cargo_metadata::MetadataCommand;
use prestate_host_embedded::dev::{DevChain, DevConfig, dev_module};
use prestate_tests::fixtures::workspace;
use std::{collections::BTreeSet, fs};

/// The table behind a marker, up to the next blank line.
fn table<'a>(readme: &'a str, marker: &str) -> &'a str {
    let (_, after) = readme.split_once(marker).expect("the marker is in the README");
    let after = after.trim_start_matches('\n');
    after.split("\n\n").next().expect("a table follows")
}

/// Words in back-ticks of the first column, arguments taken off.
fn named(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|word| word.split('(').next().expect("a name").to_owned())
        .collect()
}

#[test]
fn methods_are_those_that_are_served() {
    let readme = fs::read_to_string(workspace().join("README.md")).expect("the README");
    let served = prestate_rpc::METHODS.iter().map(|method| (*method).to_owned()).collect();
    assert_eq!(named(table(&readme, "<!-- methods: checked by a test -->")), served);
}

#[test]
fn methods_of_the_dev_chain_are_those_that_are_served() {
    let readme = fs::read_to_string(workspace().join("README.md")).expect("the README");
    let chain = DevChain::open(DevConfig::default()).expect("a chain in memory");
    let module = dev_module(chain.into()).expect("its methods");
    let own: BTreeSet<_> = module.method_names().map(ToOwned::to_owned).collect();
    let elsewhere = named(table(&readme, "<!-- methods: checked by a test -->"));
    let listed = named(table(&readme, "<!-- dev methods: checked by a test -->"));
    assert_eq!(listed, &own - &elsewhere);
}

#[test]
fn crates_are_those_of_the_workspace() {
    let readme = fs::read_to_string(workspace().join("README.md")).expect("the README");
    let metadata = MetadataCommand::new()
        .manifest_path(workspace().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata");
    let members = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    assert_eq!(named(table(&readme, "<!-- crates: checked by a test -->")), members);
}

#[test]
fn tables_are_read() {
    let text = "x\n<!-- m -->\n| a |\n|---|\n| `one(x, y?)`, `two` | `three` |\n\n| `four` |";
    assert_eq!(named(table(text, "<!-- m -->")), BTreeSet::from(["one".into(), "two".into()]));
}

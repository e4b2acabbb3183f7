//! The workspace of the reth host has a lock file of its own, made from reth's. What both use is
//! the same code in both: what is tested here is what runs inside the node.

use prestate_tests::fixtures::workspace;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// The commit of reth's tag v2.5.1.
const RETH: &str =
    "git+https://github.com/paradigmxyz/reth?tag=v2.5.1#6dec1b96b625584956883c34ad0eafbe550480ac";

/// A package of a lock file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
}

fn packages(lock: &str) -> Vec<Package> {
    let field = |block: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .map(|block| Package {
            name: field(block, "name").expect("a name"),
            version: field(block, "version").expect("a version"),
            source: field(block, "source"),
        })
        .collect()
}

/// What of a version decides whether two can stand in for each other: cargo unifies within it.
fn line(version: &str) -> String {
    let numbers: Vec<_> = version.split(['.', '+', '-']).take(3).collect();
    match numbers[..] {
        ["0", "0", patch] => format!("0.0.{patch}"),
        ["0", minor, ..] => format!("0.{minor}"),
        [major, ..] => major.to_owned(),
        [] => String::new(),
    }
}

/// Versions by name and line.
fn lines(lock: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut lines = BTreeMap::<_, BTreeSet<_>>::new();
    for Package { name, version, .. } in packages(lock) {
        lines.entry((name, line(&version))).or_default().insert(version);
    }
    lines
}

/// Names and versions that differ.
fn differences(one: &str, other: &str) -> Vec<String> {
    let other = lines(other);
    lines(one)
        .into_iter()
        .filter_map(|(key, here)| {
            let there = other.get(&key).filter(|there| **there != here)?;
            Some(format!("{} {here:?} {there:?}", key.0))
        })
        .collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).expect("a lock file")
}

#[test]
fn what_both_workspaces_use_stands_at_one_version() {
    let found = differences(&read("Cargo.lock"), &read("bin/prestate-reth/Cargo.lock"));
    assert!(found.is_empty(), "here and inside reth:\n{}", found.join("\n"));
}

#[test]
fn the_reth_host_names_its_commit_and_nobody_else_names_reth() {
    let there = packages(&read("bin/prestate-reth/Cargo.lock"));
    let git: BTreeSet<_> = there
        .iter()
        .filter_map(|package| package.source.as_deref())
        .filter(|source| source.contains("paradigmxyz/reth?"))
        .collect();
    assert_eq!(git, BTreeSet::from([RETH]));
    let here = packages(&read("Cargo.lock"));
    let git: Vec<_> = here
        .iter()
        .filter(|package| {
            package.source.as_deref().is_some_and(|source| source.starts_with("git+"))
        })
        .collect();
    assert!(git.is_empty(), "{git:?}");
}

#[test]
fn a_difference_is_found() {
    let lock = |versions: &[&str]| {
        let package =
            |version: &&str| format!("[[package]]\nname = \"a\"\nversion = \"{version}\"\n");
        versions.iter().map(package).collect::<String>()
    };
    assert_eq!(differences(&lock(&["1.2.3"]), &lock(&["1.2.3", "2.0.0"])), Vec::<String>::new());
    assert_eq!(differences(&lock(&["0.2.3"]), &lock(&["0.3.0"])), Vec::<String>::new());
    assert_eq!(differences(&lock(&["0.2.3"]), &lock(&["0.2.4"])).len(), 1);
    assert_eq!(differences(&lock(&["1.2.3"]), &lock(&["1.9.0"])).len(), 1);
}

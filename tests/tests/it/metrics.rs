//! The documented table of series is made from the tables of the crates.

use prestate_tests::{
    fixtures::workspace,
    series::{find, tables},
};
use prestate_types::{Metric, MetricKind};
use std::{collections::BTreeSet, env, fmt::Write, fs};

const START: &str = "<!-- series: begin, made from the tables of the crates -->\n";
const END: &str = "<!-- series: end -->\n";

fn table() -> String {
    let mut text = String::new();
    for (title, table) in tables() {
        write!(text, "## {title}\n\n").unwrap();
        text.push_str("| series | kind | labels | meaning |\n|---|---|---|---|\n");
        for Metric { name, kind, labels, help } in table {
            let kind = format!("{kind:?}").to_lowercase();
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
        text.push('\n');
    }
    text
}

/// With `PRESTATE_WRITE_DOCS` set, writes the table instead of comparing it.
#[test]
fn the_documented_table_is_this_one() {
    let path = workspace().join("etc/docs/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(START).unwrap();
    let (documented, tail) = rest.split_once(END).unwrap();
    if env::var_os("PRESTATE_WRITE_DOCS").is_some() {
        fs::write(&path, [head, START, &table(), END, tail].concat()).unwrap();
    } else {
        assert_eq!(documented, table(), "run with PRESTATE_WRITE_DOCS=1 to write it anew");
    }
}

#[test]
fn names_are_unique_and_tell_their_unit() {
    let all: Vec<&Metric> = tables().iter().flat_map(|(_, table)| table.iter()).collect();
    let names: BTreeSet<_> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len());
    for Metric { name, kind, labels, .. } in all {
        assert!(name.starts_with("prestate_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
        if *kind == MetricKind::Histogram {
            assert!(name.ends_with("_seconds") || name.ends_with("_blocks"), "{name}");
        }
        for label in labels.split("; ").filter(|label| !label.is_empty()) {
            assert!(label.contains(": "), "{name} {label}");
        }
    }
}

/// Words of an expression that look like series, with the suffixes of a histogram taken off.
fn series_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let named = words.filter(|word| word.starts_with("prestate_"));
    named
        .map(|word| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            base.filter(|base| find(base).is_some()).unwrap_or(word).to_owned()
        })
        .collect()
}

/// Rules and dashboard name only what the tables name, and only labels that are there.
#[test]
fn rules_and_dashboard_use_series_that_exist() {
    for path in ["etc/prometheus/prestate.yml", "etc/grafana/prestate.json"] {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        let used = series_of(&text);
        assert!(used.len() > 10, "{path}: {used:?}");
        for name in used {
            assert!(find(&name).is_some(), "{path} uses {name}, which no table has");
        }
    }
    let text = fs::read_to_string(workspace().join("etc/grafana/prestate.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let Some((_, by)) = expression.split_once("sum by (") else { continue };
            let labels = by.split(')').next().unwrap().split(", ").filter(|label| *label != "le");
            for label in labels {
                let wanted = format!("{label}: ");
                let known = series_of(expression)
                    .iter()
                    .all(|name| find(name).is_some_and(|metric| metric.labels.contains(&wanted)));
                assert!(known, "{expression}: no label {label}");
            }
        }
    }
}

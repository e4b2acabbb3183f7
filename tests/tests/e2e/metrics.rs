//! What `/metrics` of a running program shows is what the tables name.

use crate::server::Served;
use prestate_tests::series::{find, tables};
use prestate_types::MetricKind;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A line of the text: name with suffix, labels, value.
fn parse(line: &str) -> (&str, BTreeMap<&str, &str>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
    };
    let pairs = labels.split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key, value.trim_matches('"'))
    });
    (name, pairs.collect(), value.parse().unwrap())
}

/// The values a label takes by the table.
fn allowed<'a>(labels: &'a str, key: &str) -> Option<Vec<&'a str>> {
    let mut labels = labels.split("; ").filter_map(|label| label.split_once(": "));
    labels.find(|(name, _)| *name == key).map(|(_, values)| values.split(", ").collect())
}

/// Sums by name and the labels asked for.
fn value(text: &str, name: &str, wanted: &[(&str, &str)]) -> f64 {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let matching = lines.map(parse).filter(|(found, labels, _)| {
        *found == name && wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
    });
    matching.map(|(.., value)| value).sum()
}

#[test]
fn what_is_shown_is_what_the_tables_name() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let secret = folder.path().join("secret");
    let args = ["replay", "etc/samples", "--chain", "etc/samples/genesis.json", "--archive"];
    let args = args.map(AsRef::as_ref).into_iter().chain([
        archive.as_os_str(),
        "--archive.reserve".as_ref(),
        "0".as_ref(),
    ]);
    let served = Served::start(args);
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[{params}]}}"#)
    };
    let traced = call("prestate_getTransactionDiffs", r#""0x1""#);
    for headers in ["", "accept-encoding: gzip\r\n", "accept-encoding: zstd\r\n"] {
        let answer = served.post(&traced, headers);
        assert!(answer.status == 200 && !answer.body.is_empty(), "{}", answer.head);
    }
    let batch = format!("[{traced},{}]", call("prestate_status", ""));
    assert_eq!(served.post(&batch, "").status, 200);
    // A caller chooses this name: it must not become a label.
    served.post(&call("prestate_\\u0041\\\"}no", ""), "");
    served.post(&call("prestate_getBlockDiff", r#""0xffffff""#), "");

    let answer = served.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let text = String::from_utf8(answer.body).unwrap();
    let methods: BTreeSet<&str> = prestate_rpc::METHODS.iter().copied().collect();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let metric = find(name).unwrap_or_else(|| panic!("{name} is not in the tables"));
            assert_eq!(format!("{:?}", metric.kind).to_lowercase(), kind, "{name}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert_eq!(find(name).map(|metric| metric.help), Some(help), "{name}");
            continue;
        }
        let (name, labels, _) = parse(line);
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let name = name.strip_suffix(end)?;
            find(name).filter(|metric| metric.kind == MetricKind::Histogram)
        });
        let metric = histogram.or_else(|| find(name));
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the tables"));
        seen.insert(metric.name);
        for (key, value) in labels.iter().filter(|(key, _)| **key != "le") {
            let values = allowed(metric.labels, key);
            let values = values.unwrap_or_else(|| panic!("{} has no label {key}", metric.name));
            let method = *key == "method" && (methods.contains(value) || *value == "other");
            assert!(method || values.contains(value), "{line}");
        }
        let keys = metric.labels.split("; ").filter(|label| !label.is_empty()).count();
        assert_eq!(labels.keys().filter(|key| **key != "le").count(), keys, "{line}");
    }
    // All but what tells of reorgs, of trouble and of readers.
    let quiet = ["prestate_failed_blocks", "prestate_reorg_depth_blocks", "prestate_subscribers"];
    for (_, table) in tables() {
        for metric in table.iter().filter(|metric| metric.kind != MetricKind::Counter) {
            assert!(
                seen.contains(metric.name) || quiet.contains(&metric.name),
                "{} is not shown",
                metric.name
            );
        }
    }
    for (name, labels, least) in [
        (
            "prestate_calls_total",
            &[("method", "prestate_getTransactionDiffs"), ("outcome", "ok")][..],
            4.0,
        ),
        ("prestate_calls_total", &[("method", "prestate_getBlockDiff"), ("outcome", "error")], 1.0),
        ("prestate_calls_total", &[("method", "other"), ("outcome", "error")], 1.0),
        ("prestate_call_seconds_count", &[("method", "prestate_getTransactionDiffs")], 4.0),
        ("prestate_batches_total", &[], 1.0),
        ("prestate_sent_bytes_total", &[("encoding", "gzip")], 100.0),
        ("prestate_sent_bytes_total", &[("encoding", "zstd")], 100.0),
        ("prestate_sent_bytes_total", &[("encoding", "identity")], 100.0),
        ("prestate_received_bytes_total", &[], 100.0),
        ("prestate_compress_seconds_count", &[("encoding", "gzip")], 1.0),
        ("prestate_archive_blocks", &[], 4.0),
        ("prestate_archive_facts_bytes", &[], 100.0),
        ("prestate_archive_available_bytes", &[], 1.0),
        ("prestate_open_connections", &[], 1.0),
    ] {
        let found = value(&text, name, labels);
        assert!(found >= least, "{name} {labels:?}: {found}\n{text}");
    }
    assert!(!text.contains("no\""), "a caller's name is shown: {text}");
    served.kill();

    // Also where calls need a token.
    fs::write(&secret, "ab".repeat(32)).unwrap();
    let secret = Path::new(&secret).to_str().unwrap();
    let args = ["replay", "etc/samples", "--chain", "etc/samples/genesis.json"];
    let served = Served::start(args.into_iter().chain(["--http.jwtsecret", secret]));
    assert_eq!(served.post(&traced, "").status, 401);
    assert_eq!(served.get("/metrics").status, 200);
}

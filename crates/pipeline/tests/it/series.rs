//! What is recorded is what the table names.

use crate::{
    chain::{TestHost, Tree},
    model::{Reader, settle, start},
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use prestate_pipeline::METRICS;
use prestate_types::MetricKind;
use std::collections::BTreeSet;

static SEEN: Mutex<BTreeSet<(String, &'static str, Vec<String>)>> = Mutex::new(BTreeSet::new());

struct Names;

impl Names {
    fn note(key: &Key, kind: &'static str) {
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        SEEN.lock().insert((key.name().to_owned(), kind, labels.collect()));
    }
}

impl Recorder for Names {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Self::note(key, "Counter");
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Self::note(key, "Gauge");
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Self::note(key, "Histogram");
        Histogram::noop()
    }
}

#[tokio::test]
async fn every_series_and_label_is_in_the_table() {
    metrics::set_global_recorder(Names).unwrap();
    let mut tree = Tree::new();
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::new(&tree.chain);
    let pipeline = start(&tree, host.clone(), folder.path());
    let old = tree.extend(tree.genesis, 10, 3);
    tree.tell(&host);
    settle(&pipeline, &*host);
    let mut reader = Reader::new(&pipeline, old);
    let head = tree.extend(tree.genesis, 20, 4);
    tree.chain.set_head(head.hash).unwrap();
    tree.tell(&host);
    settle(&pipeline, &*host);
    reader.follow(&tree, head).await;
    let seen = SEEN.lock().clone();
    for (name, kind, labels) in &seen {
        if prestate_store::METRICS.iter().any(|metric| metric.name == name) {
            continue;
        }
        let metric = METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(format!("{:?}", metric.kind), *kind, "{name}");
        match (labels.as_slice(), metric.labels.split_once(": ")) {
            ([], None) => {}
            ([label], Some((key, values))) => {
                let (seen_key, seen_value) = label.split_once('=').unwrap();
                assert_eq!(seen_key, key);
                assert!(values.split(", ").any(|value| value == seen_value), "{name} {label}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    let names: BTreeSet<_> = seen.iter().map(|(name, ..)| name.as_str()).collect();
    // A block, a reorg and a reader touch all but what tells of trouble.
    for metric in METRICS.iter().filter(|metric| metric.kind != MetricKind::Counter) {
        assert!(names.contains(metric.name), "{} was never recorded", metric.name);
    }
}

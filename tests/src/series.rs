//! The series of all crates.

use prestate_types::Metric;

/// The tables by the title they have in the documentation.
pub fn tables() -> [(&'static str, &'static [Metric]); 3] {
    [
        ("Pipeline", prestate_pipeline::METRICS),
        ("Cache and archive", prestate_store::METRICS),
        ("Front", prestate_lane::METRICS),
    ]
}

/// The series of that name.
pub fn find(name: &str) -> Option<&'static Metric> {
    let mut all = tables().into_iter().flat_map(|(_, table)| table);
    all.find(|metric| metric.name == name)
}

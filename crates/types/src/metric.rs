/// What a series counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution of values.
    Histogram,
}

/// A series that the product records. Each crate that records some has a table of them, the only
/// place that names them; `etc/docs/metrics.md` is made from the tables.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit where it has one.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its labels with all values they take, as `one: a, b; other: c`; empty without any.
    pub labels: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// Makes a table of series, `METRICS`, and a constant with the name of each.
///
/// ```
/// mod metrics {
///     prestate_types::series! {
///         "All series of the example."
///         CALLS Counter "example_calls_total" "outcome: ok, error" "Calls.";
///     }
/// }
/// assert_eq!(metrics::CALLS, metrics::METRICS[0].name);
/// ```
#[macro_export]
macro_rules! series {
    ($doc:literal $($constant:ident $kind:ident $name:literal $labels:literal $help:literal;)*) => {
        $(pub(crate) const $constant: &str = $name;)*

        #[doc = $doc]
        pub const METRICS: &[$crate::Metric] = &[$($crate::Metric {
            name: $name,
            kind: $crate::MetricKind::$kind,
            labels: $labels,
            help: $help,
        },)*];
    };
}

//! The series this crate records. The table is the only place that names them.

use crate::Stats;
use metrics::{Counter, Histogram, counter, gauge, histogram};
use prestate_rpc_api::{RpcError, code};
use prestate_types::series;
use prestate_wire::Encoding;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

series! {
    "All series of the front."
    CALLS Counter "prestate_calls_total" "method: those served, other; outcome: ok, error, limit, timed_out, cancelled" "Calls, batch entries and notifications included. `limit` is -32005; `cancelled`: the client went away.";
    CALL_SECONDS Histogram "prestate_call_seconds" "method: those served, other" "Time a call took until its result, or the first piece of it, was there.";
    RESULT_SECONDS Histogram "prestate_result_seconds" "stage: execute, encode" "Where calls spent it that made their result: executing, writing JSON.";
    COMPRESS_SECONDS Histogram "prestate_compress_seconds" "encoding: gzip, zstd" "Time to put a compressed body together: compressing where a result is sent for the first time, splicing where it is not.";
    PANICS Counter "prestate_call_panics_total" "" "Calls that panicked.";
    REQUESTS Counter "prestate_http_requests_total" "" "HTTP requests with complete headers.";
    BATCHES Counter "prestate_batches_total" "" "Batches.";
    CONNECTIONS Counter "prestate_connections_total" "" "Connections accepted.";
    REFUSED Counter "prestate_connections_refused_total" "" "Connections turned away at the cap.";
    EXPIRED Counter "prestate_connections_timed_out_total" "" "Connections closed because of a timer.";
    SOCKETS Counter "prestate_websockets_total" "" "WebSocket sessions opened.";
    OVERLOADED Counter "prestate_overloaded_total" "" "Requests refused with 503.";
    OVERSIZED Counter "prestate_oversized_results_total" "" "Results over the size limit.";
    BROKEN_STREAMS Counter "prestate_broken_streams_total" "" "Streamed replies that were broken off.";
    BYTES_IN Counter "prestate_received_bytes_total" "" "Request bodies and WebSocket messages.";
    BYTES_OUT Counter "prestate_sent_bytes_total" "encoding: identity, gzip, zstd" "Reply bodies and WebSocket messages as sent; deflate counts as gzip.";
    OPEN Gauge "prestate_open_connections" "" "Open connections, WebSockets included.";
    RUNNING Gauge "prestate_running_requests" "" "Requests that run.";
    WAITING Gauge "prestate_waiting_requests" "" "Requests that wait for their turn.";
    REQUEST_BYTES Gauge "prestate_held_request_bytes" "" "Request bytes held.";
    REPLY_BYTES Gauge "prestate_held_reply_bytes" "" "Reply bytes held for readers.";
}

/// Time between two looks at the counters, for recorders that are read elsewhere.
pub(crate) const PUBLISH_PAUSE: Duration = Duration::from_secs(5);

/// How a call ended.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Ok,
    Error,
    Limit,
    TimedOut,
    Cancelled,
}

const OUTCOMES: [&str; 5] = ["ok", "error", "limit", "timed_out", "cancelled"];

/// The series of one method.
pub(crate) struct MethodSeries {
    outcomes: [Counter; OUTCOMES.len()],
    seconds: Histogram,
}

impl MethodSeries {
    fn new(method: &'static str) -> Self {
        Self {
            outcomes: OUTCOMES
                .map(|outcome| counter!(CALLS, "method" => method, "outcome" => outcome)),
            seconds: histogram!(CALL_SECONDS, "method" => method),
        }
    }

    pub(crate) fn begin(&self) -> Measured<'_> {
        // Until told otherwise: the future is dropped.
        Measured { series: self, begun: Instant::now(), outcome: Outcome::Cancelled }
    }
}

/// A call under way, recorded when dropped.
pub(crate) struct Measured<'a> {
    series: &'a MethodSeries,
    begun: Instant,
    outcome: Outcome,
}

impl Measured<'_> {
    pub(crate) fn ended<T>(&mut self, ran: &Result<T, RpcError>) {
        self.outcome = match ran {
            Ok(_) => Outcome::Ok,
            Err(error) if error.code == code::LIMIT_EXCEEDED => Outcome::Limit,
            Err(error) if error.code == code::TIMEOUT => Outcome::TimedOut,
            Err(_) => Outcome::Error,
        };
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.series.outcomes[self.outcome as usize].increment(1);
        self.series.seconds.record(self.begun.elapsed().as_secs_f64());
    }
}

/// The series of all methods, looked up once. What is not served is counted as one: callers choose
/// its name.
pub(crate) struct CallSeries {
    methods: HashMap<&'static str, MethodSeries>,
    other: MethodSeries,
}

impl CallSeries {
    pub(crate) fn new<'a>(methods: impl IntoIterator<Item = &'a &'static str>) -> Self {
        let methods = methods.into_iter();
        Self {
            methods: methods.map(|method| (*method, MethodSeries::new(method))).collect(),
            other: MethodSeries::new("other"),
        }
    }

    pub(crate) fn of(&self, method: &str) -> &MethodSeries {
        self.methods.get(method).unwrap_or(&self.other)
    }
}

/// Records where a call that made its result spent its time.
pub(crate) fn made(execute: Duration, encode: Duration) {
    for (stage, took) in [("execute", execute), ("encode", encode)] {
        if !took.is_zero() {
            histogram!(RESULT_SECONDS, "stage" => stage).record(took.as_secs_f64());
        }
    }
}

/// Records how long a compressed body took.
pub(crate) fn compressed(encoding: Encoding, took: Duration) {
    let encoding = match encoding {
        Encoding::Identity => return,
        Encoding::Gzip => "gzip",
        Encoding::Zstd => "zstd",
    };
    histogram!(COMPRESS_SECONDS, "encoding" => encoding).record(took.as_secs_f64());
}

/// Brings the counters to the recorder: they are kept by hand, and cost one atomic where it counts.
pub(crate) fn publish(stats: &Stats, waiting: u64) {
    for (name, value) in [
        (PANICS, stats.panics),
        (REQUESTS, stats.requests),
        (BATCHES, stats.batches),
        (CONNECTIONS, stats.connections),
        (REFUSED, stats.connections_refused),
        (EXPIRED, stats.connections_timed_out),
        (SOCKETS, stats.sockets),
        (OVERLOADED, stats.overloaded),
        (OVERSIZED, stats.oversized),
        (BROKEN_STREAMS, stats.broken_streams),
        (BYTES_IN, stats.bytes_in),
    ] {
        counter!(name).absolute(value);
    }
    for (encoding, bytes) in [
        ("identity", stats.bytes_out_identity),
        ("gzip", stats.bytes_out_gzip),
        ("zstd", stats.bytes_out_zstd),
    ] {
        counter!(BYTES_OUT, "encoding" => encoding).absolute(bytes);
    }
    for (name, value) in [
        (OPEN, stats.connections_open),
        (RUNNING, stats.in_flight),
        (WAITING, waiting),
        (REQUEST_BYTES, stats.request_bytes_in_flight),
        (REPLY_BYTES, stats.response_bytes_in_flight),
    ] {
        // Exact up to 2^53.
        gauge!(name).set(value as f64);
    }
}

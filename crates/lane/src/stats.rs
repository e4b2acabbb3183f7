use prestate_wire::Encoding;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a running lane, read at one moment. All but the last four only grow.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections turned away at the cap.
    connections_refused,
    /// Connections closed because of a timer: headers, idle, or a reader that stopped.
    connections_timed_out,
    /// HTTP requests with complete headers.
    requests,
    /// JSON-RPC entries that were run, batch entries and notifications included.
    calls,
    /// Batches.
    batches,
    /// Entries that were answered with an error object.
    errors,
    /// Calls dropped before they ended because the client went away.
    cancelled,
    /// Calls that ran longer than the call timeout.
    timed_out,
    /// Calls that panicked.
    panics,
    /// Requests refused with 503.
    overloaded,
    /// Results over the size limit.
    oversized,
    /// Streamed replies that were broken off.
    broken_streams,
    /// Results that were there.
    hits,
    /// Results that were made for the call and kept.
    misses,
    /// Bytes of request bodies and WebSocket messages.
    bytes_in,
    /// Bytes of reply bodies sent uncompressed, WebSocket messages included.
    bytes_out_identity,
    /// Bytes of reply bodies sent in gzip, and of WebSocket messages in deflate, after compression.
    bytes_out_gzip,
    /// Bytes of reply bodies sent in zstd, after compression.
    bytes_out_zstd,
    /// WebSocket sessions opened.
    sockets,
    /// Subscriptions opened.
    subscriptions,
    /// Notifications handed to sockets.
    notifications,
    /// Open connections now, WebSockets included.
    connections_open,
    /// Requests that run now.
    in_flight,
    /// Request bytes held now.
    request_bytes_in_flight,
    /// Reply bytes held for readers now.
    response_bytes_in_flight,
}

impl Counters {
    pub(crate) fn sent(&self, encoding: Encoding, bytes: u64) {
        let counter = match encoding {
            Encoding::Identity => &self.bytes_out_identity,
            Encoding::Gzip => &self.bytes_out_gzip,
            Encoding::Zstd => &self.bytes_out_zstd,
        };
        counter.fetch_add(bytes, Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

//! What bounds memory: requests in flight, and bytes in flight. Work is bounded where it is done:
//! a [`Service`](prestate_rpc::Service) guards its own misses, so that hits never wait behind them.

use crate::stats::Counters;
use prestate_rpc_api::RpcError;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Which of the reservations a guard belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bytes {
    Requests,
    Replies,
}

/// The gates of a lane.
#[derive(Debug)]
pub(crate) struct Gates {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_in_flight: usize,
    max_queue: usize,
    max_request_bytes: u64,
    max_response_bytes: u64,
    counters: Arc<Counters>,
}

impl Gates {
    pub(crate) fn new(config: &crate::LaneConfig, counters: Arc<Counters>) -> Self {
        let max_in_flight = config.max_in_flight.min(Semaphore::MAX_PERMITS);
        Self {
            running: Arc::new(Semaphore::new(max_in_flight)),
            waiting: AtomicUsize::new(0),
            max_in_flight,
            max_queue: config.max_queue,
            max_request_bytes: config.max_request_bytes_in_flight,
            max_response_bytes: config.max_response_bytes_in_flight,
            counters,
        }
    }

    /// Waits for a turn; the error says the queue is full.
    pub(crate) async fn enter(&self) -> Result<Turn, RpcError> {
        let permit = match Arc::clone(&self.running).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = self.waiting.fetch_add(1, Relaxed) + 1;
                let _leave = Leave(&self.waiting);
                if waiting > self.max_queue {
                    let given = self.max_in_flight + waiting;
                    let limit = self.max_in_flight + self.max_queue;
                    return Err(RpcError::limit(
                        "too many requests in flight",
                        "requests-in-flight",
                        limit as u64,
                        given as u64,
                    ));
                }
                Arc::clone(&self.running)
                    .acquire_owned()
                    .await
                    .map_err(|_| RpcError::server("server is shutting down"))?
            }
        };
        self.counters.in_flight.fetch_add(1, Relaxed);
        Ok(Turn { _permit: permit, counters: Arc::clone(&self.counters) })
    }

    /// Requests that wait for their turn now.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed) as u64
    }

    /// An empty reservation.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: Bytes) -> Reservation {
        Reservation { gates: Arc::clone(self), bytes, held: 0 }
    }

    fn gauge(&self, bytes: Bytes) -> (&AtomicU64, u64, &'static str) {
        match bytes {
            Bytes::Requests => (
                &self.counters.request_bytes_in_flight,
                self.max_request_bytes,
                "request-bytes-in-flight",
            ),
            Bytes::Replies => (
                &self.counters.response_bytes_in_flight,
                self.max_response_bytes,
                "response-bytes-in-flight",
            ),
        }
    }
}

struct Leave<'a>(&'a AtomicUsize);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The right to run; ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
    counters: Arc<Counters>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.counters.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Bytes held; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    gates: Arc<Gates>,
    bytes: Bytes,
    held: u64,
}

impl Reservation {
    /// Reserves more; the error says the limit is reached, and nothing more is held then.
    pub(crate) fn grow(&mut self, by: u64) -> Result<(), RpcError> {
        let (gauge, limit, name) = self.gates.gauge(self.bytes);
        let before = gauge.fetch_add(by, Relaxed);
        if before.saturating_add(by) > limit {
            gauge.fetch_sub(by, Relaxed);
            return Err(RpcError::limit("too many bytes in flight", name, limit, before + by));
        }
        self.held += by;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.gates.gauge(self.bytes).0.fetch_sub(self.held, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneConfig;

    fn gates(config: LaneConfig) -> Arc<Gates> {
        Arc::new(Gates::new(&config, Arc::default()))
    }

    #[tokio::test]
    async fn queue_has_an_end() {
        let gates = gates(LaneConfig { max_in_flight: 1, max_queue: 1, ..Default::default() });
        let first = gates.enter().await.unwrap();
        let mut second = std::pin::pin!(gates.enter());
        assert!(futures_util::poll!(&mut second).is_pending());
        let error = gates.enter().await.unwrap_err();
        assert_eq!(error.code, -32005);
        assert_eq!(
            error.data.unwrap().get(),
            r#"{"limit":"requests-in-flight","value":2,"given":3}"#
        );
        drop(first);
        assert!(second.await.is_ok());
        assert_eq!(gates.counters.read().in_flight, 0);
    }

    #[test]
    fn reservations_give_back_what_they_held() {
        let gates = gates(LaneConfig { max_request_bytes_in_flight: 10, ..Default::default() });
        let mut one = gates.reserve(Bytes::Requests);
        one.grow(6).unwrap();
        assert!(gates.reserve(Bytes::Requests).grow(5).is_err());
        let mut two = gates.reserve(Bytes::Requests);
        two.grow(4).unwrap();
        assert_eq!(gates.counters.read().request_bytes_in_flight, 10);
        drop((one, two));
        assert_eq!(gates.counters.read().request_bytes_in_flight, 0);
    }
}

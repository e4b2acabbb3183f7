use super::connection::{Connection, Reply};
use crate::{Failure, Tally};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A client whose requests fail this often in a row stops.
const MAX_FAILURES: u64 = 100;

/// Clients that ask for the same thing over and over, each on its own kept connection, each as soon
/// as it has its answer.
#[derive(Debug, Clone)]
pub struct Load {
    /// Server.
    pub addr: SocketAddr,
    /// The request, head and body.
    pub request: Vec<u8>,
    /// How many clients.
    pub connections: usize,
    /// For how long; replies under way at its end are read to theirs.
    pub time: Duration,
    /// Bytes of the body that was looked at and found good: another length has failed. `None`: any
    /// length will do.
    pub body_bytes: Option<u64>,
}

/// What the clients saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadResult {
    /// Replies read whole.
    pub replies: u64,
    /// Bytes of their bodies as they came.
    pub body_bytes: u64,
    /// Requests that failed, by kind; they are in none of the other figures.
    pub failures: Tally,
    /// From the first request to the last reply.
    pub time: Duration,
    /// Of each reply, ascending.
    pub times: Vec<Duration>,
}

impl LoadResult {
    /// Replies a second.
    pub fn rate(&self) -> f64 {
        self.replies as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    times: Vec<Duration>,
    body_bytes: u64,
    failures: Tally,
}

impl Load {
    /// Asks once, outside any measurement, and looks at the reply: what its body is long.
    ///
    /// # Errors
    /// How the request failed.
    pub fn probe(&self) -> Result<u64, Failure> {
        let reply = Connection::open(self.addr)?.keeping_bodies().ask(&self.request)?;
        reply.check()?;
        Ok(reply.body_bytes)
    }

    /// Runs it.
    pub fn run(&self) -> LoadResult {
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(Barrier::new(self.connections + 1));
        let clients: Vec<_> = (0..self.connections)
            .map(|_| {
                let (load, stop, ready) = (self.clone(), Arc::clone(&stop), Arc::clone(&ready));
                thread::spawn(move || load.client(&stop, &ready))
            })
            .collect();
        ready.wait();
        let started = Instant::now();
        thread::sleep(self.time);
        stop.store(true, Ordering::Relaxed);
        let seen: Vec<_> =
            clients.into_iter().map(|client| client.join().unwrap_or_default()).collect();
        let time = started.elapsed();
        let mut total = Seen::default();
        for client in seen {
            total.times.extend(client.times);
            total.body_bytes += client.body_bytes;
            total.failures.merge(&client.failures);
        }
        total.times.sort_unstable();
        let Seen { times, body_bytes, failures } = total;
        LoadResult { replies: times.len() as u64, body_bytes, failures, time, times }
    }

    fn client(&self, stop: &AtomicBool, ready: &Barrier) -> Seen {
        let mut seen = Seen::default();
        let mut in_a_row = 0;
        let mut connection = Connection::open(self.addr);
        ready.wait();
        while !stop.load(Ordering::Relaxed) && in_a_row < MAX_FAILURES {
            let begun = Instant::now();
            let asked = match &mut connection {
                Ok(open) => open.ask(&self.request),
                Err(failure) => Err(*failure),
            };
            let broken = asked.as_ref().map_or(true, |reply| reply.last);
            match asked.and_then(|reply| self.good(&reply)) {
                Ok(body_bytes) => {
                    in_a_row = 0;
                    seen.times.push(begun.elapsed());
                    seen.body_bytes += body_bytes;
                }
                Err(failure) => {
                    in_a_row += 1;
                    seen.failures.count(failure);
                }
            }
            if broken {
                connection = Connection::open(self.addr);
            }
        }
        seen
    }

    /// The length of a reply that is what was asked for.
    pub(crate) fn good(&self, reply: &Reply) -> Result<u64, Failure> {
        match Failure::of_status(reply.status) {
            Some(failure) => Err(failure),
            None if self.body_bytes.is_none_or(|bytes| bytes == reply.body_bytes) => {
                Ok(reply.body_bytes)
            }
            // An error, if it is short enough to have been kept.
            None if reply.body.len() as u64 == reply.body_bytes => {
                Err(reply.check().err().unwrap_or(Failure::Length))
            }
            None => Err(Failure::Length),
        }
    }
}

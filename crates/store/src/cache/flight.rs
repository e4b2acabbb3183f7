//! One computation for all who ask for the same reply at the same time.

use super::{ReplyCache, ReplyKey};
use parking_lot::Mutex;
use prestate_wire::Rope;
use std::{collections::HashMap, time::Instant};
use tokio::sync::watch;

/// Result of a computation under way: `None` until it ends.
type Slot<E> = Option<Result<Rope, E>>;

/// Computations under way.
#[derive(Debug)]
pub(super) struct Flights<E>(Mutex<HashMap<ReplyKey, watch::Receiver<Slot<E>>>>);

impl<E> Default for Flights<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// Where a reply came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was kept.
    Hit,
    /// The caller made it.
    Computed,
    /// Another caller made it meanwhile.
    Shared,
}

/// The right to compute a reply. Dropped without a result, because its computation was cancelled
/// or panicked, it frees the place: those who wait see it go, and one of them takes over.
struct Leader<'a, E> {
    flights: &'a Flights<E>,
    key: &'a ReplyKey,
    slot: watch::Sender<Slot<E>>,
}

impl<E> Drop for Leader<'_, E> {
    fn drop(&mut self) {
        // Before the sender goes, so that whoever it wakes finds the place free.
        self.flights.0.lock().remove(self.key);
    }
}

enum Role<'a, E> {
    Leader(Leader<'a, E>),
    Waiter(watch::Receiver<Slot<E>>),
    Found(Rope),
}

impl<E: Clone> ReplyCache<E> {
    /// The kept reply, or what `compute` makes. Of several callers at once one computes and the
    /// others wait for it.
    ///
    /// Dropping the returned future cancels a computation it runs; one of the waiters then runs
    /// its own `compute`.
    ///
    /// # Errors
    ///
    /// What `compute` fails with, for the caller and for all who waited. It is not kept: the next
    /// caller computes anew.
    pub async fn get_or_compute<F>(
        &self,
        key: &ReplyKey,
        compute: impl FnOnce() -> F,
    ) -> Result<(Rope, Outcome), E>
    where
        F: Future<Output = Result<Rope, E>>,
    {
        let mut waited = false;
        loop {
            let mut slot = match self.role(key) {
                Role::Found(reply) => {
                    // Kept since a leader we waited for was cancelled, or before we came.
                    let counter =
                        if waited { &self.counters.coalesced } else { &self.counters.hits };
                    counter.add(1);
                    let outcome = if waited { Outcome::Shared } else { Outcome::Hit };
                    return Ok((reply, outcome));
                }
                Role::Leader(leader) => {
                    self.counters.misses.add(1);
                    return self.lead(leader, compute()).await;
                }
                Role::Waiter(slot) => slot,
            };
            waited = true;
            // An error means that the leader is gone without a result.
            let ended = slot.wait_for(Option::is_some).await.map(|result| (*result).clone());
            if let Ok(Some(result)) = ended {
                self.counters.coalesced.add(1);
                return result.map(|reply| (reply, Outcome::Shared));
            }
        }
    }

    fn role<'a>(&'a self, key: &'a ReplyKey) -> Role<'a, E> {
        if let Some(reply) = self.find(key) {
            return Role::Found(reply);
        }
        let mut flights = self.flights.0.lock();
        if let Some(slot) = flights.get(key) {
            return Role::Waiter(slot.clone());
        }
        // A leader keeps its reply before it leaves: what ended between the two looks is here.
        if let Some(reply) = self.find(key) {
            return Role::Found(reply);
        }
        let (slot, receiver) = watch::channel(None);
        flights.insert(key.clone(), receiver);
        drop(flights);
        Role::Leader(Leader { flights: &self.flights, key, slot })
    }

    async fn lead(
        &self,
        leader: Leader<'_, E>,
        compute: impl Future<Output = Result<Rope, E>>,
    ) -> Result<(Rope, Outcome), E> {
        let started = Instant::now();
        let result = compute.await;
        match &result {
            Ok(reply) => self.insert(leader.key.clone(), reply.clone(), started.elapsed()),
            Err(_) => {
                self.counters.failures.add(1);
            }
        }
        leader.slot.send_replace(Some(result.clone()));
        drop(leader);
        result.map(|reply| (reply, Outcome::Computed))
    }
}

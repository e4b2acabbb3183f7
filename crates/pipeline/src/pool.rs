use crate::{StartError, error::panic_message, metrics};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
};

type Job = Box<dyn FnOnce() + Send>;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Blocks of the head.
    Live,
    /// Retries and back-fill.
    Late,
}

/// A fixed number of threads that execute blocks. Callers bound what they submit.
pub(crate) struct Pool {
    queues: Mutex<Queues>,
    work: Condvar,
}

#[derive(Default)]
struct Queues {
    live: VecDeque<Job>,
    late: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("live", &self.live_waiting()).finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn start(workers: usize) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), StartError> {
        let pool = Arc::new(Self { queues: Mutex::default(), work: Condvar::new() });
        let mut threads = Vec::new();
        for _ in 0..workers.max(1) {
            let name = "prestate-replay";
            let worker = pool.clone();
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || worker.run())
                .inspect_err(|_| pool.close())
                .map_err(|source| StartError::Thread { name, source })?;
            threads.push(thread);
        }
        Ok((pool, threads))
    }

    /// Runs a job as soon as a thread is free. After [`Self::close`] it is dropped.
    pub(crate) fn submit(&self, priority: Priority, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.queues.lock();
        if queues.closed {
            return;
        }
        match priority {
            Priority::Live => queues.live.push_back(Box::new(job)),
            Priority::Late => queues.late.push_back(Box::new(job)),
        }
        self.work.notify_one();
    }

    /// Live jobs that wait for a thread.
    pub(crate) fn live_waiting(&self) -> usize {
        self.queues.lock().live.len()
    }

    /// Live jobs are finished, others dropped; then the threads end.
    pub(crate) fn close(&self) {
        let mut queues = self.queues.lock();
        queues.closed = true;
        queues.late.clear();
        self.work.notify_all();
    }

    fn run(&self) {
        loop {
            let job = {
                let mut queues = self.queues.lock();
                loop {
                    let next = queues.live.pop_front();
                    if let Some(job) = next.or_else(|| queues.late.pop_front()) {
                        break job;
                    }
                    if queues.closed {
                        return;
                    }
                    self.work.wait(&mut queues);
                }
            };
            // Jobs catch what they expect; a thread must outlive what they do not.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                metrics::count(metrics::PANICS, 1);
                tracing::error!(panic = panic_message(&*panic), "a replay job panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_panic_costs_one_job_and_live_jobs_pass_late_ones() {
        let (pool, threads) = Pool::start(1).unwrap();
        let (ran, order) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        pool.submit(Priority::Live, move || gate.recv().unwrap());
        for (priority, name) in [(Priority::Late, "late"), (Priority::Live, "live")] {
            let ran = ran.clone();
            pool.submit(priority, move || ran.send(name).unwrap());
        }
        pool.submit(Priority::Live, || panic!("one"));
        go.send(()).unwrap();
        assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["live", "late"]);
        pool.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

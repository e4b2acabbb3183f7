use super::{DevChain, Mining};
use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How often the clock looks whether the chain is still there.
const LOOK: Duration = Duration::from_millis(200);

impl DevChain {
    /// With interval mining, starts the thread that makes the blocks; it ends when the chain is
    /// dropped. Otherwise there is nothing to start.
    ///
    /// # Errors
    /// The system makes no thread.
    pub fn start_clock(self: &Arc<Self>) -> io::Result<()> {
        let Mining::Interval(interval) = self.config.mining else { return Ok(()) };
        let chain = Arc::downgrade(self);
        let tick = move || {
            let mut next = Instant::now() + interval;
            loop {
                let now = Instant::now();
                if now < next {
                    if chain.strong_count() == 0 {
                        return;
                    }
                    thread::sleep((next - now).min(LOOK));
                    continue;
                }
                let Some(chain) = chain.upgrade() else { return };
                if let Err(error) = chain.mine(1) {
                    tracing::error!(%error, "no block was made");
                }
                // Late blocks are not made up for.
                next = (next + interval).max(Instant::now());
            }
        };
        thread::Builder::new().name("prestate-blocks".into()).spawn(tick).map(drop)
    }
}

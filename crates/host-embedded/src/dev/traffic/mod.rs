//! Traffic: traders that swap and send tokens of our own contracts, so that a dev chain has diffs
//! from the start.

mod actions;
mod contracts;
mod setup;
mod traders;

pub use contracts::{PoolAt, TokenAt, TrafficContracts};

use super::{DevChain, DevError};
use actions::Actions;
use std::{
    io,
    str::FromStr,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};
use traders::Traders;

/// Transactions of a heavy block: as many as the largest blocks of fast chains hold.
pub const HEAVY_TRANSACTIONS: usize = 40_000;
/// Gas of a block that holds a heavy block's transactions twice, so that the base fee stays low.
pub const HEAVY_GAS_LIMIT: u64 = 6_000_000_000;
/// Most transactions a second that can be asked for.
pub const MAX_TPS: f64 = 100_000.0;

/// Senders of ordinary traffic.
const TRADERS: usize = 16;
/// Senders of heavy traffic: few enough to set up at once, many enough that none has all the
/// transactions of a block.
const HEAVY_TRADERS: usize = 200;
/// How long the thread sleeps at most before it looks whether the chain is still there.
const LOOK: Duration = Duration::from_millis(200);

/// How transactions come together in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficShape {
    /// Each on its own.
    #[default]
    Steady,
    /// [`HEAVY_TRANSACTIONS`] at a time, in one block.
    Heavy,
}

impl FromStr for TrafficShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "steady" => Ok(Self::Steady),
            "heavy" => Ok(Self::Heavy),
            _ => Err("expected `steady` or `heavy`".to_owned()),
        }
    }
}

/// What traffic there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficConfig {
    /// Transactions a second.
    pub tps: f64,
    /// Decides who does what.
    pub seed: u64,
    /// Steady or heavy.
    pub shape: TrafficShape,
}

/// Why there is no traffic.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// Zero, negative, not a number or too many.
    #[error("{tps} transactions a second: a number above 0, at most {MAX_TPS}, is wanted")]
    Rate {
        /// What was asked for.
        tps: f64,
    },
    /// A heavy block does not fit into a block of this chain.
    #[error(
        "blocks of {HEAVY_TRANSACTIONS} transactions need a gas limit of {HEAVY_GAS_LIMIT}, the chain has {gas_limit}"
    )]
    GasLimit {
        /// The chain's.
        gas_limit: u64,
    },
    /// Setting up the contracts failed.
    #[error("setting up traffic: {0}")]
    Setup(#[from] DevError),
    /// The system makes no thread.
    #[error("starting traffic: {0}")]
    Thread(#[from] io::Error),
}

impl DevChain {
    /// Funds the traders, deploys the contracts where they are not there yet, and starts the thread
    /// that sends; it ends when the chain is dropped.
    ///
    /// # Errors
    /// See [`TrafficError`]; blocks of a set-up that failed half way stay.
    pub fn start_traffic(
        self: &Arc<Self>,
        config: TrafficConfig,
    ) -> Result<TrafficContracts, TrafficError> {
        let TrafficConfig { tps, seed, shape } = config;
        // Not a number is not above zero either.
        if !(tps > 0.0 && tps <= MAX_TPS) {
            return Err(TrafficError::Rate { tps });
        }
        let gas_limit = self.head_block().map_err(DevError::from)?.gas_limit;
        if shape == TrafficShape::Heavy && gas_limit < HEAVY_GAS_LIMIT {
            return Err(TrafficError::GasLimit { gas_limit });
        }
        let count = if shape == TrafficShape::Heavy { HEAVY_TRADERS } else { TRADERS };
        let traders = Traders::new(count);
        let contracts = setup::set_up(self, &traders)?;
        // Every traffic of a chain goes through the same contracts.
        let _ = self.contracts.set(contracts.clone());
        let sender = Sender {
            actions: Actions::new(seed, contracts.clone(), shape),
            traders,
            chain: Arc::downgrade(self),
            every: match shape {
                TrafficShape::Steady => Duration::from_secs_f64(1.0 / tps),
                TrafficShape::Heavy => Duration::from_secs_f64(HEAVY_TRANSACTIONS as f64 / tps),
            },
            shape,
        };
        thread::Builder::new().name("prestate-traffic".into()).spawn(move || sender.run())?;
        Ok(contracts)
    }
}

struct Sender {
    actions: Actions,
    traders: Traders,
    chain: Weak<DevChain>,
    every: Duration,
    shape: TrafficShape,
}

impl Sender {
    fn run(mut self) {
        let mut next = Instant::now();
        loop {
            let now = Instant::now();
            if now < next {
                if self.chain.strong_count() == 0 {
                    return;
                }
                thread::sleep((next - now).min(LOOK));
                continue;
            }
            let Some(chain) = self.chain.upgrade() else { return };
            let sent = match self.shape {
                TrafficShape::Steady => self.send_one(&chain),
                TrafficShape::Heavy => self.send_block(&chain),
            };
            if let Err(error) = sent {
                tracing::warn!(%error, "traffic was not taken");
            }
            next += self.every;
            // Far behind, it goes on from now instead of catching up in a burst.
            if now.saturating_duration_since(next) > LOOK.max(self.every) {
                next = now;
            }
        }
    }

    fn send_one(&mut self, chain: &DevChain) -> Result<(), DevError> {
        let (trader, action) = self.actions.next();
        let tx = self.traders.sign(chain, &[(trader, action)])?;
        for tx in tx {
            chain.send_recovered(tx)?;
        }
        Ok(())
    }

    fn send_block(&mut self, chain: &DevChain) -> Result<(), DevError> {
        let actions: Vec<_> =
            std::iter::repeat_with(|| self.actions.next()).take(HEAVY_TRANSACTIONS).collect();
        let txs = self.traders.sign(chain, &actions)?;
        chain.mine_batch(txs)
    }
}

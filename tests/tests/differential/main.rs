//! prestate against Geth.
//!
//! - Without Geth: `recorded` replays the chains under `tests/cases` and compares every answer with
//!   the one Geth gave.
//! - With Geth (`$GETH`, or `geth` on `PATH`): `random` has it build chains from seeds, replays them
//!   and compares every answer: `cargo test -p prestate-tests --test differential random -- --nocapture`.
//!   `DIFF_SEED`, `DIFF_CHAINS`, `DIFF_BLOCKS`, `DIFF_TXS` choose how much, `DIFF_ONLY` what is asked,
//!   `DIFF_SHRINK` and `DIFF_GIVE_UP` what happens on a difference.
//! - With Geth, `dev` has it import the blocks of a dev chain and answer the same questions.
//! - `RECORD=scenarios` or `RECORD=errors` writes the recorded answers anew.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod dev;
mod errors;
mod prestate;
mod random;
mod record;
mod recorded;
mod scenarios;
mod shrink;
mod system;
mod truth;

use prestate_tests::geth;
use std::{env, error::Error};

/// `RECORD=scenarios GETH=… cargo test -p prestate-tests --test differential record` writes the case
/// files anew; without `RECORD` nothing happens. `ONLY` limits it to names that contain it.
#[test]
fn record() -> Result<(), Box<dyn Error>> {
    let Some(what) = env::var_os("RECORD") else { return Ok(()) };
    let binary = geth::locate()?;
    let only = env::var("ONLY").unwrap_or_default();
    if what == "scenarios" {
        let count = record::record_scenarios(&binary, &only)?;
        println!("{count} scenarios recorded");
    }
    if what == "errors" {
        println!("{} requests recorded", errors::record_errors(&binary)?);
    }
    Ok(())
}

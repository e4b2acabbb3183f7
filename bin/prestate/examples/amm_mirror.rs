//! Keeps the reserves of every pool in memory, exact after each block, over gaps and reorgs.
//!
//! ```sh
//! cargo run --release -p prestate -- dev --traffic 20
//! cargo run --release -p prestate --example amm_mirror -- http://127.0.0.1:8545 100
//! ```
//!
//! follows 100 blocks of the dev chain (for ever without a number), makes a reorg of up to five
//! blocks at every tenth, and holds what it keeps against the node after each. Exit code 1 if a
//! reserve was ever wrong.

use alloy_primitives::{Address, B256, keccak256};
use alloy_provider::Provider;
use prestate_client::{ResyncError, Resyncer, ResyncerConfig, connect_http};
use serde_json::{Value, json};
use std::{error::Error, process::ExitCode, time::Duration};

/// Slot 0 of our pools: reserve0 in the low 112 bits, then reserve1.
const RESERVES: B256 = B256::ZERO;
const POLL: Duration = Duration::from_millis(200);
/// A reorg is made after so many blocks.
const REORG_EVERY: u64 = 10;

fn reserves(word: B256) -> (u128, u128) {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u128, byte| n << 8 | u128::from(*byte));
    (number(&word[18..32]), number(&word[4..18]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "http://127.0.0.1:8545".to_owned());
    let wanted: Option<u64> = args.next().map(|text| text.parse()).transpose()?;
    let provider = connect_http(url.parse()?)?;
    let contracts: Value = provider.raw_request("dev_contracts".into(), ()).await?;
    let pools: Vec<Address> = match contracts["pools"].as_array() {
        Some(pools) => pools
            .iter()
            .map(|pool| serde_json::from_value(pool["address"].clone()))
            .collect::<Result<_, _>>()?,
        None => return Err("no pools there: start the dev chain with --traffic".into()),
    };
    let mut resyncer: Resyncer<_> = Resyncer::new(provider, ResyncerConfig::default());
    for pool in &pools {
        resyncer.watch(*pool, [RESERVES])?;
    }
    let (mut followed, mut reorgs, mut wrong) = (0, 0, 0);
    while wanted.is_none_or(|wanted| followed < wanted) {
        let update = match resyncer.next_update(POLL).await {
            Ok(update) => update,
            Err(error) if ResyncError::is_transient(&error) => {
                eprintln!("again in a moment: {error}");
                tokio::time::sleep(POLL).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        followed += 1;
        if let Some(reorg) = &update.reorg {
            reorgs += 1;
            println!(
                "#{} reorg, {} blocks known before are gone",
                update.head.number,
                reorg.dropped.len()
            );
        }
        for change in &update.changes {
            let (reserve0, reserve1) = reserves(change.new);
            let price = reserve1 as f64 / reserve0 as f64;
            println!(
                "#{} {} {reserve0} {reserve1} price {price:.6}",
                update.head.number, change.key.address
            );
        }
        for pool in &pools {
            let at = json!({ "blockHash": update.head.hash });
            let there: B256 = resyncer
                .provider()
                .raw_request("eth_getStorageAt".into(), (pool, RESERVES, at))
                .await?;
            if resyncer.value(*pool, RESERVES) != Some(there) {
                wrong += 1;
                eprintln!("#{} {pool} is {there}", update.head.number);
            }
        }
        if followed % REORG_EVERY == 0 {
            let depth = u64::from(keccak256(update.head.hash)[0] % 5) + 1;
            let _: Value = resyncer.provider().raw_request("dev_reorg".into(), (depth,)).await?;
        }
    }
    println!("{}", resyncer.explain());
    println!("{followed} heads, {reorgs} reorgs, {} pools, {wrong} wrong reserves", pools.len());
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

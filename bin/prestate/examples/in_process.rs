//! The pipeline as a library: a chain in this process, an archive on disk, and a reader that is
//! told every block, without a server.
//!
//! ```sh
//! cargo run --release -p prestate --example in_process -- 10
//! ```
//!
//! prints what ten blocks changed, takes some of them back, and reads one from the archive. Any
//! [`Host`] does in place of the dev chain.

use prestate_host::Host;
use prestate_host_embedded::dev::{DevChain, DevConfig, Mining, TrafficConfig, TrafficShape};
use prestate_pipeline::{Pipeline, PipelineConfig, PublishedBlock, Update};
use prestate_store::{Archive, ArchiveOptions, ChainId};
use std::{error::Error, sync::Arc, time::Duration};

const BLOCK_TIME: Duration = Duration::from_millis(200);

fn show(what: &str, block: &PublishedBlock) {
    let (at, diff) = (block.summary().block, block.diff());
    println!("{what:7} {at}: {} accounts, {} slots", diff.len(), diff.slot_count());
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let config = DevConfig { mining: Mining::Interval(BLOCK_TIME), ..DevConfig::default() };
    let chain = Arc::new(DevChain::open(config)?);
    let host: Arc<dyn Host> = chain.clone();
    let id = ChainId { chain_id: chain.config().chain_id, genesis_hash: host.earliest()?.hash };
    let folder = std::env::temp_dir().join(format!("prestate-in-process-{}", std::process::id()));
    let archive = Archive::create(&folder, id, &ArchiveOptions::default())?;

    // One loop: block in, diffs computed, checked, kept, handed on, acknowledged.
    let pipeline = Pipeline::start(host, Some(archive), PipelineConfig::default())?;
    chain.start_traffic(TrafficConfig { tps: 20.0, seed: 1, shape: TrafficShape::Steady })?;
    chain.start_clock()?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let last = runtime.block_on(async {
        // The first block may take a moment to be seen.
        let mut changes = pipeline.changes();
        while pipeline.head().is_none() {
            changes.changed().await?;
        }
        let mut steps = pipeline.subscribe(None)?;
        let (mut commits, mut last) = (0, None);
        while commits < wanted {
            match steps.next().await {
                Some(Update::Commit(block)) => {
                    show("commit", &block);
                    // The transactions' diffs follow a moment later.
                    let facts = block.facts().await?;
                    println!("        {} transactions, each with its diff", facts.txs.len());
                    commits += 1;
                    last = Some(block.summary().block);
                    if commits == wanted / 2 && commits > 2 {
                        chain.reorg(2)?;
                    }
                }
                Some(Update::Revert(block)) => show("revert", &block),
                Some(Update::Cut(reason)) => return Err(reason.into()),
                None => break,
            }
        }
        Ok::<_, Box<dyn Error>>(last)
    })?;

    if let (Some(last), Some(archive)) = (last, pipeline.archive()) {
        // Published first, durable a moment later; then the host may forget it.
        while pipeline.status().durable.is_none_or(|durable| durable.number < last.number) {
            std::thread::sleep(BLOCK_TIME / 10);
        }
        if let Some(facts) = archive.facts(&last.hash)? {
            println!("archive: block {} with {} transactions", last.number, facts.txs.len());
        }
    }
    pipeline.shutdown();
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

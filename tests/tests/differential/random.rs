//! Random chains, built by Geth and replayed by the system under test.

use prestate_tests::{
    generate::{Chain, Fork, World},
    geth::{Depth, Request, block_requests},
};
use std::{error::Error, path::Path};

/// A random chain on a running Geth.
pub(crate) struct Built {
    pub(crate) chain: Chain,
    /// RLP of blocks 1 to the head.
    pub(crate) blocks: Vec<alloy_primitives::Bytes>,
    pub(crate) transactions: usize,
}

pub(crate) fn build(binary: &Path, world: &World) -> Result<Built, Box<dyn Error>> {
    let mut chain = Chain::start(binary, &world.genesis(), World::keys())?;
    let mut transactions = 0;
    for block in &world.blocks {
        transactions += chain.extend(block)?;
    }
    let blocks = chain.raw_blocks()?;
    Ok(Built { chain, blocks, transactions })
}

impl Built {
    /// All questions about all its blocks. Step logs are asked for in every eighth.
    pub(crate) fn requests(&self) -> Result<Vec<Request>, Box<dyn Error>> {
        let mut requests = Vec::new();
        for (number, rlp) in (1..).zip(&self.blocks) {
            let (hash, transactions) = self.chain.hashes(number)?;
            let depth = if number % 8 == 1 { Depth::Full } else { Depth::Wide };
            requests.extend(block_requests(number, hash, rlp, &transactions, depth));
        }
        Ok(requests)
    }
}

#[test]
fn probe() -> Result<(), Box<dyn Error>> {
    let Ok(binary) = prestate_tests::geth::locate() else { return Ok(()) };
    for fork in Fork::ALL {
        for seed in 0..2 {
            let begin = std::time::Instant::now();
            let world = World::random(seed, fork, 8, 40);
            let planned = world.transactions().count();
            let made = begin.elapsed();
            let built = build(&binary, &world).map_err(|error| format!("{fork} {seed}: {error}"))?;
            let chained = begin.elapsed();
            let requests = built.requests()?;
            let mut bytes = 0;
            let mut errors = 0;
            let mut slow = Vec::new();
            for request in &requests {
                let start = std::time::Instant::now();
                match built.chain.geth().call(&request.method, &request.params)? {
                    prestate_tests::geth::Answer::Result(text) => {
                        bytes += text.len();
                        if request.params.contains("callTracer\",\"tracerConfig\":{\"withLog\":true}") && request.method.ends_with("Number") || request.params.ends_with("{\"diffMode\":true}}]") && request.method.ends_with("Number") || request.params.ends_with("{}]") {
                            use std::io::Write;
                            let mut file = std::fs::OpenOptions::new().append(true).create(true).open("/tmp/w/gt/cov.txt")?;
                            writeln!(file, "{text}")?;
                        }
                        slow.push((start.elapsed(), text.len(), request.method.clone(), request.params.chars().take(120).collect::<String>()));
                    }
                    prestate_tests::geth::Answer::Error(text) => {
                        errors += 1;
                        println!("{text} {}", request.params.chars().take(200).collect::<String>());
                    }
                }
            }
            slow.sort();
            println!("{:?}", slow.last());
            let mut used = 0;
            let mut failed = 0;
            for number in 1..=built.chain.height() {
                let text = built.chain.geth().expect("eth_getBlockReceipts", &format!("[\"{number:#x}\"]"))?;
                failed += text.matches("\"status\":\"0x0\"").count();
                used += text.matches("\"status\"").count();
            }
            println!("{fork} {seed}: planned {planned} in {} failed {failed}/{used}; {} requests, {bytes} bytes, {errors} errors; made {made:?} chained {chained:?} asked {:?}", built.transactions, requests.len(), begin.elapsed());
        }
    }
    Ok(())
}

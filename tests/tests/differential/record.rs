//! Writes the case files from a running Geth.

use crate::scenarios::{self, Scenario};
use prestate_tests::{
    generate::Chain,
    geth::{Case, Exchange, Request, block_requests},
};
use serde_json::value::RawValue;
use std::{error::Error, path::Path};

/// Folder of the case files.
pub(crate) fn cases() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases"))
}

/// Builds a scenario's chain and asks everything about it.
pub(crate) fn run(binary: &Path, scenario: &Scenario) -> Result<Case, Box<dyn Error>> {
    let mut chain = Chain::start(binary, &scenario.genesis, scenarios::keys())?;
    for block in &scenario.blocks {
        chain.extend(block)?;
    }
    let blocks = chain.raw_blocks()?;
    let mut requests = Vec::new();
    for (number, rlp) in (1..).zip(&blocks) {
        let (hash, transactions) = chain.hashes(number)?;
        requests.extend(block_requests(number, hash, rlp, &transactions, scenario.depth));
    }
    requests.extend(scenario.calls.iter().cloned());
    Ok(Case {
        name: scenario.name.clone(),
        about: scenario.about.to_owned(),
        geth: version(&chain)?,
        genesis: RawValue::from_string(chain.genesis().to_owned())?,
        requests: ask(&chain, &requests)?,
        blocks,
    })
}

/// Geth's answers to these.
pub(crate) fn ask(chain: &Chain, requests: &[Request]) -> Result<Vec<Exchange>, Box<dyn Error>> {
    let mut exchanges = Vec::with_capacity(requests.len());
    for request in requests {
        let answer = chain.geth().call(&request.method, &request.params)?;
        let exchange = Exchange::new(&request.method, &request.params, &answer);
        exchanges.push(exchange.ok_or_else(|| format!("not JSON: {}", request.params))?);
    }
    Ok(exchanges)
}

pub(crate) fn version(chain: &Chain) -> Result<String, Box<dyn Error>> {
    Ok(serde_json::from_str(&chain.geth().expect("web3_clientVersion", "[]")?)?)
}

/// All scenarios to `cases/scenarios`.
pub(crate) fn record_scenarios(binary: &Path, only: &str) -> Result<usize, Box<dyn Error>> {
    let mut count = 0;
    for scenario in scenarios::all().iter().filter(|scenario| scenario.name.contains(only)) {
        let case = run(binary, scenario).map_err(|error| format!("{}: {error}", scenario.name))?;
        case.write(&cases().join("scenarios").join(format!("{}.json", scenario.name)))?;
        count += 1;
    }
    Ok(count)
}

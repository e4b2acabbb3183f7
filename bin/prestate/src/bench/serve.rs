use super::{rival::launcher, time};
use crate::{errors::CommandError, source::ChainArg};
use clap::Args;
use prestate_bench::{
    Endpoint, EndpointError, LadderOptions, LadderReport, ServeOptions, ServeReport, ladder, serve,
};
use prestate_host_embedded::load_path;
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Block file whose trace is served
    block: PathBuf,
    /// Chain of the block: mainnet, sepolia, holesky, hoodi or a genesis file
    #[arg(long, value_name = "NAME|FILE", default_value = "mainnet")]
    chain: String,
    /// Clients, each with a connection of its own; one step a number
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8,64")]
    connections: Vec<usize>,
    /// Seconds under load in each round
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Rounds, contestants in alternation
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Transactions of the heavy block
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    heavy: u64,
    /// A node that runs already, asked for the block's traces too: a name for the tables and its
    /// URL, of which nothing is shown or stored; may be given again
    #[arg(long = "rival-url", value_name = "NAME=URL")]
    rivals: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct LadderArgs {
    /// Connections, each a client of its own
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds at each rate
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds for which each server then has to hold 2,300 requests a second; 0 leaves it out
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    hold: f64,
}

/// `NAME=URL`. Not read by clap, whose errors show the value: a URL may hold a key.
fn named(given: &str) -> Result<(String, Endpoint), CommandError> {
    let refused = |reason: String| CommandError::Usage(format!("--rival-url: {reason}"));
    let (name, url) = given
        .split_once('=')
        .filter(|(name, _)| !name.is_empty() && !name.contains("://"))
        .ok_or_else(|| refused("expected NAME=URL".to_owned()))?;
    let endpoint = url.parse().map_err(|error: EndpointError| refused(error.to_string()))?;
    Ok((name.to_owned(), endpoint))
}

pub(super) fn run_serve(args: ServeArgs) -> Result<ServeReport, CommandError> {
    if args.connections.contains(&0) {
        return Err(CommandError::Usage("--connections 0: at least one is wanted".to_owned()));
    }
    let number = load_path(&args.block)?.block.number;
    let chain: ChainArg = args.chain.parse().unwrap_or_else(|never| match never {});
    chain.spec()?;
    Ok(serve(&ServeOptions {
        launcher: launcher(&args.chain)?,
        block: args.block,
        number,
        connections: args.connections,
        time: time("--seconds", args.seconds)?,
        rounds: args.rounds.max(1),
        heavy_transactions: args.heavy,
        running: args.rivals.iter().map(|given| named(given)).collect::<Result<_, _>>()?,
    })?)
}

pub(super) fn run_ladder(args: &LadderArgs) -> Result<LadderReport, CommandError> {
    let hold = if args.hold == 0.0 { Duration::ZERO } else { time("--hold", args.hold)? };
    let steps = LadderOptions {
        time: time("--seconds", args.seconds)?,
        connections: args.connections.max(1),
        hold,
    };
    Ok(ladder(&launcher("mainnet")?, &steps)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_has_a_name_and_its_url_is_not_shown() {
        let (name, _) = named("geth=http://127.0.0.1:8545/KEY?a=b").unwrap();
        assert_eq!(name, "geth");
        for given in ["http://127.0.0.1/KEY", "=http://127.0.0.1/KEY", "g=https://h/KEY", "KEY"] {
            let refused = named(given).unwrap_err().to_string();
            assert!(refused.contains("--rival-url") && !refused.contains("KEY"), "{refused}");
        }
    }
}

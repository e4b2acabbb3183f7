//! `prestate dev`: an Ethereum chain in this process.

use crate::{
    errors::CommandError,
    follow::{ArchiveArgs, fill},
    parent::end_with_parent,
    serve::{DIFF_MODE, ServeArgs, curl},
};
use clap::Args;
use prestate_host::Host;
use prestate_host_embedded::dev::{
    DEFAULT_ACCOUNTS, DEFAULT_BALANCE_ETHER, DEFAULT_CHAIN_ID, DEFAULT_GAS_LIMIT, DEFAULT_HARDFORK,
    DevChain, DevConfig, HEAVY_GAS_LIMIT, Hardfork, Mining, TEST_MNEMONIC, TrafficConfig,
    TrafficShape, dev_module,
};
use prestate_pipeline::{PipelineConfig, PipelineHandle};
use prestate_rpc::{Modules, Service, Sources};
use prestate_store::ChainId;
use std::{
    fmt::Write as _, ops::RangeInclusive, path::PathBuf, process::ExitCode, sync::Arc,
    time::Duration,
};

/// `prestate dev`
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// EIP-155 chain id
    #[arg(long, value_name = "ID", default_value_t = DEFAULT_CHAIN_ID)]
    chain_id: u64,
    /// Rules in force: paris, shanghai, cancun, prague, osaka, bpo1, bpo2
    #[arg(long, value_name = "NAME", default_value = DEFAULT_HARDFORK.name())]
    hardfork: Hardfork,
    /// Gas of a block [default: 60000000, with heavy traffic 6000000000]
    #[arg(long, value_name = "GAS")]
    gas_limit: Option<u64>,
    /// Funded accounts
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ACCOUNTS)]
    accounts: u32,
    /// Ether that each of them has at first
    #[arg(long, value_name = "ETHER", default_value_t = DEFAULT_BALANCE_ETHER)]
    balance: u64,
    /// Words that the accounts' keys follow from
    #[arg(long, value_name = "WORDS", default_value = TEST_MNEMONIC)]
    mnemonic: String,
    /// Make a block every so many seconds; 0 makes them at once [default: 0, with traffic 1]
    #[arg(long, value_name = "SECS", value_parser = seconds, conflicts_with = "no_mining")]
    block_time: Option<Duration>,
    /// Make blocks only when asked (`dev_mine`)
    #[arg(long)]
    no_mining: bool,
    /// Keep the chain, and what its blocks changed, in this folder
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// Ends when standard input does: for commands that start a chain for themselves
    #[arg(long, hide = true)]
    with_parent: bool,
    /// Swap and send tokens of our own contracts, so many transactions a second
    #[arg(long, value_name = "TPS", help_heading = "Traffic")]
    traffic: Option<f64>,
    /// Decides who sends what
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "traffic",
        help_heading = "Traffic"
    )]
    seed: u64,
    /// `steady`, or `heavy`: blocks of 40,000 transactions
    #[arg(
        long,
        value_name = "SHAPE",
        default_value = "steady",
        requires = "traffic",
        help_heading = "Traffic"
    )]
    traffic_shape: TrafficShape,
    #[command(flatten)]
    archive: ArchiveArgs,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Seconds with a fraction, from a millisecond to a day, or 0.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("`{text}`: {error}"))?;
    if seconds != 0.0 && !(0.001..=86_400.0).contains(&seconds) {
        return Err(format!("`{text}` is not 0 and not between 0.001 and 86400 seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

pub(crate) fn run(mut args: DevArgs) -> Result<ExitCode, CommandError> {
    if args.with_parent {
        end_with_parent();
    }
    let heavy = args.traffic.is_some() && args.traffic_shape == TrafficShape::Heavy;
    let mining = match args.block_time {
        Some(Duration::ZERO) => Mining::Instant,
        Some(interval) => Mining::Interval(interval),
        None if args.no_mining => Mining::OnDemand,
        // So that time on the chain goes as fast as time does.
        None if args.traffic.is_some() && !heavy => Mining::Interval(Duration::from_secs(1)),
        None => Mining::Instant,
    };
    let default_gas = if heavy { HEAVY_GAS_LIMIT } else { DEFAULT_GAS_LIMIT };
    let config = DevConfig {
        chain_id: args.chain_id,
        hardfork: args.hardfork,
        gas_limit: args.gas_limit.unwrap_or(default_gas),
        accounts: args.accounts,
        balance_ether: args.balance,
        mnemonic: args.mnemonic,
        mining,
        datadir: args.datadir.clone(),
        ..DevConfig::default()
    };
    if let Some(datadir) = &args.datadir {
        args.archive.archive.get_or_insert_with(|| datadir.join("archive"));
    }
    args.archive.check()?;
    let chain = Arc::new(DevChain::open(config)?);
    let host: Arc<dyn Host> = chain.clone();
    let genesis = host.earliest()?;
    let id = ChainId { chain_id: args.chain_id, genesis_hash: genesis.hash };
    let pipeline = args.archive.start(&host, id, PipelineConfig::default())?;
    if let Some(range) = &args.archive.backfill {
        backfill_beside(&pipeline, host.head()?.number, range.0.clone())?;
    }
    let module =
        dev_module(chain.clone()).map_err(|error| CommandError::Methods(error.to_string()))?;
    let methods: Arc<dyn Service> = Arc::new(Modules::new(module));
    chain.start_clock().map_err(CommandError::Runtime)?;
    if let Some(tps) = args.traffic {
        chain.start_traffic(TrafficConfig { tps, seed: args.seed, shape: args.traffic_shape })?;
    }
    args.serve
        .run(Sources::following(host, pipeline), vec![methods], move |url| banner(&chain, url))
}

/// Fills the archive on a thread of its own, while the chain goes on; how it went is in the log and
/// in `prestate_status`.
fn backfill_beside(
    pipeline: &PipelineHandle,
    head: u64,
    range: RangeInclusive<u64>,
) -> Result<(), CommandError> {
    let pipeline = pipeline.clone();
    let run = move || match fill(&pipeline, head, [range]) {
        Ok(filled) => {
            tracing::info!(written = filled.written, failed = filled.failed, "back-fill ended")
        }
        Err(error) => tracing::error!(%error, "back-fill ended"),
    };
    let started = std::thread::Builder::new().name("backfill".to_owned()).spawn(run);
    started.map(drop).map_err(CommandError::Runtime)
}

/// Accounts, keys and what to try next.
fn banner(chain: &DevChain, url: &str) -> String {
    let config = chain.config();
    let accounts = chain.accounts();
    let mut text = String::new();
    let keys: Vec<_> = accounts.keys().collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Accounts, {} ether each\n", config.balance_ether);
    for (at, (address, _)) in keys.iter().enumerate() {
        let _ = writeln!(text, "({at}) {address}");
    }
    let _ = writeln!(text, "\nPrivate keys (known to everybody: for tests only)\n");
    for (at, (_, key)) in keys.iter().enumerate() {
        let _ = writeln!(text, "({at}) {key}");
    }
    let blocks = match config.mining {
        Mining::Instant => "at once".to_owned(),
        Mining::Interval(interval) => format!("every {} s", interval.as_secs_f64()),
        Mining::OnDemand => "when asked (dev_mine)".to_owned(),
    };
    let head = chain.head().map_or(0, |head| head.number);
    let _ = writeln!(text, "\nMnemonic   {}", config.mnemonic);
    let _ = writeln!(text, "Chain id   {}", config.chain_id);
    let _ = writeln!(text, "Hardfork   {}", config.hardfork.name());
    let _ =
        writeln!(text, "Blocks     {blocks}; {} gas each; the newest is {head}", config.gas_limit);
    if let Some(contracts) = chain.contracts() {
        for token in &contracts.tokens {
            let _ = writeln!(text, "{:<10} {} {}", "Token", token.address, token.name);
        }
        for pool in &contracts.pools {
            let _ =
                writeln!(text, "{:<10} {} {} {}", "Pool", pool.address, pool.token0, pool.token1);
        }
    }
    let _ = writeln!(text, "\nserving on {url} (HTTP and WebSocket); to try:\n");
    if let [(from, _), .., (to, _)] = &keys[..] {
        let transfer = format!("{{\"from\":\"{from}\",\"to\":\"{to}\",\"value\":\"0x1\"}}");
        let _ = writeln!(text, "{}", curl(url, "eth_sendTransaction", &transfer));
    }
    let _ = writeln!(text, "{}", curl(url, "prestate_getBlockDiff", "\"latest\""));
    let _ = write!(
        text,
        "{}",
        curl(url, "debug_traceBlockByNumber", &format!("\"latest\",{DIFF_MODE}"))
    );
    text
}

use super::{
    rival::exe,
    storage::{client_runtime, slots},
    time,
};
use crate::{errors::CommandError, replay::progress, shape::Shape};
use alloy_primitives::Address;
use clap::Args;
use prestate_bench::{EndpointUrl, Endpoints, ResyncOptions, ResyncReport, resync};
use std::time::Duration;

/// Most slots that one batch is asked for.
const MAX_SLOTS: usize = 10_000;

#[derive(Debug, Args)]
pub(super) struct ResyncArgs {
    /// Endpoint asked for traces; a dev chain with traffic is started and measured if left out. Of
    /// a URL no more than scheme, host and port is ever printed or stored
    #[arg(long, value_name = "URL", value_parser = EndpointUrl::parse)]
    trace_url: Option<EndpointUrl>,
    /// Endpoint asked for point reads and blocks [default: the one for traces]
    #[arg(long, value_name = "URL", value_parser = EndpointUrl::parse, requires = "trace_url")]
    storage_url: Option<EndpointUrl>,
    /// Read slots 0, 1, 2, … of this account
    #[arg(long, value_name = "ADDRESS", conflicts_with = "discover")]
    address: Option<Address>,
    /// Read the slots that the last blocks changed most often [default without --address]
    #[arg(long)]
    discover: bool,
    /// Numbers of slots to measure
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,80,96,128,260"
    )]
    slots: Vec<usize>,
    /// Samples of each number of slots
    #[arg(long, value_name = "N", default_value_t = 20)]
    samples: usize,
    /// Ask about each new block as it comes, not about earlier ones
    #[arg(long)]
    live: bool,
    /// Make the dev chain behave like a provider far away: `rtt=30ms,rate=100/s,bandwidth=50mbit`,
    /// or some of them
    #[arg(long, value_name = "SHAPE", conflicts_with = "trace_url", value_parser = checked_shape)]
    shape: Option<String>,
    /// Seconds of rest after each sample [default: 1 for endpoints with a rate, 0 for a dev chain
    /// without]
    #[arg(long, value_name = "SECS")]
    pause: Option<f64>,
    /// Seconds after which a reply counts as failed
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    timeout: f64,
    /// Compute units of a point read; Alchemy's list
    #[arg(long, value_name = "CU", default_value_t = 20)]
    read_units: u64,
    /// Compute units of a block's trace; Alchemy's list
    #[arg(long, value_name = "CU", default_value_t = 40)]
    trace_units: u64,
    /// Decides which samples the confidence of the cross-over is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The dev chain is started with the same words.
fn checked_shape(text: &str) -> Result<String, String> {
    text.parse::<Shape>().map(|_| text.to_owned())
}

pub(super) fn run(args: ResyncArgs) -> Result<ResyncReport, CommandError> {
    let slots = slots("--slots", args.slots, MAX_SLOTS)?;
    if args.samples == 0 {
        return Err(CommandError::Usage("--samples 0: at least one is wanted".to_owned()));
    }
    let rated = args.shape.as_ref().is_some_and(|shape| shape.contains("rate="));
    let pause = match args.pause {
        Some(0.0) => Duration::ZERO,
        Some(seconds) => time("--pause", seconds)?,
        None if args.trace_url.is_some() || rated => Duration::from_secs(1),
        None => Duration::ZERO,
    };
    let endpoints = match args.trace_url {
        Some(trace) => {
            Endpoints::Given { storage: args.storage_url.unwrap_or_else(|| trace.clone()), trace }
        }
        None => Endpoints::Own { exe: exe()?, shape: args.shape },
    };
    let bar = progress(slots.len() * args.samples, "measuring");
    let options = ResyncOptions {
        endpoints,
        address: args.address,
        slots,
        samples: args.samples,
        live: args.live,
        pause,
        patience: time("--timeout", args.timeout)?,
        units: (args.read_units, args.trace_units),
        seed: args.seed,
    };
    let report = client_runtime()?.block_on(resync(&options, || bar.inc(1)))?;
    bar.finish_and_clear();
    Ok(report)
}

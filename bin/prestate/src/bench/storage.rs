use super::{rival::exe, time};
use crate::{errors::CommandError, replay::progress};
use alloy_primitives::Address;
use clap::Args;
use prestate_bench::{EndpointUrl, StorageOptions, StorageReport, storage};

/// Most slots that a call may name.
const MAX_SLOTS: usize = prestate_rpc_api::MAX_READ_SLOTS;

#[derive(Debug, Args)]
pub(super) struct StorageArgs {
    /// Endpoint to measure; a dev chain is started if left out. Of a URL no more than scheme, host
    /// and port is ever printed or stored
    #[arg(long, value_name = "URL", value_parser = EndpointUrl::parse)]
    url: Option<EndpointUrl>,
    /// Whose slots are read
    #[arg(long, value_name = "ADDRESS", default_value_t = Address::repeat_byte(0x11))]
    address: Address,
    /// Numbers of slots to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,10,100,1000")]
    slots: Vec<usize>,
    /// Rounds; a figure is the median over them
    #[arg(long, value_name = "N", default_value_t = 31)]
    rounds: usize,
    /// Seconds after which a reply counts as failed
    #[arg(long, value_name = "SECS", default_value_t = 30.0)]
    timeout: f64,
}

pub(super) fn run(args: StorageArgs) -> Result<StorageReport, CommandError> {
    let slots = slots("--slots", args.slots, MAX_SLOTS)?;
    let bar = progress(slots.len() * args.rounds, "measuring");
    let options = StorageOptions {
        url: args.url,
        exe: exe()?,
        address: args.address,
        slots,
        rounds: args.rounds.max(1),
        patience: time("--timeout", args.timeout)?,
    };
    let report = client_runtime()?.block_on(storage(&options, || bar.inc(1)))?;
    bar.finish_and_clear();
    Ok(report)
}

/// Numbers of slots, ascending, each once.
pub(super) fn slots(
    flag: &str,
    mut slots: Vec<usize>,
    most: usize,
) -> Result<Vec<usize>, CommandError> {
    slots.sort_unstable();
    slots.dedup();
    match slots.iter().find(|given| !(1..=most).contains(*given)) {
        Some(given) => {
            Err(CommandError::Usage(format!("{flag} {given}: 1 to {most} slots are wanted")))
        }
        None => Ok(slots),
    }
}

/// One thread is enough for one client, and disturbs a server on the same machine least.
pub(super) fn client_runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().map_err(CommandError::Runtime)
}

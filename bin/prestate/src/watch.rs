//! `prestate watch`: what blocks change, as they come.

mod render;

use crate::errors::CommandError;
use alloy_primitives::{Address, B256, U256};
use clap::Args;
use prestate_client::{
    CodeOption, DiffEvent, DiffMessage, DiffStream, DiffStreamConfig, DiffStreamKind, StartAt,
    SubscribeOptions,
};
use render::{Renderer, Style};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write, stdout},
    process::ExitCode,
    time::Duration,
};
use url::Url;

/// What to watch and how to show it.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Server; ws:// or wss:// tells every block, http:// asks for the net change every --poll
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8545")]
    url: Url,
    /// Only this account (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<Address>,
    /// Only this slot of an account, `ADDRESS:SLOT`, or `SLOT` of every --address (repeatable)
    #[arg(long, value_name = "SLOT", value_parser = SlotArg::parse)]
    slot: Vec<SlotArg>,
    /// Begin after this block: a number, or NUMBER:HASH of a block that may have left the chain
    /// [default: the newest]
    #[arg(long, value_name = "BLOCK", value_parser = start)]
    from: Option<StartAt>,
    /// Diffs by transaction instead of by block (ws:// only)
    #[arg(long)]
    transactions: bool,
    /// A name for an account in what is printed (repeatable)
    #[arg(long, value_name = "ADDRESS=NAME", value_parser = label)]
    label: Vec<(Address, String)>,
    /// One JSON object a line, for pipes
    #[arg(long)]
    json: bool,
    /// Stop after so many blocks (or ranges)
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Pause between two questions over http://
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    poll: u64,
}

/// A slot on the command line.
#[derive(Debug, Clone)]
struct SlotArg {
    address: Option<Address>,
    slot: B256,
}

impl SlotArg {
    fn parse(text: &str) -> Result<Self, String> {
        let (address, slot) = match text.split_once(':') {
            Some((address, slot)) => {
                let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
                (Some(address), slot)
            }
            None => (None, text),
        };
        // Decimal, or hex of any length.
        let slot: U256 = slot.parse().map_err(|error| format!("{slot}: {error}"))?;
        Ok(Self { address, slot: slot.into() })
    }
}

fn start(text: &str) -> Result<StartAt, String> {
    let number = |text: &str| {
        let number: U256 = text.parse().map_err(|error| format!("{text}: {error}"))?;
        u64::try_from(number).map_err(|_| format!("{text}: larger than any block number"))
    };
    match text.split_once(':') {
        Some((height, hash)) => {
            let hash = hash.parse().map_err(|error| format!("{hash}: {error}"))?;
            Ok(StartAt::Block(prestate_types::BlockRef::new(number(height)?, hash)))
        }
        None => number(text).map(StartAt::Number),
    }
}

fn label(text: &str) -> Result<(Address, String), String> {
    let (address, name) = text.split_once('=').ok_or("expected ADDRESS=NAME")?;
    let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
    Ok((address, name.to_owned()))
}

/// Filters: accounts named alone pass whole, those with slots with these slots.
fn options(args: &WatchArgs) -> Result<SubscribeOptions, CommandError> {
    let mut slots: BTreeMap<Address, Vec<B256>> = BTreeMap::new();
    for SlotArg { address, slot } in &args.slot {
        match address {
            Some(address) => slots.entry(*address).or_default().push(*slot),
            None if args.address.is_empty() => {
                let usage = "--slot SLOT needs an --address; or give --slot ADDRESS:SLOT";
                return Err(CommandError::Usage(usage.to_owned()));
            }
            None => {
                for address in &args.address {
                    slots.entry(*address).or_default().push(*slot);
                }
            }
        }
    }
    let addresses = (!args.address.is_empty()).then(|| args.address.clone());
    Ok(SubscribeOptions { addresses, slots, code: CodeOption::Hash, ..Default::default() })
}

pub(crate) fn run(args: WatchArgs) -> Result<ExitCode, CommandError> {
    let config = DiffStreamConfig {
        kind: match args.transactions {
            true => DiffStreamKind::TransactionDiffs,
            false => DiffStreamKind::BlockDiffs,
        },
        start: args.from.unwrap_or_default(),
        options: options(&args)?,
        poll: Duration::from_millis(args.poll.max(1)),
        ..DiffStreamConfig::default()
    };
    let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let renderer = Renderer::new(if colour { Style::Colour } else { Style::Plain }, args.label);
    let mut stream = DiffStream::new(args.url, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)?;
    runtime.block_on(async move {
        let mut left = args.count;
        while left != Some(0) {
            let event = tokio::select! {
                event = stream.next() => event?,
                _ = tokio::signal::ctrl_c() => break,
            };
            let line = match (&event, args.json) {
                // What is no diff goes to standard error, so that a pipe gets diffs only.
                (DiffEvent::Started(block), _) => {
                    eprintln!("from block {block} on");
                    continue;
                }
                (DiffEvent::Interrupted { reason, pause }, _) => {
                    eprintln!("interrupted: {reason}; on again in {:.1} s", pause.as_secs_f64());
                    continue;
                }
                (event, true) => as_json(event)?,
                (event, false) => renderer.event(event),
            };
            left = left.map(|left| left - 1);
            let mut out = stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush()).map_err(CommandError::Output)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Commits and reverts as the server sends them; ranges with a type of their own.
fn as_json(event: &DiffEvent) -> Result<String, CommandError> {
    let value = match event {
        DiffEvent::Commit(block) => serde_json::to_value(DiffMessage::Commit(block.clone())),
        DiffEvent::Revert(block) => serde_json::to_value(DiffMessage::Revert(block.clone())),
        DiffEvent::Range(range) => serde_json::to_value(range).map(|mut value| {
            value["type"] = json!("range");
            value
        }),
        _ => return Ok(String::new()),
    };
    value.map(|value| value.to_string()).map_err(|error| CommandError::Output(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        watch: WatchArgs,
    }

    fn parsed(args: &[&str]) -> Result<SubscribeOptions, String> {
        let cli = Cli::try_parse_from([&["watch"], args].concat()).map_err(|e| e.to_string())?;
        options(&cli.watch).map_err(|error| error.to_string())
    }

    #[test]
    fn slots_belong_to_an_account() {
        let (one, two) = (Address::with_last_byte(1), Address::with_last_byte(2));
        let [first, second] = [one, two].map(|address| address.to_string());
        let pair = format!("{second}:0x10");
        let given = parsed(&["--address", &first, "--slot", "3", "--slot", &pair]).unwrap();
        assert_eq!(given.addresses, Some(vec![one]));
        assert_eq!(given.slots[&one], [B256::with_last_byte(3)]);
        assert_eq!(given.slots[&two], [B256::with_last_byte(16)]);
        assert!(parsed(&["--slot", "3"]).unwrap_err().contains("needs an --address"));
        assert!(parsed(&["--slot", "x"]).is_err());
        assert_eq!(parsed(&[]).unwrap().addresses, None);
    }

    #[test]
    fn blocks_and_labels() {
        assert_eq!(start("17").unwrap(), StartAt::Number(17));
        assert_eq!(start("0x11").unwrap(), StartAt::Number(17));
        let hash = B256::repeat_byte(7);
        let block = prestate_types::BlockRef::new(17, hash);
        assert_eq!(start(&format!("17:{hash}")).unwrap(), StartAt::Block(block));
        assert!(start("17:0x12").is_err() && start("0x1ffffffffffffffff").is_err());
        let named = label("0x0000000000000000000000000000000000000001=pool").unwrap();
        assert_eq!(named, (Address::with_last_byte(1), "pool".to_owned()));
        assert!(label("pool").is_err());
    }
}

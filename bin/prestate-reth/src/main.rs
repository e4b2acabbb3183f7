//! `prestate-reth`: reth with prestate in it. Everything `reth` does, `prestate-reth` does too.

use clap::Parser;
use prestate_exex::PrestateArgs;
use prestate_reth::{Commands, Namespaces, launch};
use reth_ethereum::cli::{Cli, allocator, chainspec::EthereumChainSpecParser, sigsegv_handler};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new_allocator();

fn main() -> ExitCode {
    sigsegv_handler::install();
    let cli = Cli::<EthereumChainSpecParser, PrestateArgs, Namespaces, Commands>::parse();
    let run = cli.run(async move |builder, args| launch(builder, args).await?.exit.await);
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

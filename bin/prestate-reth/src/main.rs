//! `prestate-reth`: reth with prestate in it. Everything `reth` does, `prestate-reth` does too.

use clap::Parser;
use prestate_exex::PrestateArgs;
use prestate_reth::{Commands, Namespaces, launch};
use reth_ethereum::cli::{Cli, allocator, chainspec::EthereumChainSpecParser, sigsegv_handler};
use std::io::Write;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::new_allocator();

fn main() {
    sigsegv_handler::install();
    let cli = Cli::<EthereumChainSpecParser, PrestateArgs, Namespaces, Commands>::parse();
    let run = cli.run(async move |builder, args| launch(builder, args).await?.exit.await);
    let code = match run {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("Error: {error:?}");
            1
        }
    };
    let _ = std::io::stdout().flush();
    end(code)
}

/// Ends the process without destructors of static objects.
///
/// reth 2.5.1 returns from its shutdown while threads of its own still hold the database
/// (`PersistenceService::run` is not waited for). Where one of them closes RocksDB after RocksDB's
/// static objects were destroyed, the process aborts with `pthread lock: Invalid argument`: six of
/// seventy stops did. All that is to be written has been by now.
fn end(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions: it ends the process.
    unsafe { libc::_exit(code) }
}

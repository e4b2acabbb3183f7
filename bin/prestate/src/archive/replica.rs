//! `prestate archive serve`: a read replica.

use super::hinted;
use crate::{
    errors::CommandError,
    serve::{ServeArgs, banner},
};
use clap::Args;
use prestate_rpc::{ArchiveHost, Sources};
use prestate_store::{Archive, ArchiveOptions};
use std::{path::PathBuf, process::ExitCode, sync::Arc};

/// `prestate archive serve`
#[derive(Debug, Args)]
pub(super) struct ServeReplicaArgs {
    /// Folder of the archive; another process may be writing to it
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(args: ServeReplicaArgs) -> Result<ExitCode, CommandError> {
    let archive = Archive::open_read_only(&args.dir, &ArchiveOptions::default()).map_err(hinted)?;
    let stats = archive.stats()?;
    let host = Arc::new(ArchiveHost::new(archive.clone())?);
    let what = match stats.range {
        Some((lowest, highest)) => format!(
            "what {} blocks of chain {} changed, {} to {},",
            stats.canonical_blocks, stats.chain.chain_id, lowest.number, highest.number
        ),
        None => "an empty archive".to_owned(),
    };
    let shown = banner(&*host, what)?;
    let sources = Sources { host, pipeline: None, archive: Some(archive) };
    args.serve.run(sources, Vec::new(), shown)
}

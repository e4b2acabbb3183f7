//! `prestate archive serve`: a read replica.

use super::reader;
use crate::{
    errors::CommandError,
    serve::{ServeArgs, banner},
};
use clap::Args;
use prestate_host::Host;
use prestate_rpc::{ArchiveHost, Sources};
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
    let archive = reader(&args.dir)?;
    let host = Arc::new(ArchiveHost::new(archive.clone())?);
    let what = format!(
        "what {} blocks of chain {} changed, {} to {},",
        archive.stats()?.canonical_blocks,
        archive.chain().chain_id,
        host.earliest()?.number,
        host.head()?.number
    );
    let shown = banner(&*host, what)?;
    let sources = Sources { host, pipeline: None, archive: Some(archive) };
    args.serve.run(sources, Vec::new(), shown)
}

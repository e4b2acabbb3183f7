//! A dev chain with traffic for runs that have no endpoint to measure.

use super::endpoint::EndpointUrl;
use crate::serve::Process;
use std::{
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

/// Transactions a second, and so of a block: as many as a busy mainnet block has.
const TRAFFIC: &str = "200";
const BLOCK_SECONDS: &str = "1";
/// Blocks before anything is measured: contracts are deployed in the first ones.
pub(super) const FIRST_BLOCK: u64 = 16;
/// What the banner has before the URL.
const SERVING: &str = "serving on ";

/// The flags of a chain with traffic.
pub(super) fn busy(shape: Option<&str>) -> Vec<&str> {
    let mut flags = vec!["--traffic", TRAFFIC, "--block-time", BLOCK_SECONDS];
    flags.extend(shape.into_iter().flat_map(|shape| ["--shape", shape]));
    flags
}

/// Starts `EXE dev` on a free port.
pub(crate) fn start(exe: &Path, flags: &[&str]) -> io::Result<(Process, EndpointUrl)> {
    let mut command = Command::new(exe);
    command
        .args(["dev", "--port", "0", "--with-parent"])
        .args(flags)
        .env("PRESTATE_LOG", "warn")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = Process::start(&mut command)?;
    let stderr = process.child().stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut lines = BufReader::new(stderr).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if let Some((_, rest)) = line.split_once(SERVING) {
            let url = rest.split_whitespace().next().unwrap_or_default();
            let url = EndpointUrl::parse(url).map_err(io::Error::other)?;
            // Whatever it says later must not fill the pipe.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((process, url));
        }
        said = line;
    }
    Err(io::Error::other(said))
}

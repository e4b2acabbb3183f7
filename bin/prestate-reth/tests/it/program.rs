//! The program as an operator starts it.

use crate::http::call;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(90);

/// `prestate-reth node --dev …`, killed when dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) lane: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, without anything that reaches out or is shared with others.
pub(crate) fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prestate-reth"));
    command
        .args(["node", "--dev", "--http", "--http.port", "0", "--port", "0"])
        .args(["--http.api", "eth,net,web3,debug,testing,prestate", "--authrpc.port", "0"])
        .args(["--ipcdisable", "--color", "never", "--log.file.max-files", "0"])
        .arg("--datadir")
        .arg(folder)
        .args(flags)
        .args(defaults(flags))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// What is not said otherwise: a free port, few threads, no space kept.
fn defaults(flags: &[&str]) -> Vec<&'static str> {
    ["--prestate.http.port=0", "--prestate.workers=2", "--prestate.reserve=0"]
        .into_iter()
        .filter(|default| {
            let name = default.split('=').next().unwrap();
            !flags.iter().any(|flag| flag.split('=').next() == Some(name))
        })
        .collect()
}

impl Program {
    /// Starts it and waits until it serves.
    pub(crate) fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut child = command(folder, flags).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        // Read to its end, or the program would wait for its reader.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if std::env::var_os("PRESTATE_SHOW_LOG").is_some() {
                    eprintln!("{line}");
                }
                let _ = sender.send(line);
            }
        });
        let (mut http, mut lane) = (None, None);
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        while http.is_none() || lane.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                let _ = child.kill();
                panic!("it does not serve:\n{}", seen.join("\n"));
            };
            let url = || line.split_once("url=")?.1.split_whitespace().next();
            let addr = || url()?.trim_start_matches("http://").trim_matches('"').parse().ok();
            if line.contains("RPC HTTP server started") {
                http = addr();
            } else if line.contains("lane started") {
                lane = addr();
            }
            seen.push(line);
        }
        Self { child, http: http.unwrap(), lane: lane.unwrap() }
    }

    /// No time to write anything down.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an operator stops it.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        wait_for(&mut self.child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn block_number(&self) -> u64 {
        quantity(&call(self.http, "eth_blockNumber", json!([])).await.unwrap())
    }

    /// Sends transactions over the lane, which the node's own namespaces answer too, and waits
    /// until they are in blocks.
    pub(crate) async fn send(&self, txs: &[alloy_primitives::Bytes]) {
        let mut hashes = Vec::new();
        for tx in txs {
            let hash = call(self.lane, "eth_sendRawTransaction", json!([tx])).await.unwrap();
            hashes.push(hash);
        }
        for hash in hashes {
            let found = async || {
                let receipt = call(self.lane, "eth_getTransactionReceipt", json!([hash])).await;
                receipt.is_ok_and(|receipt| !receipt.is_null())
            };
            eventually("a receipt", found).await;
        }
    }

    pub(crate) async fn status(&self) -> Value {
        call(self.lane, "prestate_status", json!([])).await.unwrap()
    }
}

/// Waits for an end that is bound to come.
pub(crate) fn wait_for(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    panic!("it does not end");
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so().await {
        assert!(Instant::now() < deadline, "it did not come about: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A hexadecimal quantity.
pub(crate) fn quantity(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

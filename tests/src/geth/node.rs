//! The process, and blocks made to order.

use super::client::{Answer, Client, ClientError};
use alloy_primitives::{Address, B256, Bytes, hex};
use std::{
    env, fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Where Geth is: `$GETH` if set, else `geth` on `PATH`. `Err` says in one line why there is none.
pub fn locate() -> Result<PathBuf, String> {
    let path = match env::var_os("GETH") {
        Some(path) => PathBuf::from(path),
        None => env::var_os("PATH")
            .iter()
            .flat_map(env::split_paths)
            .map(|folder| folder.join("geth"))
            .find(|file| file.is_file())
            .ok_or("no Geth: $GETH is not set and there is no geth on PATH")?,
    };
    let version = Command::new(&path)
        .arg("version")
        .output()
        .map_err(|error| format!("no Geth: {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("Version:")).unwrap_or("").trim();
    if version.starts_with("1.17.") {
        Ok(path)
    } else {
        Err(format!("{} is Geth {version:?}, the contract is 1.17", path.display()))
    }
}

/// Why Geth could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GethError {
    /// A file or the process could not be made.
    #[error("{operation}: {source}")]
    Io {
        /// What was tried, with its path.
        operation: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ended or stayed silent; the end of its log.
    #[error("geth did not come up:\n{log}")]
    Start {
        /// The last lines it wrote.
        log: String,
    },
    /// A call got no answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A call that must succeed was refused.
    #[error("{method}: {error}")]
    Refused {
        /// The method.
        method: String,
        /// The error object.
        error: String,
    },
}

/// An EIP-4895 withdrawal.
#[derive(Debug, Clone, Copy)]
pub struct Withdrawal {
    /// Running number.
    pub index: u64,
    /// Validator.
    pub validator: u64,
    /// Who is credited.
    pub address: Address,
    /// How much, in gwei.
    pub amount_gwei: u64,
}

/// Everything that decides a block on top of the head.
#[derive(Debug, Clone)]
pub struct BlockPlan {
    /// Seconds since 1970, above the parent's.
    pub timestamp: u64,
    /// Who gets the tips.
    pub coinbase: Address,
    /// PREVRANDAO.
    pub randao: B256,
    /// Given from Cancun on, `None` before.
    pub beacon_root: Option<B256>,
    /// In order.
    pub withdrawals: Vec<Withdrawal>,
    /// EIP-2718 encodings, in order; all must be valid. Blob transactions with a sidecar.
    pub transactions: Vec<Bytes>,
    /// Given from Amsterdam on (EIP-7843).
    pub slot: Option<u64>,
}

impl BlockPlan {
    fn params(&self) -> String {
        let withdrawals: Vec<_> = self
            .withdrawals
            .iter()
            .map(|withdrawal| {
                serde_json::json!({
                    "index": format!("{:#x}", withdrawal.index),
                    "validatorIndex": format!("{:#x}", withdrawal.validator),
                    "address": withdrawal.address,
                    "amount": format!("{:#x}", withdrawal.amount_gwei),
                })
            })
            .collect();
        let mut attributes = serde_json::json!({
            "timestamp": format!("{:#x}", self.timestamp),
            "prevRandao": self.randao,
            "suggestedFeeRecipient": self.coinbase,
            "withdrawals": withdrawals,
        });
        if let Some(root) = self.beacon_root {
            attributes["parentBeaconBlockRoot"] = serde_json::json!(root);
        }
        if let Some(slot) = self.slot {
            attributes["slotNumber"] = format!("{slot:#x}").into();
        }
        serde_json::json!([attributes, self.transactions, "0x"]).to_string()
    }
}

/// A running Geth. Dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct Geth {
    process: Child,
    folder: PathBuf,
    client: Client,
}

/// A start takes about half a second; a loaded machine gets this long.
const START: Duration = Duration::from_secs(30);
/// High enough that blocks hold any number of transactions.
const GAS_CEILING: u64 = 1_000_000_000;

impl Geth {
    /// Starts Geth on a chain that begins with `genesis`, Geth's genesis JSON.
    pub fn start(binary: &Path, genesis: &str) -> Result<Self, GethError> {
        // A free port found may be taken before Geth binds it: then once more.
        let mut tries = 0;
        loop {
            match Self::start_once(binary, genesis) {
                Err(GethError::Start { .. }) if tries < 2 => tries += 1,
                outcome => return outcome,
            }
        }
    }

    fn start_once(binary: &Path, genesis: &str) -> Result<Self, GethError> {
        static RUNNING: AtomicU32 = AtomicU32::new(0);
        let number = RUNNING.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("prestate-geth-{}-{number}", std::process::id()));
        let io = |operation: &str, path: &Path| {
            let operation = format!("{operation} {}", path.display());
            move |source| GethError::Io { operation, source }
        };
        fs::create_dir_all(&folder).map_err(io("create", &folder))?;
        let genesis_file = folder.join("genesis.json");
        fs::write(&genesis_file, genesis).map_err(io("write", &genesis_file))?;
        let log_file = folder.join("log");
        let log = fs::File::create(&log_file).map_err(io("create", &log_file))?;
        let http = free_port().map_err(io("bind a port of", Path::new("127.0.0.1")))?;
        let auth = free_port().map_err(io("bind a port of", Path::new("127.0.0.1")))?;
        let process = Command::new(binary)
            .arg("--override.genesis")
            .arg(&genesis_file)
            .arg("--datadir")
            .arg(folder.join("data"))
            .args([
                "--nodiscover",
                "--maxpeers",
                "0",
                "--nat",
                "none",
                "--port",
                "0",
                "--ipcdisable",
            ])
            .args(["--gcmode", "archive", "--state.scheme", "hash", "--syncmode", "full"])
            .args(["--cache", "128", "--miner.gaslimit", &GAS_CEILING.to_string()])
            .args(["--http", "--http.addr", "127.0.0.1", "--http.port", &http.to_string()])
            .args(["--http.api", "admin,debug,eth,net,web3,testing", "--rpc.http-body-limit", "64"])
            .args(["--authrpc.addr", "127.0.0.1", "--authrpc.port", &auth.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(io("run", binary))?;
        let client = Client::new(SocketAddr::from((Ipv4Addr::LOCALHOST, http)));
        let mut geth = Self { process, folder, client };
        let deadline = Instant::now() + START;
        loop {
            if geth.client.call("eth_chainId", "[]").is_ok() {
                return Ok(geth);
            }
            let ended = geth.process.try_wait().ok().flatten().is_some();
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(&log_file).unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(12).collect();
                let log = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(GethError::Start { log });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The connection to it.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Its answer to a call.
    pub fn call(&self, method: &str, params: &str) -> Result<Answer, GethError> {
        Ok(self.client.call(method, params)?)
    }

    /// The result of a call that must succeed.
    pub fn expect(&self, method: &str, params: &str) -> Result<String, GethError> {
        match self.client.call(method, params)? {
            Answer::Result(json) => Ok(json),
            Answer::Error(error) => Err(GethError::Refused { method: method.to_owned(), error }),
        }
    }

    /// Builds a block on the head, imports it and makes it the head. Returns its hash.
    ///
    /// This is Geth's `testing_commitBlockV1` (`eth/catalyst/api_testing.go`): unlike the Engine
    /// API it takes the transactions themselves, so order and content are ours and not the pool's.
    pub fn commit(&self, plan: &BlockPlan) -> Result<B256, GethError> {
        let hash = self.expect("testing_commitBlockV1", &plan.params())?;
        serde_json::from_str(&hash).map_err(|_| GethError::Refused {
            method: "testing_commitBlockV1".to_owned(),
            error: hash,
        })
    }

    /// Imports blocks from a file with their RLP encodings, each checked in full, and makes the last
    /// one the head.
    pub fn import(&self, file: &Path) -> Result<(), GethError> {
        let params = serde_json::json!([file]).to_string();
        self.expect("admin_importChain", &params).map(drop)
    }

    /// RLP of the canonical block of this number.
    pub fn raw_block(&self, number: u64) -> Result<Bytes, GethError> {
        let text = self.expect("debug_getRawBlock", &format!("[\"{number:#x}\"]"))?;
        let bytes = hex::decode(text.trim_matches('"'));
        bytes
            .map(Bytes::from)
            .map_err(|_| GethError::Refused { method: "debug_getRawBlock".to_owned(), error: text })
    }
}

impl Drop for Geth {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; a process that ended already is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

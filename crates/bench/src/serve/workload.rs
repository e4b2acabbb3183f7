use super::{
    load::{Connection, Load, LoadResult},
    nginx,
    process::Process,
    report::{HeavyRow, ServeReport, ServeRow},
    rivals::RivalKind,
};
use std::{
    fs,
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Why the workload could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A server or a file.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A server answered something else than the result.
    #[error("{server} answered status {status} and {bytes} bytes")]
    Answer {
        /// Which.
        server: String,
        /// Its status.
        status: u16,
        /// Length of its body.
        bytes: u64,
    },
}

/// How to run it.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// This program: rivals run in processes of their own, as `EXE bench rival …`.
    pub exe: PathBuf,
    /// Block file whose trace is served.
    pub block: PathBuf,
    /// Number of that block.
    pub number: u64,
    /// Clients.
    pub connections: usize,
    /// Time under load in each round.
    pub time: Duration,
    /// Rounds, contestants in alternation.
    pub rounds: usize,
    /// Transactions of the heavy block.
    pub heavy_transactions: u64,
}

struct Contestant {
    name: String,
    process: Process,
    load: Load,
    row: ServeRow,
}

/// Runs the workload.
///
/// # Errors
/// A server that does not start or answers something else ends the run.
pub fn serve(options: &ServeOptions) -> Result<ServeReport, ServeError> {
    let folder = std::env::temp_dir().join(format!("prestate-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(failed("make a folder for the bodies"))?;
    let report = in_folder(options, &folder);
    let _ = fs::remove_dir_all(&folder);
    report
}

pub(super) fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
    let what = what.into();
    move |source| ServeError::Io { what, source }
}

fn in_folder(options: &ServeOptions, folder: &Path) -> Result<ServeReport, ServeError> {
    let trace = call(
        "debug_traceBlockByNumber",
        &format!(
            "[\"0x{:x}\",{{\"tracer\":\"prestateTracer\",\"tracerConfig\":{{\"diffMode\":true}}}}]",
            options.number
        ),
    );
    let (lane, addr) = child(&options.exe, "lane", &options.block)?;
    let identity = ask(addr, &post(&trace, None), "lane")?;
    let gzip = ask(addr, &post(&trace, Some("gzip")), "lane")?;
    let zstd = ask(addr, &post(&trace, Some("zstd")), "lane")?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).map_err(failed(format!("write {name}")))
    };
    write("body.json", &identity)?;
    write("body.json.gz", &gzip)?;
    let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".len();
    write("result.json", &identity[head..identity.len() - 1])?;

    let result = folder.join("result.json");
    let mut contestants = Vec::new();
    let mut add = |name: &str, process, addr, request| {
        contestants.push(Contestant {
            name: name.to_owned(),
            process,
            load: Load { addr, request, connections: options.connections, time: options.time },
            row: ServeRow::new(name),
        });
    };
    let (lane_zstd, zstd_addr) = child(&options.exe, "lane", &options.block)?;
    let (lane_identity, identity_addr) = child(&options.exe, "lane", &options.block)?;
    ask(zstd_addr, &post(&trace, Some("zstd")), "lane")?;
    ask(identity_addr, &post(&trace, None), "lane")?;
    add("lane, gzip hit", lane, addr, post(&trace, Some("gzip")));
    add("lane, zstd hit", lane_zstd, zstd_addr, post(&trace, Some("zstd")));
    add("lane, identity hit", lane_identity, identity_addr, post(&trace, None));
    for name in ["nginx gzip_static", "nginx identity"] {
        let gzipped = name.ends_with("static");
        match nginx::start(folder).map_err(failed("start nginx"))? {
            Some((process, addr)) => add(name, process, addr, get("/body.json", gzipped)),
            None => eprintln!("nginx is not installed: {name} is left out"),
        }
    }
    for level in [1, 6] {
        let kind = RivalKind::Libdeflate(level);
        let (process, addr) = child(&options.exe, &kind.name(), &result)?;
        add(&format!("libdeflate {level} per reply"), process, addr, get("/", true));
    }
    let (process, addr) = child(&options.exe, &RivalKind::Jsonrpsee.name(), &result)?;
    let request = post(&call("result", "[]"), Some("gzip"));
    add("jsonrpsee + tower-http gzip", process, addr, request);

    for _ in 0..options.rounds {
        for contestant in &mut contestants {
            let before = contestant.process.cpu();
            let seen: LoadResult = contestant.load.run();
            let spent = contestant.process.cpu().saturating_sub(before);
            contestant.row.add(&seen, spent);
        }
    }
    let rows = contestants.into_iter().map(|contestant| {
        debug_assert_eq!(contestant.name, contestant.row.name);
        contestant.row
    });
    let rows = rows.collect();
    let heavy = heavy(options)?;
    Ok(ServeReport {
        block: options.number,
        json_bytes: identity.len() as u64,
        gzip_bytes: gzip.len() as u64,
        zstd_bytes: zstd.len() as u64,
        rows,
        heavy,
    })
}

/// The block of tens of thousands of transactions: what its first reply takes, and a hit.
fn heavy(options: &ServeOptions) -> Result<HeavyRow, ServeError> {
    let trace = call("debug_traceBlockByNumber", "[\"0x1\",{\"tracer\":\"callTracer\"}]");
    let count = PathBuf::from(options.heavy_transactions.to_string());
    let (process, addr) = child(&options.exe, "lane-heavy", &count)?;
    // Warms up what a server that runs has in memory anyway.
    ask(addr, &post(&call("prestate_status", "[]"), None), "lane")?;
    let before = process.peak_memory_bytes();
    let started = Instant::now();
    let reply = ask(addr, &post(&trace, None), "lane")?;
    let fill_time = started.elapsed();
    let fill_memory_bytes = process.peak_memory_bytes().saturating_sub(before);
    let mut hits = Vec::new();
    for (name, coding) in [("gzip", Some("gzip")), ("identity", None)] {
        let request = post(&trace, coding);
        ask(addr, &request, "lane")?;
        let load = Load { addr, request, connections: 2, time: options.time };
        let mut row = ServeRow::new(name);
        for _ in 0..options.rounds {
            let before = process.cpu();
            let seen = load.run();
            row.add(&seen, process.cpu().saturating_sub(before));
        }
        hits.push(row);
    }
    Ok(HeavyRow {
        transactions: options.heavy_transactions,
        json_bytes: reply.len() as u64,
        fill_time,
        fill_memory_bytes,
        hits,
    })
}

pub(super) fn child(
    exe: &Path,
    kind: &str,
    subject: &Path,
) -> Result<(Process, SocketAddr), ServeError> {
    let mut command = Command::new(exe);
    command.args(["bench", "rival", kind]).arg(subject).stdout(Stdio::piped());
    let mut process = Process::start(&mut command).map_err(failed(format!("start {kind}")))?;
    let mut line = String::new();
    if let Some(stdout) = process.child().stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed(format!("start {kind}")))?;
    }
    let addr = line
        .trim()
        .parse()
        .map_err(|_| io::Error::other(format!("said {line:?} instead of an address")))
        .map_err(failed(format!("start {kind}")))?;
    Ok((process, addr))
}

pub(super) fn ask(addr: SocketAddr, request: &[u8], server: &str) -> Result<Vec<u8>, ServeError> {
    let mut connection = Connection::open(addr).map_err(failed("connect"))?.keeping_bodies();
    let reply = connection.ask(request).map_err(failed(format!("ask {server}")))?;
    if reply.status != 200 || reply.body_bytes < 1024 && reply.body.starts_with(b"{\"error") {
        let (status, bytes) = (reply.status, reply.body_bytes);
        return Err(ServeError::Answer { server: server.to_owned(), status, bytes });
    }
    Ok(reply.body)
}

pub(super) fn call(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}")
}

pub(super) fn post(body: &str, coding: Option<&str>) -> Vec<u8> {
    let accept = coding.map(|coding| format!("accept-encoding: {coding}\r\n")).unwrap_or_default();
    format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{accept}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(super) fn get(path: &str, gzip: bool) -> Vec<u8> {
    let accept = if gzip { "accept-encoding: gzip\r\n" } else { "" };
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{accept}\r\n").into_bytes()
}

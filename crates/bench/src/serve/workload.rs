use super::{
    connection::Connection,
    contestant::{
        Contestant, Launcher, Nginx, OurLane, Rival, Running, Server, Work, ask, call, child,
    },
    endpoint::Endpoint,
    first::first_replies,
    load::Load,
    process::Process,
    report::{HeavyFill, ServeReport, ServeRow, WorkReport},
    rivals::RivalKind,
    small::small,
};
use crate::Failure;
use prestate_wire::Encoding;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Transactions of the block whose `eth_getBlockByNumber` is some 30 KB, the class of reply of
/// Erigon's study.
pub(super) const SMALL_TRANSACTIONS: u64 = 44;
/// Replies of 20 MB to more clients than this measure memory.
const HEAVY_CONNECTIONS: usize = 8;

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
    /// A server did not answer with the result.
    #[error("{server} did not answer: {failure}")]
    Answer {
        /// Which.
        server: String,
        /// How.
        failure: Failure,
    },
}

/// How to run it.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Starts the lane and its rivals.
    pub launcher: Launcher,
    /// Block file whose traces are served.
    pub block: PathBuf,
    /// Number of that block.
    pub number: u64,
    /// Clients, one step each.
    pub connections: Vec<usize>,
    /// Time under load in each round.
    pub time: Duration,
    /// Rounds, contestants in alternation.
    pub rounds: usize,
    /// Transactions of the heavy block.
    pub heavy_transactions: u64,
    /// Nodes that run already, asked for the block's traces too.
    pub running: Vec<(String, Endpoint)>,
}

/// Runs the workload.
///
/// # Errors
/// A server of this machine that does not start or answer ends the run. A node given by URL that
/// does not is a row of failures.
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
    let number = options.number;
    let mut works = Vec::new();
    let file = ("lane", options.block.clone());
    let transactions = |count: u64| ("lane-heavy", PathBuf::from(count.to_string()));
    let work = |lane, call: String| Work {
        launcher: options.launcher.clone(),
        call,
        lane,
        folder: folder.to_owned(),
    };
    let block = work(transactions(SMALL_TRANSACTIONS), block_call());
    works.push(measure(
        options,
        &block,
        "serve-block",
        "`eth_getBlockByNumber` with transactions, 30 KB".to_owned(),
        &all(&[]),
        &options.connections,
    )?);
    let small = small(&folder.join("body.json"), options.rounds)?;
    let trace = work(file.clone(), call("trace_block", &format!("[\"0x{number:x}\"]")));
    works.push(measure(
        options,
        &trace,
        "serve-trace",
        format!("`trace_block` of block {number}"),
        &all(&options.running),
        &options.connections,
    )?);
    let diffs = work(file, diff_call(number));
    works.push(measure(
        options,
        &diffs,
        "serve",
        format!("`debug_traceBlockByNumber` with the prestate tracer in diff mode, block {number}"),
        &all(&options.running),
        &options.connections,
    )?);
    let first = first_replies(options, &diffs)?;
    let heavy_work = work(
        transactions(options.heavy_transactions),
        call("debug_traceBlockByNumber", "[\"0x1\",{\"tracer\":\"callTracer\"}]"),
    );
    let heavy = heavy_fill(&heavy_work)?;
    let mut steps = options.connections.clone();
    steps.retain(|connections| *connections <= HEAVY_CONNECTIONS);
    if steps.is_empty() {
        steps.push(HEAVY_CONNECTIONS);
    }
    let about = format!(
        "callTracer replies of a block of {} transactions; the first took {:.0} ms",
        options.heavy_transactions,
        heavy.time.as_secs_f64() * 1e3
    );
    works.push(measure(options, &heavy_work, "serve-heavy", about, &few(), &steps)?);
    Ok(ServeReport { works, first, small, heavy })
}

pub(super) fn block_call() -> String {
    call("eth_getBlockByNumber", "[\"0x1\",true]")
}

pub(super) fn diff_call(number: u64) -> String {
    let config = "{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}}";
    call("debug_traceBlockByNumber", &format!("[\"0x{number:x}\",{config}]"))
}

type Contestants = Vec<Box<dyn Contestant>>;

fn all(running: &[(String, Endpoint)]) -> Contestants {
    let mut all: Contestants = vec![Box::new(OurLane), Box::new(Nginx)];
    for kind in [
        RivalKind::Libdeflate(1),
        RivalKind::Libdeflate(6),
        RivalKind::Zlib(6),
        RivalKind::Jsonrpsee,
        RivalKind::Raw,
        RivalKind::Reparsed,
    ] {
        all.push(Box::new(Rival(kind)));
    }
    for (name, endpoint) in running {
        all.push(Box::new(Running { name: name.clone(), endpoint: endpoint.clone() }));
    }
    all
}

/// For replies that take others seconds.
fn few() -> Contestants {
    let mut few: Contestants = vec![Box::new(OurLane), Box::new(Nginx)];
    for kind in [RivalKind::Libdeflate(1), RivalKind::Raw, RivalKind::Reparsed] {
        few.push(Box::new(Rival(kind)));
    }
    few
}

/// The lane's reply, as files for those who serve files or text.
pub(super) fn write_bodies(work: &Work, lane: &Server) -> Result<[u64; 3], ServeError> {
    let body = |coding| ask(lane, &lane.endpoint.post(&work.call, coding), "lane");
    let (identity, gzip, zstd) =
        (body(Encoding::Identity)?, body(Encoding::Gzip)?, body(Encoding::Zstd)?);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(work.folder.join(name), bytes).map_err(failed(format!("write {name}")))
    };
    write("body.json", &identity)?;
    write("body.json.gz", &gzip)?;
    let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".len();
    write("result.json", &identity[head..identity.len() - 1])?;
    Ok([identity.len() as u64, gzip.len() as u64, zstd.len() as u64])
}

struct Entry<'a> {
    server: &'a Server,
    warm_up: Duration,
    load: Load,
    row: ServeRow,
}

/// One work by all its contestants.
fn measure(
    options: &ServeOptions,
    work: &Work,
    name: &'static str,
    about: String,
    contestants: &[Box<dyn Contestant>],
    steps: &[usize],
) -> Result<WorkReport, ServeError> {
    let (kind, subject) = &work.lane;
    let bytes = write_bodies(work, &child(&work.launcher, kind, subject)?)?;
    let mut started = Vec::new();
    for contestant in contestants {
        match contestant.start(work)? {
            Some(server) => started.push((contestant, server)),
            None => eprintln!("{} is not installed: it is left out", contestant.name()),
        }
    }
    let mut entries = Vec::new();
    for connections in steps.iter().copied() {
        for (contestant, server) in &started {
            for coding in contestant.codings() {
                entries.push(Entry {
                    server,
                    warm_up: contestant.warm_up(),
                    load: Load {
                        addr: server.endpoint.addr(),
                        request: contestant.request(server, work, *coding),
                        connections,
                        time: options.time,
                        body_bytes: None,
                    },
                    row: ServeRow::new(&contestant.name(), *coding, connections),
                });
            }
        }
    }
    for _ in 0..options.rounds {
        for Entry { server, warm_up, load, row } in &mut entries {
            // Outside the measurement the reply is unpacked and read; inside, its length tells.
            // After the warm-up: a server's second body may be another than its first, see `Splice`.
            let warm = load.probe().and_then(|_| {
                Load { time: *warm_up, body_bytes: None, ..load.clone() }.run();
                load.probe()
            });
            match warm {
                Ok(bytes) => load.body_bytes = Some(bytes),
                Err(failure) => {
                    row.failures.count(failure);
                    continue;
                }
            }
            let before = server.cpu();
            let seen = load.run();
            let spent = server.cpu().zip(before).map(|(after, before)| after - before);
            row.add(&seen, spent);
        }
    }
    let rows = entries.into_iter().map(|entry| entry.row).collect();
    let [json_bytes, gzip_bytes, zstd_bytes] = bytes;
    Ok(WorkReport { name, about, json_bytes, gzip_bytes, zstd_bytes, rows })
}

/// The block of tens of thousands of transactions: what its first reply takes.
fn heavy_fill(work: &Work) -> Result<HeavyFill, ServeError> {
    let (kind, subject) = &work.lane;
    let lane = child(&work.launcher, kind, subject)?;
    // Warms up what a server that runs has in memory anyway.
    let status = lane.endpoint.post(&call("prestate_status", "[]"), Encoding::Identity);
    ask(&lane, &status, "lane")?;
    let peak = || lane.process.as_ref().map(Process::peak_memory_bytes).unwrap_or_default();
    let before = peak();
    let request = lane.endpoint.post(&work.call, Encoding::Identity);
    let mut connection = Connection::open(lane.endpoint.addr())
        .map_err(|failure| ServeError::Answer { server: "lane".to_owned(), failure })?;
    let started = Instant::now();
    let reply = connection
        .ask(&request)
        .map_err(|failure| ServeError::Answer { server: "lane".to_owned(), failure })?;
    let time = started.elapsed();
    let memory_bytes = peak().saturating_sub(before);
    Ok(HeavyFill { json_bytes: reply.body_bytes, time, memory_bytes })
}

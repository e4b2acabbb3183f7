//! Replies of 30 KB at rising rates: what is held, and how long a reply takes at each rate.
//!
//! Open loop: requests are due at fixed times whether or not the earlier ones are answered, and a
//! reply's time counts from when its request was due. A server that stalls is charged for all who
//! would have come meanwhile ("coordinated omission", Gil Tene).

use super::{
    load::{Connection, Reply},
    rivals::RivalKind,
    workload::{ServeError, ask, call, child, failed, get, post},
};
use crate::report::{Bar, Better, Column, Plot, PlotKind, Reported, Row, Series, Table};
use std::{
    fmt, fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Transactions of the block served: 30 KB of callTracer JSON.
const TRANSACTIONS: u64 = 60;
/// A step is lost when more than one request in so many failed or came too late.
const LOST: f64 = 0.01;
/// A reply later than this counts as failed: clients have given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// The rate of Erigon's study, and the bar.
const STUDY_RATE: u64 = 2_300;
/// Requests a second at each step.
const RATES: [u64; 10] =
    [500, 1_000, STUDY_RATE, 4_000, 6_000, 9_000, 13_000, 18_000, 25_000, 35_000];

/// How to run it.
#[derive(Debug, Clone)]
pub struct LadderOptions {
    /// Time at each rate.
    pub time: Duration,
    /// Connections, each a client of its own.
    pub connections: usize,
}

/// One rate.
#[derive(Debug, Clone)]
pub struct Step {
    /// Requests a second that were due.
    pub rate: u64,
    /// Requests that were due.
    pub due: u64,
    /// Of them answered with 200 in time.
    pub answered: u64,
    /// Times of the answers, ascending.
    times: Vec<Duration>,
}

impl Step {
    /// The part of the requests that was answered.
    pub fn success(&self) -> f64 {
        self.answered as f64 / self.due.max(1) as f64
    }

    /// Whether the rate was held.
    pub fn is_held(&self) -> bool {
        self.success() >= 1.0 - LOST
    }

    /// The time that this part of the answers did not take longer than; `1.0`: the longest.
    pub fn quantile(&self, part: f64) -> Duration {
        let at = (self.times.len() as f64 * part).ceil() as usize;
        self.times
            .get(at.saturating_sub(1).min(self.times.len().wrapping_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// A server's steps up to the first that it does not hold.
#[derive(Debug)]
pub struct Climb {
    /// Who.
    pub name: String,
    /// Bytes of a body.
    pub body_bytes: u64,
    /// Ascending.
    pub steps: Vec<Step>,
}

/// All servers.
#[derive(Debug)]
pub struct LadderReport {
    /// Bytes of the reply.
    pub json_bytes: u64,
    /// One a server.
    pub climbs: Vec<Climb>,
}

/// Runs the workload; `exe` is this program, for the servers.
///
/// # Errors
/// A server that does not start or answers something else ends the run.
pub fn ladder(exe: &Path, steps: &LadderOptions) -> Result<LadderReport, ServeError> {
    let folder = std::env::temp_dir().join(format!("prestate-ladder-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(failed("make a folder for the result"))?;
    let report = in_folder(exe, steps, &folder.join("result.json"));
    let _ = fs::remove_dir_all(&folder);
    report
}

fn in_folder(exe: &Path, steps: &LadderOptions, result: &Path) -> Result<LadderReport, ServeError> {
    let trace = call("debug_traceBlockByNumber", "[\"0x1\",{\"tracer\":\"callTracer\"}]");
    let (lane, addr) = child(exe, "lane-heavy", Path::new(&TRANSACTIONS.to_string()))?;
    let identity = ask(addr, &post(&trace, None), "lane")?;
    let head = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".len();
    fs::write(result, &identity[head..identity.len() - 1]).map_err(failed("write the result"))?;
    let mut servers = vec![("lane, gzip hit".to_owned(), lane, addr, post(&trace, Some("gzip")))];
    let level_1 = RivalKind::Libdeflate(1);
    let (process, addr) = child(exe, &level_1.name(), result)?;
    servers.push(("libdeflate 1 per reply".to_owned(), process, addr, get("/", true)));
    let (process, addr) = child(exe, &RivalKind::Jsonrpsee.name(), result)?;
    let request = post(&call("result", "[]"), Some("gzip"));
    servers.push(("jsonrpsee + tower-http gzip".to_owned(), process, addr, request));
    let mut climbs = Vec::new();
    for (name, process, addr, request) in servers {
        let body_bytes = ask(addr, &request, &name)?.len() as u64;
        let mut climb = Climb { name, body_bytes, steps: Vec::new() };
        for rate in RATES {
            let step = run_step(addr, &request, rate, steps);
            let held = step.is_held();
            climb.steps.push(step);
            if !held {
                break;
            }
        }
        drop(process);
        climbs.push(climb);
    }
    Ok(LadderReport { json_bytes: identity.len() as u64, climbs })
}

/// Requests that are due at this rate.
pub(crate) fn run_step(
    addr: SocketAddr,
    request: &[u8],
    rate: u64,
    options: &LadderOptions,
) -> Step {
    let due = (rate as f64 * options.time.as_secs_f64()) as u64;
    let next = Arc::new(AtomicU64::new(0));
    // Late enough for all clients to be there.
    let start = Instant::now() + Duration::from_millis(100);
    let clients: Vec<_> = (0..options.connections.max(1))
        .map(|_| {
            let (next, request) = (next.clone(), request.to_vec());
            thread::spawn(move || client(addr, &request, rate, due, &next, start))
        })
        .collect();
    let mut times: Vec<_> =
        clients.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect();
    times.sort_unstable();
    Step { rate, due, answered: times.len() as u64, times }
}

fn client(
    addr: SocketAddr,
    request: &[u8],
    rate: u64,
    due: u64,
    next: &AtomicU64,
    start: Instant,
) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut connection = Connection::open(addr);
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= due {
            return times;
        }
        let when = start + Duration::from_secs_f64(index as f64 / rate as f64);
        let now = Instant::now();
        if now > when + PATIENCE {
            // Its client has given up before it could be sent.
            continue;
        }
        thread::sleep(when.saturating_duration_since(now));
        match connection.as_mut().map(|open| open.ask(request)) {
            Ok(Ok(Reply { status: 200, .. })) => {
                let took = when.elapsed();
                if took <= PATIENCE {
                    times.push(took);
                }
            }
            _ => connection = Connection::open(addr),
        }
    }
}

impl Climb {
    /// The highest rate held.
    pub fn held(&self) -> u64 {
        let held = self.steps.iter().filter(|step| step.is_held());
        held.map(|step| step.rate).max().unwrap_or_default()
    }
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

impl Reported for LadderReport {
    fn tables(&self) -> Vec<Table> {
        let mut columns =
            vec![Column::new("due", "1/s", None), Column::new("answered", "%", Better::More)];
        columns.extend(QUANTILES.map(|(name, _)| Column::new(name, "ms", Better::Less)));
        let rows = self.climbs.iter().flat_map(|climb| {
            climb.steps.iter().map(|step| {
                let mut cells = vec![vec![step.rate as f64], vec![step.success() * 100.0]];
                let times = QUANTILES.map(|(_, part)| step.quantile(part).as_secs_f64() * 1e3);
                cells.extend(times.map(|time| vec![time]));
                Row { name: format!("{}, {}/s", climb.name, step.rate), cells }
            })
        });
        vec![Table {
            name: "ladder".to_owned(),
            about: format!(
                "Replies of {} bytes in gzip at rising rates, until more than 1 % of the requests \
                 fail. Times count from when a request was due.",
                self.json_bytes
            ),
            rows_are: "server and rate".to_owned(),
            columns,
            rows: rows.collect(),
        }]
    }

    fn bars(&self) -> Vec<Bar> {
        let ours = self.climbs.first();
        let study = ours.and_then(|climb| climb.steps.iter().find(|step| step.rate == STUDY_RATE));
        let success = study.map(|step| step.success() * 100.0);
        vec![Bar {
            what: format!("replies of 30 KB in gzip, {STUDY_RATE}/s, answered"),
            figure: success.unwrap_or_default(),
            bar: 100.0,
            unit: "%".to_owned(),
            better: Better::More,
        }]
    }

    fn plots(&self) -> Vec<Plot> {
        let series = self.climbs.iter().map(|climb| Series {
            name: climb.name.clone(),
            points: climb
                .steps
                .iter()
                .map(|step| (step.rate as f64, step.quantile(0.99).as_secs_f64() * 1e3))
                .collect(),
        });
        vec![Plot {
            name: "ladder".to_owned(),
            title: "p99 of 30 KB replies in gzip at rising rates".to_owned(),
            x: "requests due a second".to_owned(),
            y: "ms, from when due".to_owned(),
            kind: PlotKind::Lines,
            series: series.collect(),
        }]
    }
}

impl fmt::Display for LadderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "replies of {} bytes, gzip, at rising rates", self.json_bytes)?;
        writeln!(
            f,
            "{:<30} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9}",
            "server", "due/s", "answered", "p50 ms", "p90 ms", "p99 ms", "max ms"
        )?;
        for climb in &self.climbs {
            for step in &climb.steps {
                write!(f, "{:<30} {:>8} {:>9.2}%", climb.name, step.rate, step.success() * 100.0)?;
                for (_, part) in QUANTILES {
                    write!(f, " {:>9.2}", step.quantile(part).as_secs_f64() * 1e3)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

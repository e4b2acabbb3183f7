//! Replies of 30 KB at rising rates: what is held, and how long a reply takes at each rate.
//!
//! Open loop: requests are due at fixed times whether or not the earlier ones are answered, and a
//! reply's time counts from when its request was due. A server that stalls is charged for all who
//! would have come meanwhile ("coordinated omission", Gil Tene).

use super::{
    connection::Connection,
    contestant::{Contestant, Launcher, OurLane, Rival, Work, ask, child},
    load::Load,
    rivals::RivalKind,
    workload::{SMALL_TRANSACTIONS, ServeError, block_call, failed, write_bodies},
};
use crate::{
    Failure, Tally,
    report::{Bar, Better, Column, Plot, PlotKind, Reported, Row, Series, Table},
};
use prestate_wire::Encoding;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

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
    /// Time that the study's rate of 2,300 requests a second is held for afterwards, by each
    /// server; zero leaves it out.
    pub hold: Duration,
}

/// One rate.
#[derive(Debug, Clone)]
pub struct Step {
    /// Requests a second that were due.
    pub rate: u64,
    /// Requests that were due.
    pub due: u64,
    /// For how long.
    pub time: Duration,
    /// Of them answered in time, with the reply that was looked at.
    pub answered: u64,
    /// The others, by kind; those that came too late, or could not be sent in time, are timeouts.
    pub failures: Tally,
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
    /// The study's rate, held.
    pub hold: Option<Step>,
}

/// All servers.
#[derive(Debug)]
pub struct LadderReport {
    /// Bytes of the reply.
    pub json_bytes: u64,
    /// One a server.
    pub climbs: Vec<Climb>,
}

/// Runs the workload.
///
/// # Errors
/// A server that does not start or answers something else ends the run.
pub fn ladder(launcher: &Launcher, steps: &LadderOptions) -> Result<LadderReport, ServeError> {
    let folder = std::env::temp_dir().join(format!("prestate-ladder-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(failed("make a folder for the result"))?;
    let report = in_folder(launcher, steps, &folder);
    let _ = fs::remove_dir_all(&folder);
    report
}

fn in_folder(
    launcher: &Launcher,
    options: &LadderOptions,
    folder: &Path,
) -> Result<LadderReport, ServeError> {
    let work = Work {
        launcher: launcher.clone(),
        call: block_call(),
        lane: ("lane-heavy", PathBuf::from(SMALL_TRANSACTIONS.to_string())),
        folder: folder.to_owned(),
    };
    let [json_bytes, ..] = write_bodies(&work, &child(launcher, work.lane.0, &work.lane.1)?)?;
    let servers: [Box<dyn Contestant>; 5] = [
        Box::new(OurLane),
        Box::new(Rival(RivalKind::Libdeflate(1))),
        Box::new(Rival(RivalKind::Libdeflate(6))),
        Box::new(Rival(RivalKind::Jsonrpsee)),
        Box::new(Rival(RivalKind::Raw)),
    ];
    let mut climbs = Vec::new();
    for contestant in servers {
        let Some(server) = contestant.start(&work)? else { continue };
        let name = contestant.name();
        let request = contestant.request(&server, &work, Encoding::Gzip);
        let body_bytes = ask(&server, &request, &name)?.len() as u64;
        let load = Load {
            addr: server.endpoint.addr(),
            request,
            connections: options.connections,
            time: options.time,
            body_bytes: Some(body_bytes),
        };
        Load { time: contestant.warm_up(), body_bytes: None, ..load.clone() }.run();
        // The lane's second reply is another than its first, see `Splice`.
        let load = Load { body_bytes: load.probe().ok(), ..load };
        let mut climb = Climb { name, body_bytes, steps: Vec::new(), hold: None };
        for rate in RATES {
            let step = run_step(&load, rate);
            let held = step.is_held();
            climb.steps.push(step);
            if !held {
                break;
            }
        }
        if !options.hold.is_zero() {
            climb.hold = Some(run_step(&Load { time: options.hold, ..load }, STUDY_RATE));
        }
        drop(server);
        climbs.push(climb);
    }
    Ok(LadderReport { json_bytes, climbs })
}

/// Requests that are due at this rate.
pub(crate) fn run_step(load: &Load, rate: u64) -> Step {
    let due = (rate as f64 * load.time.as_secs_f64()) as u64;
    let next = Arc::new(AtomicU64::new(0));
    // Late enough for all clients to be there.
    let start = Instant::now() + Duration::from_millis(100);
    let clients: Vec<_> = (0..load.connections.max(1))
        .map(|_| {
            let (next, load) = (next.clone(), load.clone());
            thread::spawn(move || client(&load, rate, due, &next, start))
        })
        .collect();
    let (mut times, mut failures) = (Vec::new(), Tally::default());
    for client in clients {
        let (seen, failed) = client.join().unwrap_or_default();
        times.extend(seen);
        failures.merge(&failed);
    }
    times.sort_unstable();
    Step { rate, due, time: load.time, answered: times.len() as u64, failures, times }
}

fn client(
    load: &Load,
    rate: u64,
    due: u64,
    next: &AtomicU64,
    start: Instant,
) -> (Vec<Duration>, Tally) {
    let (mut times, mut failures) = (Vec::new(), Tally::default());
    let mut connection = Connection::open(load.addr);
    loop {
        let index = next.fetch_add(1, Relaxed);
        if index >= due {
            return (times, failures);
        }
        let when = start + Duration::from_secs_f64(index as f64 / rate as f64);
        let now = Instant::now();
        if now > when + PATIENCE {
            // Its client has given up before it could be sent.
            failures.count(Failure::Timeout);
            continue;
        }
        thread::sleep(when.saturating_duration_since(now));
        let asked = match &mut connection {
            Ok(open) => open.ask(&load.request),
            Err(failure) => Err(*failure),
        };
        let broken = asked.as_ref().map_or(true, |reply| reply.last);
        match asked.and_then(|reply| load.good(&reply)) {
            Ok(_) if when.elapsed() <= PATIENCE => times.push(when.elapsed()),
            Ok(_) => failures.count(Failure::Timeout),
            Err(failure) => failures.count(failure),
        }
        if broken {
            connection = Connection::open(load.addr);
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

/// As the table calls it; a rate that was held is named with its time.
fn step_name(climb: &Climb, step: &Step) -> String {
    let held = climb.hold.as_ref().is_some_and(|hold| std::ptr::eq(hold, step));
    let time = if held { format!(" for {:.0} s", step.time.as_secs_f64()) } else { String::new() };
    format!("{}, {}/s{time}", climb.name, step.rate)
}

impl Reported for LadderReport {
    fn tables(&self) -> Vec<Table> {
        let mut columns =
            vec![Column::new("due", "1/s", None), Column::new("answered", "%", Better::More)];
        columns.extend(QUANTILES.map(|(name, _)| Column::new(name, "ms", Better::Less)));
        let rows = self.climbs.iter().flat_map(|climb| {
            climb.steps.iter().chain(&climb.hold).map(|step| {
                let mut cells = vec![vec![step.rate as f64], vec![step.success() * 100.0]];
                let times = QUANTILES.map(|(_, part)| step.quantile(part).as_secs_f64() * 1e3);
                cells.extend(times.map(|time| vec![time]));
                Row { name: step_name(climb, step), cells }
            })
        });
        vec![Table {
            name: "ladder".to_owned(),
            about: format!(
                "`eth_getBlockByNumber` replies of {} bytes in gzip at rising rates, until more than 1 % of the requests \
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
        let step = ours.and_then(|climb| {
            let study = |step: &&Step| step.rate == STUDY_RATE;
            climb.hold.as_ref().or_else(|| climb.steps.iter().find(study))
        });
        let bar = step.map(|step| Bar {
            what: format!(
                "replies of 30 KB in gzip, {STUDY_RATE}/s for {:.0} s, answered",
                step.time.as_secs_f64()
            ),
            figure: step.success() * 100.0,
            bar: 100.0,
            unit: "%".to_owned(),
            better: Better::More,
        });
        bar.into_iter().collect()
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
            for step in climb.steps.iter().chain(&climb.hold) {
                write!(f, "{:<30} {:>8} {:>9.2}%", climb.name, step.rate, step.success() * 100.0)?;
                for (_, part) in QUANTILES {
                    write!(f, " {:>9.2}", step.quantile(part).as_secs_f64() * 1e3)?;
                }
                if climb.hold.as_ref().is_some_and(|hold| std::ptr::eq(hold, step)) {
                    write!(f, "  for {:.0} s", step.time.as_secs_f64())?;
                }
                if !step.failures.is_empty() {
                    write!(f, "  {}", step.failures)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

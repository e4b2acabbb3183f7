//! Replies that nobody has asked for before: of a process that has just started, of one that runs,
//! and with no cache at all.

use super::{
    contestant::{Server, Work, ask, call, child},
    load::Load,
    workload::{ServeError, ServeOptions},
};
use crate::{
    report::{Better, Column, Row, Table},
    stats::millis,
};
use prestate_wire::Encoding;
use std::time::{Duration, Instant};

/// As long as a server needs to load what it loads at first use.
const SETTLING: Duration = Duration::from_millis(1500);

/// One way to serve, one entry a round.
#[derive(Debug, Default)]
pub struct FirstRow {
    /// Who.
    pub name: String,
    /// From starting the process until it listens, the block read.
    pub start: Vec<Duration>,
    /// From starting the process until it has answered for the block.
    pub cold: Vec<Duration>,
    /// The block's first reply of a process that runs.
    pub first: Vec<Duration>,
    /// Its second.
    pub second: Vec<Duration>,
    /// Replies without a cache, one client.
    pub miss: Vec<Duration>,
    /// CPU of those, in milliseconds each.
    pub miss_cpu_ms: Vec<f64>,
}

/// All of them.
#[derive(Debug)]
pub struct FirstReplies {
    /// What is asked for.
    pub about: String,
    /// Ours first.
    pub rows: Vec<FirstRow>,
}

/// The two that make the reply themselves: the lane, and reth's way.
const MAKERS: [(&str, &str, &str); 2] = [
    ("lane", "lane", "lane-uncached"),
    ("revm-inspectors + jsonrpsee + tower-http", "traced", "traced"),
];

pub(super) fn first_replies(
    options: &ServeOptions,
    work: &Work,
) -> Result<FirstReplies, ServeError> {
    let mut rows: Vec<_> = MAKERS
        .iter()
        .map(|(name, ..)| FirstRow { name: (*name).to_owned(), ..FirstRow::default() })
        .collect();
    for _ in 0..options.rounds {
        for ((name, kind, uncached), row) in MAKERS.iter().zip(&mut rows) {
            let request = |server: &Server| match *kind {
                "traced" => server.endpoint.post(&call("result", "[]"), Encoding::Gzip),
                _ => server.endpoint.post(&work.call, Encoding::Gzip),
            };
            let begun = Instant::now();
            let server = child(&options.launcher, kind, &options.block)?;
            row.start.push(begun.elapsed());
            ask(&server, &request(&server), name)?;
            row.cold.push(begun.elapsed());
            drop(server);
            let server = child(&options.launcher, kind, &options.block)?;
            std::thread::sleep(SETTLING);
            for times in [&mut row.first, &mut row.second] {
                let begun = Instant::now();
                ask(&server, &request(&server), name)?;
                times.push(begun.elapsed());
            }
            drop(server);
            let server = child(&options.launcher, uncached, &options.block)?;
            std::thread::sleep(SETTLING);
            let load = Load {
                addr: server.endpoint.addr(),
                request: request(&server),
                connections: 1,
                time: options.time,
                body_bytes: None,
            };
            let before = server.cpu();
            let seen = load.run();
            let spent = server.cpu().zip(before).map(|(after, before)| after - before);
            if seen.replies > 0 {
                row.miss.push(seen.times[seen.times.len() / 2]);
                let cpu_ms = spent.unwrap_or_default().as_secs_f64() * 1e3;
                row.miss_cpu_ms.push(cpu_ms / seen.replies as f64);
            }
        }
    }
    Ok(FirstReplies { about: format!("block {}, gzip", options.number), rows })
}

impl FirstReplies {
    pub(super) fn table(&self) -> Table {
        let ms = |name| Column::new(name, "ms", Better::Less);
        Table {
            name: "serve-first".to_owned(),
            about: format!(
                "Replies nobody has asked for before ({}), unpacked by the client: of a process \
                 that has just started, of one that runs, and of one without any cache. Reth's way \
                 keeps nothing.",
                self.about
            ),
            rows_are: "server".to_owned(),
            columns: vec![
                ms("start, block read"),
                ms("start to first reply"),
                ms("first reply of a running one"),
                ms("second"),
                ms("without a cache"),
                ms("CPU of that"),
            ],
            rows: self
                .rows
                .iter()
                .map(|row| Row {
                    name: row.name.clone(),
                    cells: vec![
                        millis(&row.start),
                        millis(&row.cold),
                        millis(&row.first),
                        millis(&row.second),
                        millis(&row.miss),
                        row.miss_cpu_ms.clone(),
                    ],
                })
                .collect(),
        }
    }
}

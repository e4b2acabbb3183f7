//! `prestate_getStorage` beside a batch of `eth_getStorageAt` of the same slots, at one server.

use crate::{
    outcome::Tally,
    report::{Bar, Better, Column, Reported, Row, Table, middle},
    resync::{Endpoint, EndpointUrl, Question, ResyncBenchError, Slot, own_chain},
};
use alloy_primitives::{Address, B256, U256};
use serde_json::json;
use std::{fmt, path::PathBuf, time::Duration};

/// The number of slots that the bar is about.
const BAR_SLOTS: usize = 1000;
/// First slot asked for: no contract's own.
const FIRST_SLOT: u64 = 1 << 40;
/// Who is asked, in alternation.
const CONTESTANTS: [Question; 2] = [Question::Storage, Question::Reads];

/// What to measure.
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// Where; a dev chain is started as `EXE dev` if left out.
    pub url: Option<EndpointUrl>,
    /// This program.
    pub exe: PathBuf,
    /// Whose slots.
    pub address: Address,
    /// Numbers of slots, ascending.
    pub slots: Vec<usize>,
    /// Rounds of each.
    pub rounds: usize,
    /// A reply that takes longer has failed.
    pub patience: Duration,
}

/// What a run found: milliseconds until values were in hand, by number of slots and contestant.
#[derive(Debug)]
pub struct StorageReport {
    url: EndpointUrl,
    slots: Vec<usize>,
    times: Vec<[Vec<f64>; 2]>,
    failures: [Tally; 2],
}

/// Runs the workload: every round asks for slots that nobody asked for before.
///
/// # Errors
/// [`ResyncBenchError`]; what fails once the run is under way is counted instead.
pub async fn storage(
    options: &StorageOptions,
    progress: impl Fn(),
) -> Result<StorageReport, ResyncBenchError> {
    let mut chain = None;
    let url = match &options.url {
        Some(url) => url.clone(),
        None => {
            let started = own_chain::start(&options.exe, &[]).map_err(ResyncBenchError::Start)?;
            chain.insert(started).1.clone()
        }
    };
    let endpoint = Endpoint::open(url.clone(), options.patience)?;
    let newest = endpoint.call("eth_blockNumber", json!([])).await;
    let newest: alloy_primitives::U64 = newest.map_err(|failure| ResyncBenchError::Unanswered {
        url: url.clone(),
        method: "eth_blockNumber",
        failure,
    })?;
    let mut report = StorageReport {
        url,
        slots: options.slots.clone(),
        times: vec![Default::default(); options.slots.len()],
        failures: Default::default(),
    };
    let mut next = FIRST_SLOT;
    for round in 0..options.rounds {
        for (at, count) in options.slots.iter().enumerate() {
            for turn in 0..CONTESTANTS.len() {
                let who = (round + turn) % CONTESTANTS.len();
                let slots = next..next + *count as u64;
                next = slots.end;
                let slots = slots.map(|slot| (options.address, U256::from(slot).into()));
                let slots = slots.collect::<Vec<Slot>>();
                match endpoint.values(CONTESTANTS[who], newest.to(), B256::ZERO, &slots).await {
                    Ok((timed, values)) if values.failed.is_empty() => {
                        report.times[at][who].push(timed.ready().as_secs_f64() * 1e3);
                    }
                    Ok((_, values)) => report.failures[who].merge(&values.failed),
                    Err(failure) => report.failures[who].count(failure),
                }
            }
            progress();
        }
    }
    Ok(report)
}

impl StorageReport {
    fn ratio(&self, at: usize) -> Option<f64> {
        let [ours, reads] = &self.times[at];
        Some(middle(reads)? / middle(ours)?)
    }
}

impl Reported for StorageReport {
    fn tables(&self) -> Vec<Table> {
        let rows = self.slots.iter().enumerate().map(|(at, slots)| {
            let mut cells = self.times[at].to_vec();
            cells.push(self.ratio(at).into_iter().collect());
            Row { name: slots.to_string(), cells }
        });
        let ms = |question: Question| Column::new(&question.to_string(), "ms", Better::Less);
        let mut columns = CONTESTANTS.map(ms).to_vec();
        columns.push(Column::new("batch over one call", "x", Better::More));
        vec![Table {
            name: "storage".to_owned(),
            about: format!(
                "Slots that nobody asked for before, read at {} in gzip over one connection, \
                 until values are in hand. Failed: {} of prestate_getStorage; {} of the items.",
                self.url, self.failures[0], self.failures[1]
            ),
            rows_are: "slots".to_owned(),
            columns,
            rows: rows.collect(),
        }]
    }

    fn bars(&self) -> Vec<Bar> {
        let at = self.slots.iter().position(|slots| *slots == BAR_SLOTS);
        let figure = at.and_then(|at| self.ratio(at));
        let bar = |figure| Bar {
            what: format!("getStorage of {BAR_SLOTS} slots over a batch of eth_getStorageAt"),
            figure,
            bar: 10.0,
            unit: "x".to_owned(),
            better: Better::More,
        };
        figure.map(bar).into_iter().collect()
    }
}

impl fmt::Display for StorageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables().iter().try_for_each(|table| writeln!(f, "{}", table.text()))
    }
}

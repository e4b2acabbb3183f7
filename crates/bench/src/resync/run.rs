use super::{
    endpoint::{Endpoint, EndpointUrl},
    exchange::{Coding, Timed},
    own_chain,
    question::{self, Question, Slot, Values},
    report::{Cell, ResyncReport},
};
use crate::outcome::Failure;
use alloy_primitives::{Address, B256, U256};
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Blocks behind the newest that are asked about: nodes without an archive keep the state of 128.
const WINDOW: u64 = 100;
/// A question that was only ever refused as not offered is not asked more often than this.
const GATED_TRIES: u64 = 3;
/// A new block is looked for this often.
const HEAD_POLL: Duration = Duration::from_millis(50);
/// No new block in this time ends a live run.
const HEAD_PATIENCE: Duration = Duration::from_secs(120);

/// Where to measure.
#[derive(Debug, Clone)]
pub enum Endpoints {
    /// Somebody's.
    Given {
        /// Asked for traces.
        trace: EndpointUrl,
        /// Asked for everything else; its own namespace as well, if it has one.
        storage: EndpointUrl,
    },
    /// A dev chain with traffic, started for the run as `EXE dev …`.
    Own {
        /// This program.
        exe: PathBuf,
        /// Its `--shape`.
        shape: Option<String>,
    },
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct ResyncOptions {
    /// Where.
    pub endpoints: Endpoints,
    /// Slots 0, 1, 2, … of this account; those that blocks change most often if left out.
    pub address: Option<Address>,
    /// Numbers of slots, ascending.
    pub slots: Vec<usize>,
    /// Samples of each number.
    pub samples: usize,
    /// Ask about each new block as it comes, instead of earlier ones.
    pub live: bool,
    /// Rest after the questions of a sample, for endpoints with a rate.
    pub pause: Duration,
    /// A reply that takes longer has failed.
    pub patience: Duration,
    /// Compute units of a point read and of a block's trace.
    pub units: (u64, u64),
    /// Of the bootstrap.
    pub seed: u64,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResyncBenchError {
    /// The chain of the run's own.
    #[error("starting a dev chain: {0}")]
    Start(io::Error),
    /// No client.
    #[error("{url}: {source}")]
    Client {
        /// For which endpoint.
        url: EndpointUrl,
        /// The system's certificates, most likely.
        source: io::Error,
    },
    /// What is needed before anything can be measured.
    #[error("{url} does not answer {method}: {failure}")]
    Unanswered {
        /// Which endpoint.
        url: EndpointUrl,
        /// What it was asked.
        method: &'static str,
        /// How it failed.
        failure: Failure,
    },
    /// Slots cannot be found without a trace.
    #[error("{url} gives no trace to find slots in ({failure}): name an account with --address")]
    Discover {
        /// Which endpoint.
        url: EndpointUrl,
        /// How it failed.
        failure: Failure,
    },
    /// Blocks without transactions say nothing.
    #[error("{url}: none of the newest {looked_at} blocks has a transaction")]
    NoTransactions {
        /// Which endpoint.
        url: EndpointUrl,
        /// How many.
        looked_at: u64,
    },
    /// A live run on a chain that stands still.
    #[error("{url}: no new block in {} s", HEAD_PATIENCE.as_secs())]
    NoNewBlock {
        /// Which endpoint.
        url: EndpointUrl,
    },
}

/// A block to ask about.
#[derive(Debug, Clone, Copy)]
struct Block {
    number: u64,
    parent: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    parent_hash: B256,
    transactions: Vec<serde::de::IgnoredAny>,
}

struct Run {
    trace: Endpoint,
    storage: Endpoint,
}

/// Runs the workload; `progress` is called after every sample.
///
/// # Errors
/// [`ResyncBenchError`]; what fails once the run is under way is counted instead.
pub async fn resync(
    options: &ResyncOptions,
    progress: impl Fn(),
) -> Result<ResyncReport, ResyncBenchError> {
    // Ended when dropped.
    let mut chain = None;
    let (trace, storage) = match &options.endpoints {
        Endpoints::Given { trace, storage } => (trace.clone(), storage.clone()),
        Endpoints::Own { exe, shape } => {
            let (process, url) = own_chain::start(exe, &own_chain::busy(shape.as_deref()))
                .map_err(ResyncBenchError::Start)?;
            chain = Some(process);
            (url.clone(), url)
        }
    };
    let run = Run {
        trace: Endpoint::open(trace, options.patience)?,
        storage: Endpoint::open(storage, options.patience)?,
    };
    if chain.is_some() {
        run.wait_for_block(own_chain::FIRST_BLOCK).await?;
    }
    let most = options.slots.last().copied().unwrap_or_default();
    let slots = match options.address {
        Some(address) => (0..most).map(|at| (address, U256::from(at).into())).collect(),
        None => run.discover(most).await?,
    };
    let mut cells: BTreeMap<(Question, usize), Cell> = BTreeMap::new();
    let mut disagreed = 0;
    let mut asked_about = 0;
    let mut newest = run.newest().await?;
    for sample in 0..options.samples {
        for (at, count) in options.slots.iter().enumerate() {
            let block = if options.live {
                newest = run.next_block(newest).await?;
                match run.header(newest).await {
                    Ok(block) => block,
                    Err(_) => Some(Block { number: newest, parent: B256::ZERO }),
                }
            } else {
                run.earlier(newest, &mut asked_about).await?
            };
            let Some(block) = block else { continue };
            let mut seen: Vec<Values> = Vec::new();
            // Whoever comes first finds the server's caches as they are: each in turn.
            let turn = (sample * options.slots.len() + at) % Question::ALL.len();
            let (before, after) = Question::ALL.split_at(turn);
            for question in after.iter().chain(before).copied() {
                if is_gated(&cells, question) {
                    continue;
                }
                let cell = cells.entry((question, at)).or_default();
                cell.asked += 1;
                match run.ask(question, block, &slots[..*count]).await {
                    Ok((timed, values)) => {
                        // What some items are missing from is no answer to the question.
                        if values.failed.is_empty() {
                            cell.clean.push(timed);
                        }
                        cell.failures.merge(&values.failed);
                        if matches!(question, Question::Reads | Question::Trace(Coding::Gzip)) {
                            seen.push(values);
                        }
                    }
                    Err(failure) => cell.failures.count(failure),
                }
            }
            disagreed += disagreement(&seen);
            progress();
            tokio::time::sleep(options.pause).await;
        }
    }
    let urls = (run.trace.url().clone(), run.storage.url().clone());
    Ok(ResyncReport::new(options, urls, cells, disagreed))
}

fn is_gated(cells: &BTreeMap<(Question, usize), Cell>, question: Question) -> bool {
    let mine = || cells.iter().filter(|((asked, _), _)| *asked == question).map(|(_, cell)| cell);
    mine().map(|cell| cell.failures.of(Failure::Gated)).sum::<u64>() >= GATED_TRIES
        && mine().all(|cell| cell.clean.is_empty())
}

/// Slots for which a trace and a read of the same block say different values.
fn disagreement(seen: &[Values]) -> u64 {
    let [first, second] = seen else { return 0 };
    let differs = |(slot, value): &(&Slot, &B256)| {
        !prestate_client::SYSTEM_CONTRACTS.contains(&slot.0)
            && second.values.get(*slot).is_some_and(|other| other != *value)
    };
    first.values.iter().filter(differs).count() as u64
}

impl Run {
    async fn ask(
        &self,
        question: Question,
        block: Block,
        slots: &[Slot],
    ) -> Result<(Timed, Values), Failure> {
        let endpoint = if question.is_trace() { &self.trace } else { &self.storage };
        endpoint.values(question, block.number, block.parent, slots).await
    }

    async fn newest(&self) -> Result<u64, ResyncBenchError> {
        const METHOD: &str = "eth_blockNumber";
        let number = self.storage.call::<alloy_primitives::U64>(METHOD, json!([])).await;
        number.map(|number| number.to()).map_err(|failure| self.unanswered(METHOD, failure))
    }

    fn unanswered(&self, method: &'static str, failure: Failure) -> ResyncBenchError {
        ResyncBenchError::Unanswered { url: self.storage.url().clone(), method, failure }
    }

    /// A block, if it has transactions.
    async fn header(&self, number: u64) -> Result<Option<Block>, Failure> {
        let params = json!([format!("0x{number:x}"), false]);
        let header: Option<Header> = self.storage.call("eth_getBlockByNumber", params).await?;
        Ok(header
            .filter(|header| !header.transactions.is_empty())
            .map(|header| Block { number, parent: header.parent_hash }))
    }

    /// The next block with transactions, going back from the newest and round again.
    async fn earlier(
        &self,
        newest: u64,
        asked_about: &mut u64,
    ) -> Result<Option<Block>, ResyncBenchError> {
        let window = WINDOW.min(newest);
        for _ in 0..window {
            let number = newest - *asked_about % window;
            *asked_about += 1;
            match self.header(number).await {
                Ok(Some(block)) => return Ok(Some(block)),
                Ok(None) => {}
                // Too much asked for: the sample is left out, and the pause helps.
                Err(Failure::RateLimited) => return Ok(None),
                Err(failure) => return Err(self.unanswered("eth_getBlockByNumber", failure)),
            }
        }
        let url = self.storage.url().clone();
        Err(ResyncBenchError::NoTransactions { url, looked_at: window })
    }

    async fn next_block(&self, after: u64) -> Result<u64, ResyncBenchError> {
        let started = Instant::now();
        loop {
            match self.newest().await {
                Ok(newest) if newest > after => return Ok(newest),
                Ok(_) => {}
                Err(error) if started.elapsed() > HEAD_PATIENCE => return Err(error),
                Err(_) => {}
            }
            if started.elapsed() > HEAD_PATIENCE {
                return Err(ResyncBenchError::NoNewBlock { url: self.storage.url().clone() });
            }
            tokio::time::sleep(HEAD_POLL).await;
        }
    }

    async fn wait_for_block(&self, number: u64) -> Result<(), ResyncBenchError> {
        let mut newest = self.newest().await?;
        while newest < number {
            newest = self.next_block(newest).await?;
        }
        Ok(())
    }

    /// The slots that blocks change most often, most often first; filled up with slots that the
    /// busiest account may or may not have.
    async fn discover(&self, wanted: usize) -> Result<Vec<Slot>, ResyncBenchError> {
        let newest = self.newest().await?;
        let mut changes: HashMap<Slot, usize> = HashMap::new();
        let mut asked_about = 0;
        for _ in 0..WINDOW.min(newest) {
            if changes.len() >= wanted && asked_about >= 8 {
                break;
            }
            let Some(block) = self.earlier(newest, &mut asked_about).await? else { break };
            let asked = Question::Trace(Coding::Gzip);
            let body = asked.body(block.number, block.parent, &[]);
            let slots = match self.trace.ask(&body, asked.coding()).await {
                Ok(exchange) => exchange.read(question::slots_of_trace),
                Err(failure) => Err(failure),
            };
            match slots {
                Ok((_, slots)) => {
                    slots.into_iter().for_each(|slot| *changes.entry(slot).or_default() += 1);
                }
                Err(failure) if changes.is_empty() => {
                    let url = self.trace.url().clone();
                    return Err(ResyncBenchError::Discover { url, failure });
                }
                Err(_) => break,
            }
            if asked_about >= WINDOW {
                break;
            }
        }
        let mut slots: Vec<_> = changes.into_iter().collect();
        slots.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut slots: Vec<_> = slots.into_iter().map(|(slot, _)| slot).take(wanted).collect();
        let busiest = slots.first().map(|(address, _)| *address).unwrap_or_default();
        let more = (0..wanted).map(|at| (busiest, B256::from(U256::from(at))));
        let more: Vec<_> = more.filter(|slot| !slots.contains(slot)).collect();
        slots.extend(more);
        slots.truncate(wanted);
        Ok(slots)
    }
}

//! Random chains, built by Geth and replayed by prestate: every answer compared.

use crate::{
    prestate::Prestate,
    record,
    shrink::shrink,
    system::{System, asked, difference},
    truth::{self, Fold, Met, Told},
};
use alloy_primitives::{Address, Bytes};
use prestate_tests::{
    generate::{Chain, Fork, World},
    geth::{self, Case, Depth, Request, block_requests, call_requests},
};
use serde_json::{Value, value::RawValue};
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt,
    path::Path,
    time::{Duration, Instant},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How much is run. The defaults make over 2,000 transactions.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// First seed (`DIFF_SEED`).
    seed: u64,
    /// Chains for each fork (`DIFF_CHAINS`).
    chains: u64,
    /// Blocks of a chain (`DIFF_BLOCKS`).
    blocks: usize,
    /// Transactions of a block, about (`DIFF_TXS`).
    transactions: usize,
    /// Differences after which a chain is given up (`DIFF_GIVE_UP`).
    give_up: usize,
    /// See [`SHRINK`].
    shrink: Duration,
}

impl Size {
    fn from_env() -> Self {
        let number = |name: &str, or: u64| {
            env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
        };
        Self {
            seed: number("DIFF_SEED", 1),
            chains: number("DIFF_CHAINS", 1),
            blocks: number("DIFF_BLOCKS", 10) as usize,
            transactions: number("DIFF_TXS", 48) as usize,
            give_up: number("DIFF_GIVE_UP", 10) as usize,
            shrink: Duration::from_secs(number("DIFF_SHRINK", SHRINK.as_secs())),
        }
    }
}

/// Calls traced on each block.
const CALLS: u64 = 4;
/// Time for making one failing chain smaller (`DIFF_SHRINK` seconds).
const SHRINK: Duration = Duration::from_secs(60);

/// What was done, printed at the end.
#[derive(Debug, Default)]
struct Tally {
    forks: Vec<Fork>,
    chains: usize,
    blocks: usize,
    transactions: usize,
    /// Answers compared as bytes, exact mode.
    exact: usize,
    /// Transaction diffs compared in the default mode, artefacts taken out.
    truthful: usize,
    /// Accounts whose folded diffs were held against the state.
    accounts: usize,
    met: Met,
    differences: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forks: Vec<_> = self.forks.iter().map(|fork| fork.name()).collect();
        write!(
            f,
            "{} fork sets ({}), {} chains, {} blocks, {} transactions: {} answers compared as bytes in exact mode, \
             {} transaction diffs in the default mode, {} accounts against the state, {} differences \
             (artefacts met: {} absent accounts, {} destructions undone, {} occupants, {} unseen creations)",
            forks.len(),
            forks.join(", "),
            self.chains,
            self.blocks,
            self.transactions,
            self.exact,
            self.truthful,
            self.accounts,
            self.differences,
            self.met.absent,
            self.met.undone,
            self.met.occupants,
            self.met.unseen
        )
    }
}

/// A random chain on a running Geth.
struct Built {
    chain: Chain,
    /// RLP of blocks 1 to the head.
    blocks: Vec<Bytes>,
    /// Whom calls go to.
    callees: Vec<Address>,
    transactions: usize,
}

/// A question that was answered differently.
#[derive(Debug, Clone)]
struct Found {
    request: Request,
    /// Both answers, around where they part.
    what: String,
}

impl Built {
    fn new(binary: &Path, world: &World) -> Outcome<Self> {
        let mut chain = Chain::start(binary, &world.genesis(), World::keys())?;
        let mut transactions = 0;
        for block in &world.blocks {
            transactions += chain.extend(block)?;
        }
        let blocks = chain.raw_blocks()?;
        Ok(Self { chain, blocks, callees: world.callees.clone(), transactions })
    }

    fn prestate(&self) -> Outcome<Prestate> {
        Prestate::load(self.chain.genesis(), &self.blocks)
    }

    /// All questions about all blocks. Step logs are asked for in every eighth.
    fn requests(&self) -> Outcome<Vec<Request>> {
        let mut requests = Vec::new();
        for (number, rlp) in (1..).zip(&self.blocks) {
            let (hash, transactions) = self.chain.hashes(number)?;
            let depth = if number % 8 == 1 { Depth::Full } else { Depth::Wide };
            let mut all = block_requests(number, hash, rlp, &transactions, depth);
            for choice in number * CALLS..(number + 1) * CALLS {
                let from = World::keys().address(choice as usize);
                let to = self.callees[choice as usize % self.callees.len()];
                all.extend(call_requests(number, from, to, transactions.len(), choice));
            }
            requests
                .extend(all.into_iter().filter(|request| asked(&request.method, &request.params)));
        }
        Ok(requests)
    }

    fn compare(&self, ours: &dyn System, request: &Request) -> Outcome<Option<Found>> {
        let geth = self.chain.geth().call(&request.method, &request.params)?;
        let ours = ours.call(&request.method, &request.params);
        Ok(difference(&geth, &ours).map(|what| Found { request: request.clone(), what }))
    }

    fn results(&self, number: u64, options: &str) -> Outcome<Vec<Value>> {
        let params = format!("[\"{number:#x}\",{options}]");
        let text = self.chain.geth().expect("debug_traceBlockByNumber", &params)?;
        results(&text)
    }

    /// The default mode of one block: each transaction against Geth without its artefacts, then
    /// all of them together against the state after the block.
    fn compare_truthful(
        &self,
        ours: &dyn System,
        number: u64,
        tally: &mut Tally,
    ) -> Outcome<Vec<Found>> {
        const DIFF: &str = "{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"diffMode\":true}}";
        const ALL: &str =
            "{\"tracer\":\"prestateTracer\",\"tracerConfig\":{\"includeEmpty\":true}}";
        let params = format!("[\"{number:#x}\",{DIFF}]");
        let request = Request::new("debug_traceBlockByNumber", params.clone());
        let found = |what: String| Found { request: request.clone(), what };
        let text = match ours.call("debug_traceBlockByNumber", &params) {
            Ok(bytes) => String::from_utf8(bytes)?,
            Err(error) => return Ok(vec![found(format!("default mode: {error:?}"))]),
        };
        let ours = results(&text)?;
        let (diffs, all, calls) = (
            self.results(number, DIFF)?,
            self.results(number, ALL)?,
            self.results(number, "{\"tracer\":\"flatCallTracer\"}")?,
        );
        let mut differences = Vec::new();
        let mut fold = Fold::default();
        for (index, ((diff, looked_up), (calls, ours))) in
            diffs.iter().zip(&all).zip(calls.iter().zip(&ours)).enumerate()
        {
            tally.truthful += 1;
            fold.add(ours);
            let told = Told { diff, looked_up, calls };
            tally.met.add(&told);
            if let Some(what) = truth::difference(&told, ours) {
                differences.push(found(format!("default mode, transaction {index}:\n{what}")));
            }
        }
        // What a block does outside its transactions is not in their diffs.
        let outside = self.outside(number)?;
        for (address, slots) in fold.accounts().filter(|(address, _)| !outside.contains(*address)) {
            tally.accounts += 1;
            let params = serde_json::json!([address, slots, format!("{number:#x}")]).to_string();
            let proof = self.chain.geth().expect("eth_getProof", &params)?;
            if let Err(what) = fold.check(address, &serde_json::from_str(&proof)?) {
                differences.push(found(format!("default mode against the state:\n{what}")));
            }
        }
        Ok(differences)
    }

    /// Accounts that withdrawals and system calls change.
    fn outside(&self, number: u64) -> Outcome<Vec<String>> {
        let text = self
            .chain
            .geth()
            .expect("eth_getBlockByNumber", &format!("[\"{number:#x}\",false]"))?;
        let block: Value = serde_json::from_str(&text)?;
        let mut outside: Vec<_> = block["withdrawals"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|withdrawal| withdrawal["address"].as_str().map(str::to_owned))
            .collect();
        outside.extend(SYSTEM.map(|address| format!("{address:#x}")));
        Ok(outside)
    }
}

/// Contracts that the block itself calls.
const SYSTEM: [Address; 4] = [
    alloy_eips::eip4788::BEACON_ROOTS_ADDRESS,
    alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS,
    alloy_eips::eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    alloy_eips::eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
];

fn results(text: &str) -> Outcome<Vec<Value>> {
    let entries: Vec<BTreeMap<String, Value>> = serde_json::from_str(text)?;
    Ok(entries.into_iter().filter_map(|mut entry| entry.remove("result")).collect())
}

/// A difference without what changes when the chain does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Exact mode: method and options.
    Exact(String, String),
    /// The default mode.
    Truthful,
}

impl Kind {
    fn of(request: &Request) -> Self {
        let options = request.params.split_once(",{").map_or("", |(_, options)| options);
        Self::Exact(request.method.clone(), options.to_owned())
    }
}

/// The first difference of this kind on the chain of a world.
fn again(binary: &Path, world: &World, kind: &Kind) -> Outcome<Option<(Built, Found)>> {
    let built = Built::new(binary, world)?;
    let ours = built.prestate()?;
    let mut first = None;
    if *kind == Kind::Truthful {
        for number in 1..=built.blocks.len() as u64 {
            let found = built.compare_truthful(&ours.truthful(), number, &mut Tally::default())?;
            first = first.or_else(|| found.into_iter().next());
        }
    } else {
        let requests = built.requests()?;
        for request in requests.iter().filter(|request| Kind::of(request) == *kind) {
            first = first.or(built.compare(&ours.exact(), request)?);
        }
    }
    Ok(first.map(|found| (built, found)))
}

/// Shrinks a chain on which an answer differs and writes it down with Geth's answer.
fn keep(binary: &Path, name: &str, world: World, wanted: &Kind, patience: Duration) -> Outcome<()> {
    let small =
        shrink(world, patience, |world| matches!(again(binary, world, wanted), Ok(Some(_))));
    let Some((built, found)) = again(binary, &small, wanted)? else {
        return Err("the difference did not show again".into());
    };
    let case = Case {
        name: name.to_owned(),
        about: "Found by the random suite and shrunk".to_owned(),
        geth: record::version(&built.chain)?,
        genesis: RawValue::from_string(built.chain.genesis().to_owned())?,
        requests: record::ask(&built.chain, std::slice::from_ref(&found.request))?,
        blocks: built.blocks,
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.json"));
    case.write(&path)?;
    println!("{name}, shrunk: {}\n{}", found.request.method, found.what);
    println!("self-contained case (genesis, blocks, request, Geth's answer): {}", path.display());
    let text = std::fs::read_to_string(&path)?;
    if text.len() < 20_000 {
        println!("{text}");
    }
    Ok(())
}

fn run_chain(binary: &Path, seed: u64, fork: Fork, size: Size, tally: &mut Tally) -> Outcome<()> {
    let world = World::random(seed, fork, size.blocks, size.transactions);
    let built = Built::new(binary, &world)?;
    tally.chains += 1;
    tally.blocks += built.blocks.len();
    tally.transactions += built.transactions;
    let ours = built.prestate()?;
    let name = format!("{fork}-{seed}");
    let mut differences = Vec::new();
    for request in built.requests()? {
        if request.method == "debug_traceBlock" && request.params.len() > 4_000_000 {
            continue;
        }
        tally.exact += 1;
        differences.extend(built.compare(&ours.exact(), &request)?);
        // The same by the option of a single call, in a server that tells the truth otherwise.
        if request.method == "debug_traceBlockByNumber" && request.params.contains("\"diffMode\"") {
            let asked = request.exact();
            let one = ours.exact().call(&request.method, &request.params);
            let other = ours.truthful().call(&asked.method, &asked.params);
            if one != other && !request.params.contains("muxTracer") {
                let what = "`exact: true` and `--geth-exact` answer differently".to_owned();
                differences.push(Found { request: asked, what });
            }
        }
        if differences.len() >= size.give_up {
            break;
        }
    }
    let exact = differences.len();
    for number in 1..=built.blocks.len() as u64 {
        if differences.len() >= exact + size.give_up {
            break;
        }
        differences.extend(built.compare_truthful(&ours.truthful(), number, tally)?);
    }
    tally.differences += differences.len();
    for found in &differences {
        let params: String = found.request.params.chars().rev().take(150).collect();
        let params: String = params.chars().rev().collect();
        println!("{name}: {} …{params}\n{}\n", found.request.method, found.what);
    }
    match (exact, differences.first()) {
        (_, None) => {}
        (0, Some(_)) => keep(binary, &name, world, &Kind::Truthful, size.shrink)?,
        (_, Some(first)) => keep(binary, &name, world, &Kind::of(&first.request), size.shrink)?,
    }
    Ok(())
}

/// Every answer of prestate equals Geth's.
///
/// `GETH` or `geth` on `PATH`; size by `DIFF_SEED`, `DIFF_CHAINS`, `DIFF_BLOCKS`, `DIFF_TXS`.
#[test]
fn random_chains_are_answered_as_geth_answers() -> Outcome<()> {
    let binary = match geth::locate() {
        Ok(binary) => binary,
        // Who names a Geth wants it used.
        Err(why) if env::var_os("GETH").is_some() => return Err(why.into()),
        Err(why) => {
            println!("SKIPPED, nothing was compared: {why}");
            return Ok(());
        }
    };
    let size = Size::from_env();
    let begin = Instant::now();
    let mut tally = Tally::default();
    for fork in Fork::ALL {
        tally.forks.push(fork);
        for chain in 0..size.chains {
            // Forks get chains of their own, not the same programs under other rules.
            let seed = (size.seed + chain) * 100 + fork as u64;
            run_chain(&binary, seed, fork, size, &mut tally)
                .map_err(|error| format!("{fork}, seed {seed}: {error}"))?;
        }
    }
    println!("{tally}; {:.0} s", begin.elapsed().as_secs_f64());
    assert_eq!(tally.differences, 0, "{tally}");
    assert!(tally.transactions > 0 && tally.exact > 0);
    Ok(())
}

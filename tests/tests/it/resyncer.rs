//! The resync client against the dev chain with traffic and reorgs, over sockets: after every block
//! every watched slot is held against the chain's state, read in-process.
//!
//! `PRESTATE_SOAK_BLOCKS` sets the length of a run (default 16 blocks).

use alloy_primitives::{Address, B256};
use prestate_client::{
    DiffEvent, DiffOptions, DiffStream, DiffStreamConfig, Objective, PrestateApi, Refusal,
    Resyncer, ResyncerConfig, SYSTEM_CONTRACTS, Source, StartAt, StreamedDiff, connect_http,
};
use prestate_host::Host;
use prestate_host_embedded::dev::{
    DevChain, DevConfig, Mining, TrafficConfig, TrafficShape, dev_module,
};
use prestate_lane::{Lane, LaneConfig, Running};
use prestate_pipeline::{Pipeline, PipelineConfig, PipelineHandle};
use prestate_rpc::{Joined, Modules, Rpc, RpcConfig, Service, Sources};
use prestate_types::BlockRef;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

const DEFAULT_BLOCKS: u64 = 16;

fn blocks() -> u64 {
    let given = std::env::var("PRESTATE_SOAK_BLOCKS").ok();
    given.map_or(DEFAULT_BLOCKS, |text| text.parse().expect("PRESTATE_SOAK_BLOCKS is a number"))
}

/// A dev chain with traffic, served whole and as a plain node.
struct Dev {
    chain: Arc<DevChain>,
    pipeline: PipelineHandle,
    whole: Running,
    /// Without `debug_*` and `prestate_*`.
    plain: Running,
}

impl Dev {
    async fn start(seed: u64) -> Self {
        let config = DevConfig { mining: Mining::OnDemand, ..DevConfig::default() };
        let chain = Arc::new(DevChain::open(config).expect("a dev chain"));
        let traffic = TrafficConfig { tps: 300.0, seed, shape: TrafficShape::Steady };
        chain.start_traffic(traffic).expect("traffic");
        let host: Arc<dyn Host> = chain.clone();
        let pipeline =
            Pipeline::start(host.clone(), None, PipelineConfig::default()).expect("a pipeline");
        let rpc = Rpc::new(Sources::following(host, pipeline.clone()), RpcConfig::default());
        let methods = Modules::new(dev_module(chain.clone()).expect("the dev chain's methods"));
        let methods: Arc<dyn Service> = Arc::new(methods);
        let service = Joined::new(Arc::new(rpc), []).preferring([methods]);
        let service = Arc::new(service);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let whole = LaneConfig { addr: any, ..LaneConfig::default() };
        let api = Some(vec!["eth".to_owned(), "net".to_owned()]);
        let plain = LaneConfig { addr: any, api, ..LaneConfig::default() };
        Self {
            whole: Lane::bind(whole, service.clone()).await.expect("a free port"),
            plain: Lane::bind(plain, service).await.expect("a free port"),
            chain,
            pipeline,
        }
    }

    /// Slots that the traffic touches, and some that nothing does.
    async fn slots(&self) -> BTreeMap<Address, Vec<B256>> {
        let provider = connect_http(url("http", self.whole.local_addr())).expect("a client");
        let mut slots: BTreeMap<Address, Vec<B256>> = BTreeMap::new();
        let head = self.chain.head().expect("a head").number;
        for number in 1..=head {
            let asked =
                provider.prestate_get_block_diff(number.into(), DiffOptions::default()).await;
            let diff = asked.expect("every block has a diff");
            assert_eq!(diff.block.number, number);
            for (address, account) in diff.post {
                let touched = account.into_iter().flat_map(|account| account.storage.into_keys());
                slots.entry(address).or_default().extend(touched);
            }
        }
        // EIP-2935 writes one slot a block.
        slots.entry(SYSTEM_CONTRACTS[1]).or_default().push(slot(head + 7));
        slots.entry(Address::repeat_byte(0xfe)).or_default().push(slot(1));
        slots
    }

    /// The next block, or another branch.
    fn move_on(&self, rng: &mut StdRng) -> BlockRef {
        if rng.random_bool(0.15) {
            self.chain.reorg(rng.random_range(1..=8)).expect("not too deep");
        } else {
            let blocks = if rng.random_bool(0.1) { rng.random_range(2..12) } else { 1 };
            self.chain.mine(blocks).expect("blocks");
        }
        self.chain.head().expect("a head")
    }

    async fn stop(self) {
        self.whole.shutdown(Duration::ZERO).await;
        self.plain.shutdown(Duration::ZERO).await;
        self.pipeline.shutdown();
    }
}

fn slot(number: u64) -> B256 {
    alloy_primitives::U256::from(number).into()
}

fn url<U: std::str::FromStr>(scheme: &str, addr: impl std::fmt::Display) -> U
where
    U::Err: std::fmt::Debug,
{
    format!("{scheme}://{addr}").parse().expect("a URL")
}

/// Forwards to a server and breaks one connection in so many after a moment.
async fn flaky(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut connections = 0_u64;
        loop {
            let Ok((mut from, _)) = listener.accept().await else { return };
            connections += 1;
            let life = Duration::from_millis(5 + 40 * (connections % 7));
            tokio::spawn(async move {
                let Ok(mut to) = TcpStream::connect(to).await else { return };
                let _ = tokio::time::timeout(life, copy_bidirectional(&mut from, &mut to)).await;
            });
        }
    });
    addr
}

fn config(objective: Objective, sources: &[Source]) -> ResyncerConfig {
    ResyncerConfig {
        objective,
        sources: sources.to_vec(),
        pause: Duration::from_millis(1),
        max_pause: Duration::from_millis(20),
        ..ResyncerConfig::default()
    }
}

/// Follows the chain and counts what is wrong after each step.
async fn soak(
    dev: &Dev,
    name: &str,
    server: SocketAddr,
    slots: &BTreeMap<Address, Vec<B256>>,
    config: ResyncerConfig,
) -> usize {
    let objective = config.objective;
    let through = flaky(server).await;
    let provider = connect_http(url("http", through)).expect("a client");
    let mut resyncer: Resyncer<_> = Resyncer::new(provider, config);
    for (address, slots) in slots {
        resyncer.watch(*address, slots.iter().copied()).expect("not too many");
    }
    let mut rng = StdRng::seed_from_u64(name.len() as u64);
    let started = dev.chain.head().expect("a head").number;
    let (mut wrong, mut compared, mut retried, mut changes, mut reorgs) = (0, 0, 0, 0, 0);
    let mut used: BTreeMap<Source, u64> = BTreeMap::new();
    while dev.chain.head().expect("a head").number < started + blocks() {
        let head = dev.move_on(&mut rng);
        loop {
            match resyncer.sync().await {
                Ok(update) => {
                    changes += update.changes.len();
                    reorgs += usize::from(update.reorg.is_some());
                    for source in update.sources {
                        *used.entry(source).or_default() += 1;
                    }
                    if update.head == head {
                        break;
                    }
                }
                Err(error) => {
                    retried += 1;
                    assert!(error.is_transient() && retried < 20 * blocks(), "{error}");
                }
            }
        }
        let state = dev.chain.state_after(head.hash).expect("the head's state");
        for (key, value) in resyncer.values() {
            compared += 1;
            let there = state.storage(key.address, key.slot).expect("a slot");
            wrong += usize::from(value != Some(there));
        }
    }
    let explained = resyncer.explain();
    println!(
        "{name:12} {objective:14} {:>5} resyncs {reorgs:>4} reorgs {compared:>8} compared {changes:>6} \
         changes {wrong:>3} wrong {retried:>3} retried {:>7} CU {used:?}",
        explained.resyncs,
        explained.spent.units(),
    );
    assert_eq!(explained.doubted_mismatch, 0, "the traces fit what was known: {explained}");
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_stay_exact_on_the_dev_chain() {
    let dev = Dev::start(1).await;
    dev.chain.mine(10).expect("blocks");
    tokio::time::sleep(Duration::from_millis(200)).await;
    dev.chain.mine(10).expect("blocks");
    let slots = dev.slots().await;
    let watched: usize = slots.values().map(Vec::len).sum();
    assert!(watched > 50, "{watched} slots");
    let (whole, plain) = (dev.whole.local_addr(), dev.plain.local_addr());
    let mut wrong = 0;
    for objective in [Objective::Latency, Objective::ComputeUnits, Objective::Completeness] {
        let of = |sources: &[Source]| config(objective, sources);
        wrong += soak(&dev, "all", whole, &slots, of(&Source::ALL)).await;
        wrong += soak(&dev, "plain node", plain, &slots, of(&Source::ALL)).await;
        wrong +=
            soak(&dev, "trace, reads", whole, &slots, of(&[Source::Trace, Source::Reads])).await;
    }
    for source in Source::ALL {
        let alone = config(Objective::Latency, &[source]);
        wrong += soak(&dev, source.name(), whole, &slots, alone).await;
    }
    assert_eq!(wrong, 0);
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_diffs_mirrors_the_dev_chain() {
    let dev = Dev::start(2).await;
    // Deeper than any reorg below: nobody keeps what was before the pipeline.
    dev.chain.mine(12).expect("blocks");
    let mut rng = StdRng::seed_from_u64(2);
    for scheme in ["ws", "http"] {
        let start = dev.chain.head().expect("a head");
        let through = flaky(dev.whole.local_addr()).await;
        let config = DiffStreamConfig {
            start: StartAt::Block(start),
            poll: Duration::from_millis(1),
            pause: Duration::from_millis(1),
            max_pause: Duration::from_millis(20),
            ..DiffStreamConfig::default()
        };
        let mut stream = DiffStream::new(url(scheme, through), config).expect("a stream");
        let mut mirror: BTreeMap<(Address, B256), B256> = BTreeMap::new();
        let mut interrupted = 0;
        for _ in 0..blocks() {
            let head = dev.move_on(&mut rng);
            while stream.position() != Some(head) {
                let event = stream.next().await.expect("nothing is refused");
                let side = match event {
                    DiffEvent::Commit(block) => match block.diff {
                        StreamedDiff::Block { post, .. } => post,
                        other => panic!("{other:?}"),
                    },
                    DiffEvent::Revert(block) => match block.diff {
                        StreamedDiff::Block { pre, .. } => pre,
                        other => panic!("{other:?}"),
                    },
                    DiffEvent::Range(range) => range.post,
                    DiffEvent::Interrupted { .. } => {
                        interrupted += 1;
                        continue;
                    }
                    _ => continue,
                };
                for (address, account) in side {
                    let slots = account.into_iter().flat_map(|account| account.storage);
                    mirror.extend(slots.map(|(slot, value)| ((address, slot), value)));
                }
            }
            let state = dev.chain.state_after(head.hash).expect("the head's state");
            for ((address, slot), value) in &mirror {
                let there = state.storage(*address, *slot).expect("a slot");
                assert_eq!(there, *value, "{scheme}: {address} {slot} at {head}");
            }
        }
        println!("{scheme}: {} slots mirrored, {interrupted} interruptions", mirror.len());
        assert!(mirror.len() > 10);
    }
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_typed() {
    let dev = Dev::start(3).await;
    dev.chain.mine(3).expect("blocks");
    let provider = connect_http(url("http", dev.whole.local_addr())).expect("a client");
    let slots = |count: u64| [(Address::ZERO, (0..count).map(slot).collect())].into();
    let at_most = provider.prestate_get_storage(1.into(), slots(10_000)).await.expect("allowed");
    assert_eq!(at_most.storage[&Address::ZERO].len(), 10_000);
    let error = provider.prestate_get_storage(1.into(), slots(10_001)).await.expect_err("one more");
    assert!(
        matches!(Refusal::of(&error), Some(Refusal::Limit { value: 10_000, given: 10_001, .. })),
        "{error}"
    );
    let head = dev.chain.head().expect("a head");
    let from = |block: BlockRef| prestate_client::ResyncRequest {
        from: block.into(),
        watch: BTreeMap::new(),
        cold: BTreeMap::new(),
        to: None,
    };
    let future = BlockRef::new(head.number + 100, B256::repeat_byte(1));
    let error = provider.prestate_resync(from(future)).await.expect_err("of the future");
    assert!(matches!(Refusal::of(&error), Some(Refusal::Future { head: Some(_), .. })), "{error}");
    let elsewhere = BlockRef::new(2, B256::repeat_byte(1));
    let error = provider.prestate_resync(from(elsewhere)).await.expect_err("of another chain");
    assert!(matches!(Refusal::of(&error), Some(Refusal::UnknownBlock { .. })), "{error}");
    let range =
        provider.prestate_get_diff_range(1.into(), head.hash.into(), DiffOptions::default());
    assert_eq!(BlockRef::from(range.await.expect("a range").to), head);
    let absent = [(Address::repeat_byte(0xfe), Default::default())].into();
    let accounts = provider.prestate_get_accounts(head.hash.into(), absent).await;
    assert_eq!(accounts.expect("read").accounts[&Address::repeat_byte(0xfe)], None);
    let status = provider.prestate_status().await.expect("a status");
    assert_eq!(status["chainId"], "0x7a69");
    dev.stop().await;
}

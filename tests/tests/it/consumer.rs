//! What consumers ask for, beside a pipeline with its archive, beside neither, and from a copy of
//! the archive alone: the same bytes; and against the chain's states, read one by one.

use crate::chain::extend;
use alloy_primitives::{Address, B256};
use prestate_host::Host;
use prestate_host_embedded::MemoryChain;
use prestate_pipeline::{Pipeline, PipelineConfig, PipelineHandle};
use prestate_rpc::{ArchiveHost, Call, Reply, Rpc, RpcConfig, Service, Sources};
use prestate_rpc_api::{
    AccountsAt, DiffMessage, DiffRange, DiffSide, Resync, RpcError, StorageAt, StreamedBlock,
    StreamedDiff,
};
use prestate_store::{Archive, ArchiveOptions, ArchiveReader, ChainId};
use prestate_tests::generate::{BlockRecipe, Fork, Recipe, Shape, World};
use prestate_types::BlockRef;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

const SECONDS: Duration = Duration::from_secs(60);

/// A chain, what follows it, and every block it ever had.
struct Scene {
    chain: Arc<MemoryChain>,
    pipeline: PipelineHandle,
    archive: ArchiveReader,
    /// By replay alone.
    bare: Rpc,
    following: Rpc,
    blocks: Vec<BlockRef>,
    rng: StdRng,
}

impl Scene {
    /// Some blocks, many of them replaced.
    fn play(seed: u64, fork: Fork, blocks: usize, folder: &Path) -> Self {
        let world = World::random(seed, fork, blocks, 5);
        let genesis = serde_json::from_str(&world.genesis().json()).expect("a genesis file");
        let chain = Arc::new(MemoryChain::from_genesis(&genesis));
        let id = ChainId {
            chain_id: chain.spec().chain_id(),
            genesis_hash: chain.head().expect("genesis").hash,
        };
        let (writer, archive) =
            Archive::create(folder, id, &ArchiveOptions::default()).expect("a new archive");
        let host: Arc<dyn Host> = chain.clone();
        let config = PipelineConfig { recent_blocks: 3, ..PipelineConfig::default() };
        let pipeline =
            Pipeline::start(host.clone(), Some((writer, archive.clone())), config).expect("starts");
        let mut scene = Self {
            bare: Rpc::new(chain.clone(), RpcConfig::default()),
            following: Rpc::new(Sources::following(host, pipeline.clone()), RpcConfig::default()),
            blocks: vec![chain.head().expect("genesis")],
            chain,
            pipeline,
            archive,
            rng: StdRng::seed_from_u64(seed),
        };
        let keys = World::keys();
        for recipe in &world.blocks {
            if scene.rng.random_bool(0.25) {
                scene.back();
            }
            let block = extend(&scene.chain, &keys, &settled(recipe));
            scene.blocks.push(BlockRef::new(block.number, block.hash()));
            scene.wait();
        }
        scene
    }

    /// Takes some blocks back.
    fn back(&mut self) {
        let depth = self.rng.random_range(1..=4);
        let head = self.head();
        let number = head.number.saturating_sub(depth);
        let to = self.chain.canonical_hash(number).expect("no error").expect("known");
        self.chain.set_head(to).expect("a block of the chain");
    }

    fn head(&self) -> BlockRef {
        self.chain.head().expect("a head")
    }

    /// Until all is followed and on disk.
    fn wait(&self) {
        let head = self.head();
        let started = std::time::Instant::now();
        loop {
            let status = self.pipeline.status();
            if status.head == Some(head) && status.durable == Some(head) {
                return;
            }
            assert!(started.elapsed() < SECONDS, "not followed: {status:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Accounts and slots that any block of any branch changed.
    async fn touched(&self) -> BTreeMap<Address, BTreeSet<B256>> {
        let mut touched: BTreeMap<Address, BTreeSet<B256>> = BTreeMap::new();
        for block in &self.blocks[1..] {
            let diff = call(&self.bare, "prestate_getBlockDiff", json!([block.hash])).await;
            let diff: Value = serde_json::from_str(&diff.expect("known")).expect("JSON");
            let post: DiffSide = serde_json::from_value(diff["post"].clone()).expect("a side");
            let pre: DiffSide = serde_json::from_value(diff["pre"].clone()).expect("a side");
            for (address, change) in pre.into_iter().chain(post) {
                let slots = touched.entry(address).or_default();
                slots.extend(change.into_iter().flat_map(|change| change.storage.into_keys()));
            }
        }
        touched
    }

    /// Everything touched, as it is after a block.
    async fn state(&self, at: B256, touched: &BTreeMap<Address, BTreeSet<B256>>) -> AccountsAt {
        let query: BTreeMap<_, _> =
            touched.iter().map(|(address, slots)| (address, json!({ "slots": slots }))).collect();
        let state = call(&self.bare, "prestate_getAccounts", json!([at, query])).await;
        serde_json::from_str(&state.expect("read")).expect("accounts")
    }
}

/// The recipe with its delegations last: whether one counts, and moves its authority's nonce on,
/// shows only when it runs.
fn settled(recipe: &BlockRecipe) -> BlockRecipe {
    let mut recipe = recipe.clone();
    let delegates = |tx: &Recipe| matches!(tx.shape, Shape::SetCode(_));
    let last = recipe.transactions.iter().rfind(|tx| delegates(tx)).cloned();
    recipe.transactions.retain(|tx| !delegates(tx));
    recipe.transactions.extend(last);
    recipe
}

async fn call(rpc: &Rpc, method: &str, params: Value) -> Result<String, RpcError> {
    let params = RawValue::from_string(params.to_string()).expect("JSON");
    let answer = rpc.call(Call { method, params: Some(&params) }).await?;
    let Reply::Whole(rope) = answer.reply else { panic!("{method} streams") };
    Ok(String::from_utf8(rope.to_vec()).expect("text"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// Views that need no execution where the diffs are known.
fn views(block: BlockRef) -> Vec<(&'static str, Value)> {
    let (hash, number) = (block.hash, format!("0x{:x}", block.number));
    let full = json!({ "code": "full", "system": true });
    let tracer = |config: Value| json!({ "tracer": "prestateTracer", "tracerConfig": config });
    vec![
        ("prestate_getBlockDiff", json!([hash])),
        ("prestate_getBlockDiff", json!([hash, full])),
        ("prestate_getTransactionDiffs", json!([{ "blockHash": hash }])),
        ("prestate_getTransactionDiffs", json!([hash, full])),
        ("debug_traceBlockByHash", json!([hash, tracer(json!({ "diffMode": true }))])),
        (
            "debug_traceBlockByHash",
            json!([hash, tracer(json!({ "diffMode": true, "disableCode": true }))]),
        ),
        (
            "debug_traceBlockByHash",
            json!([hash, tracer(json!({ "diffMode": true, "disableStorage": true }))]),
        ),
        // By number: of whatever is canonical there.
        ("debug_traceBlockByNumber", json!([number, tracer(json!({ "diffMode": true }))])),
    ]
}

#[test]
fn what_is_known_is_rendered_as_what_is_replayed() {
    for (seed, fork) in [(1, Fork::Shanghai), (2, Fork::Prague)] {
        let folder = tempfile::tempdir().expect("a folder");
        let scene = Scene::play(seed, fork, 24, folder.path());
        let replica = ArchiveHost::new(scene.archive.clone()).expect("blocks");
        let sources = Sources {
            host: Arc::new(replica),
            pipeline: None,
            archive: Some(scene.archive.clone()),
        };
        let replica = Rpc::new(sources, RpcConfig::default());
        let mut compared = 0;
        runtime().block_on(async {
            for &block in &scene.blocks[1..] {
                let canonical =
                    scene.chain.canonical_hash(block.number).expect("no error") == Some(block.hash);
                let txs = scene.chain.block(block.hash).expect("no error").expect("known");
                let tracer = json!({
                    "tracer": "prestateTracer", "tracerConfig": { "diffMode": true },
                });
                let mut asked = views(block);
                // By transaction hash: of the canonical chain only.
                if canonical {
                    for tx in &txs.body().transactions {
                        asked.push(("prestate_getTransactionDiff", json!([tx.tx_hash()])));
                        asked.push(("debug_traceTransaction", json!([tx.tx_hash(), tracer])));
                    }
                }
                for (method, params) in asked {
                    let fresh = call(&scene.bare, method, params.clone()).await;
                    let known = call(&scene.following, method, params.clone()).await;
                    let copied = call(&replica, method, params.clone()).await;
                    assert_eq!(known, fresh, "{method}{params}");
                    assert_eq!(copied, fresh, "{method}{params} from the archive alone");
                    compared += 2;
                }
            }
            // What needs an execution says so.
            let last = scene.head();
            let refused = call(&replica, "debug_traceBlockByHash", json!([last.hash])).await;
            let refused = refused.expect_err("there is nothing to execute");
            assert_eq!(refused.code, 4444, "{refused}");
            assert!(refused.message.contains("only the state changes are kept here"), "{refused}");
            let refused = call(&replica, "prestate_subscribe", json!(["blockDiffs"])).await;
            assert_eq!(refused.expect_err("HTTP cannot notify").code, -32601);
        });
        println!("{fork}: {compared} answers equal over {} blocks", scene.blocks.len() - 1);
        scene.pipeline.shutdown();
    }
}

/// A side of a diff laid over a state.
fn apply(state: &mut AccountsAt, side: &DiffSide) {
    for (address, change) in side {
        let account = state.accounts.entry(*address).or_default();
        let Some(change) = change else {
            *account = None;
            continue;
        };
        let account = account.get_or_insert_default();
        if change.storage_wiped {
            account.storage.values_mut().for_each(|value| *value = B256::ZERO);
        }
        account.balance = change.balance.unwrap_or(account.balance);
        account.nonce = change.nonce.unwrap_or(account.nonce);
        account.code_hash = change.code_hash.or(account.code_hash);
        for (slot, value) in &change.storage {
            account.storage.insert(*slot, *value);
        }
    }
}

/// As states are compared: a slot that is zero and one that is not listed are the same.
fn normal(state: &AccountsAt) -> BTreeMap<Address, Option<Value>> {
    let plain = |account: &prestate_rpc_api::AccountState| {
        let mut account = account.clone();
        account.storage.retain(|_, value| !value.is_zero());
        serde_json::to_value(account).expect("JSON")
    };
    state.accounts.iter().map(|(at, account)| (*at, account.as_ref().map(plain))).collect()
}

#[test]
fn ranges_and_resyncs_lead_from_any_state_to_any_other() {
    for (seed, fork) in [(3, Fork::Shanghai), (4, Fork::Osaka)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut scene = Scene::play(seed, fork, 30, folder.path());
        let (mut ranges, mut dropped, mut slots_compared) = (0, 0, 0);
        runtime().block_on(async {
            let touched = scene.touched().await;
            for _ in 0..40 {
                let from = *scene.blocks.choose(&mut scene.rng).expect("blocks");
                let to = *scene.blocks.choose(&mut scene.rng).expect("blocks");
                let params = json!([from.hash, to.hash]);
                let known = call(&scene.following, "prestate_getDiffRange", params.clone()).await;
                let fresh = call(&scene.bare, "prestate_getDiffRange", params).await;
                assert_eq!(known, fresh, "{from} to {to}");
                let range: DiffRange =
                    serde_json::from_str(&known.expect("a range")).expect("a range");
                let canonical = |block: BlockRef| {
                    scene.chain.canonical_hash(block.number).expect("ok") == Some(block.hash)
                };
                assert_eq!(range.reorg.is_some(), !canonical(from));
                dropped += usize::from(range.reorg.is_some());
                ranges += 1;

                // Forwards, and backwards.
                let (start, end) =
                    (scene.state(from.hash, &touched).await, scene.state(to.hash, &touched).await);
                let mut moved = start.clone();
                apply(&mut moved, &range.post);
                assert_eq!(normal(&moved), normal(&end), "{from} to {to}");
                apply(&mut moved, &range.pre);
                assert_eq!(normal(&moved), normal(&start), "{to} back to {from}");

                // Some of it watched, some of it cold.
                let (mut watch, mut cold) = (BTreeMap::new(), BTreeMap::new());
                let (mut expected, mut accounts) = (BTreeMap::new(), BTreeMap::new());
                for (address, slots) in &touched {
                    let value = |state: &AccountsAt, slot: &B256| {
                        let account = state.accounts[address].as_ref();
                        account
                            .and_then(|account| account.storage.get(slot).copied())
                            .unwrap_or_default()
                    };
                    let (mut watched, mut unread) = (Vec::new(), Vec::new());
                    for slot in slots {
                        let (before, after) = (value(&start, slot), value(&end, slot));
                        match scene.rng.random_range(0..3) {
                            0 => {
                                watched.push(*slot);
                                if before == after {
                                    continue;
                                }
                            }
                            1 => unread.push(*slot),
                            _ => continue,
                        }
                        expected.entry(*address).or_insert_with(BTreeMap::new).insert(*slot, after);
                    }
                    let account = scene.rng.random_bool(0.5);
                    let fields = |state: &AccountsAt| {
                        state.accounts[address].clone().map(|mut account| {
                            account.storage.clear();
                            account
                        })
                    };
                    if account && fields(&start) != fields(&end) {
                        accounts.insert(*address, fields(&end));
                    }
                    watch.insert(*address, json!({ "slots": watched, "account": account }));
                    if !unread.is_empty() {
                        cold.insert(*address, unread);
                    }
                }
                let position = if scene.rng.random_bool(0.5) {
                    json!(from.hash)
                } else {
                    json!({ "number": format!("0x{:x}", from.number), "hash": from.hash })
                };
                let request =
                    json!([{ "from": position, "watch": watch, "cold": cold, "to": to.hash }]);
                let resync = call(&scene.following, "prestate_resync", request).await;
                let mut resync: Resync =
                    serde_json::from_str(&resync.expect("a resync")).expect("a resync");
                assert_eq!((resync.from, resync.head), (from.into(), to.into()));
                assert_eq!(resync.reorg, range.reorg);
                assert_eq!(resync.accounts, accounts);
                // Of an account that was cleared as a whole every watched slot is told.
                for (address, slots) in &mut resync.storage {
                    let wiped = range.post.get(address).is_some_and(|change| {
                        change.as_ref().is_none_or(|change| change.storage_wiped)
                    });
                    let expected = expected.get(address);
                    slots.retain(|slot, value| {
                        let told = expected.is_some_and(|slots| slots.contains_key(slot));
                        assert!(told || wiped, "{address} {slot} did not change");
                        told || !value.is_zero()
                    });
                    slots_compared += slots.len();
                }
                resync.storage.retain(|_, slots| !slots.is_empty());
                assert_eq!(resync.storage, expected, "{from} to {to}");
            }
        });
        println!("{fork}: {ranges} ranges, {dropped} from dropped blocks, {slots_compared} slots");
        assert!(dropped > 0, "no range began at a dropped block");
        scene.pipeline.shutdown();
    }
}

/// A subscriber that keeps everything touched.
struct Mirror {
    state: AccountsAt,
    at: B256,
    steps: usize,
}

impl Mirror {
    fn take(&mut self, message: DiffMessage) {
        let sides = |streamed: &StreamedBlock| match &streamed.diff {
            StreamedDiff::Block { pre, post } => (vec![pre.clone()], vec![post.clone()]),
            StreamedDiff::Transactions { .. } => panic!("block diffs were asked for"),
        };
        match message {
            DiffMessage::Commit(block) => {
                assert_eq!(block.block.parent_hash, self.at, "a gap");
                self.at = block.block.hash;
                sides(&block).1.iter().for_each(|side| apply(&mut self.state, side));
            }
            DiffMessage::Revert(block) => {
                assert_eq!(block.block.hash, self.at, "a gap");
                self.at = block.block.parent_hash;
                sides(&block).0.iter().for_each(|side| apply(&mut self.state, side));
            }
            other => panic!("{other:?}"),
        }
        self.steps += 1;
    }
}

#[test]
fn subscribers_arrive_at_the_chains_state_from_any_block() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut scene = Scene::play(5, Fork::Prague, 24, folder.path());
    runtime().block_on(async {
        let touched = scene.touched().await;
        let head = scene.head();
        let end = scene.state(head.hash, &touched).await;
        for from in scene.blocks.clone() {
            let params = json!(["blockDiffs", { "from": from.hash }]).to_string();
            let params = RawValue::from_string(params).expect("JSON");
            let call = Call { method: "prestate_subscribe", params: Some(&params) };
            let mut messages = scene.following.subscribe(call).await.expect("known").messages;
            let state = scene.state(from.hash, &touched).await;
            let mut mirror = Mirror { state, at: from.hash, steps: 0 };
            while mirror.at != head.hash {
                let message = tokio::time::timeout(SECONDS, messages.recv()).await;
                let message = message.expect("in time").expect("not the end").to_vec();
                mirror.take(serde_json::from_slice(&message).expect("a message"));
            }
            assert_eq!(normal(&mirror.state), normal(&end), "from {from}");
        }
        // Live: each step of the chain is one message, with the transactions' diffs on wish.
        let subscribe = |params: Value| {
            let params = RawValue::from_string(params.to_string()).expect("JSON");
            let following = scene.following.clone();
            async move {
                let call = Call { method: "prestate_subscribe", params: Some(&params) };
                following.subscribe(call).await
            }
        };
        let mut live = subscribe(json!(["transactionDiffs"])).await.expect("a chain").messages;
        let world = World::random(6, Fork::Prague, 1, 5);
        let block = tokio::task::block_in_place(|| {
            extend(&scene.chain, &World::keys(), &settled(&world.blocks[0]))
        });
        let message = tokio::time::timeout(SECONDS, live.recv()).await.expect("in time");
        let message = message.expect("a message").to_vec();
        let message: DiffMessage = serde_json::from_slice(&message).expect("a message");
        let DiffMessage::Commit(commit) = message else { panic!("{message:?}") };
        assert_eq!(commit.block.hash, block.hash());
        let StreamedDiff::Transactions { transactions } = commit.diff else { panic!("blocks") };
        assert_eq!(transactions.len(), block.body().transactions.len());

        // The end is told.
        let pipeline = scene.pipeline.clone();
        let end = std::thread::spawn(move || pipeline.shutdown());
        let last = tokio::time::timeout(SECONDS, live.recv()).await.expect("in time");
        let last: Value = serde_json::from_slice(&last.expect("a message").to_vec()).expect("JSON");
        assert_eq!((&last["type"], &last["reason"]), (&json!("cut"), &json!("stopped")), "{last}");
        assert!(live.recv().await.is_none(), "nothing follows the cut");
        tokio::task::spawn_blocking(|| end.join()).await.expect("ran").expect("no panic");
    });
    scene.blocks.clear();
}

#[test]
fn bad_questions_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let scene = Scene::play(7, Fork::Prague, 6, folder.path());
    let head = scene.head();
    let above = format!("0x{:x}", head.number + 10);
    let other = B256::repeat_byte(0x77);
    let too_many: Vec<B256> =
        (0..10_001).map(|slot| B256::left_padding_from(&u64::to_be_bytes(slot))).collect();
    let address = Address::repeat_byte(1);
    let at = |number: &str, hash: B256| json!({ "number": number, "hash": hash });
    let cases = [
        ("prestate_getDiffRange", json!([head.hash, above]), -32000, "future"),
        ("prestate_getDiffRange", json!([other, "latest"]), -32000, "unknown"),
        ("prestate_resync", json!([{ "from": other }]), -32000, "unknown"),
        ("prestate_resync", json!([{ "from": at(&above, other) }]), -32000, "future"),
        ("prestate_resync", json!([{ "from": at("0x0", head.hash) }]), -32602, "has number"),
        ("prestate_resync", json!([{ "from": "0x1" }]), -32602, "expected a block hash"),
        ("prestate_resync", json!([{ "from": head.hash, "wat": 1 }]), -32602, "unknown field"),
        ("prestate_resync", json!([]), -32602, "missing value for required argument 0"),
        (
            "prestate_resync",
            json!([{ "from": head.hash, "cold": { address.to_string(): too_many } }]),
            -32005,
            "readSlots",
        ),
        (
            "prestate_getStorage",
            json!(["latest", { address.to_string(): too_many }]),
            -32005,
            "readSlots",
        ),
        ("prestate_getStorage", json!(["latest"]), -32602, "missing value for required argument 1"),
        ("prestate_getStorage", json!(["latest", { "0x01": [] }]), -32602, "invalid argument 1"),
        (
            "prestate_getAccounts",
            json!(["latest", { address.to_string(): { "slots": too_many } }]),
            -32005,
            "readSlots",
        ),
        (
            "prestate_getAccounts",
            json!(["latest", { address.to_string(): { "code": "half" } }]),
            -32602,
            "half",
        ),
        ("prestate_getAccounts", json!(["pending", {}]), -32000, "pending"),
    ];
    runtime().block_on(async {
        for (method, params, code, text) in cases {
            let refused = call(&scene.following, method, params.clone()).await;
            let refused = refused.expect_err(method);
            let said = refused.to_json();
            assert_eq!(refused.code, code, "{method}: {said}");
            assert!(said.contains(text), "{method}: {said}");
            if ["future", "unknown"].contains(&text) {
                let data: Value =
                    serde_json::from_str(refused.data.as_ref().expect("data").get()).expect("JSON");
                assert_eq!(data["head"]["hash"], json!(head.hash));
                assert_eq!(data["earliest"]["number"], json!("0x0"));
            }
        }
        // Absent accounts are zero and null, not errors.
        let storage = call(
            &scene.following,
            "prestate_getStorage",
            json!(["latest", { address.to_string(): [B256::ZERO, B256::ZERO] }]),
        )
        .await;
        let storage: StorageAt = serde_json::from_str(&storage.expect("read")).expect("storage");
        assert_eq!(storage.storage, [(address, [(B256::ZERO, B256::ZERO)].into())].into());
        let accounts = call(
            &scene.following,
            "prestate_getAccounts",
            json!(["latest", { address.to_string(): {} }]),
        )
        .await;
        let accounts: AccountsAt =
            serde_json::from_str(&accounts.expect("read")).expect("accounts");
        assert_eq!(accounts.accounts, [(address, None)].into());
        // Subscriptions.
        for (params, code, text) in [
            (json!(["headers"]), -32602, "blockDiffs"),
            (json!([]), -32602, "missing value"),
            (json!(["blockDiffs", { "from": other }]), -32000, "unknown"),
            (json!(["blockDiffs", { "from": at(&above, other) }]), -32000, "future"),
            (json!(["blockDiffs", { "form": other }]), -32602, "unknown field"),
        ] {
            let raw = RawValue::from_string(params.to_string()).expect("JSON");
            let call = Call { method: "prestate_subscribe", params: Some(&raw) };
            let refused = scene.following.subscribe(call).await.expect_err("refused");
            assert_eq!(refused.code, code, "{params}: {refused}");
            assert!(refused.to_json().contains(text), "{params}: {}", refused.to_json());
            let raw = RawValue::from_string(json!(["blockDiffs"]).to_string()).expect("JSON");
            let call = Call { method: "prestate_subscribe", params: Some(&raw) };
            let refused = scene.bare.subscribe(call).await.expect_err("follows no chain");
            assert!(refused.message.contains("follows no chain"));
        }
    });
    scene.pipeline.shutdown();
}

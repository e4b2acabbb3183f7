//! Diffs as a stream, over sockets that break, cut and skip: a mirror that applies them is held
//! against the model's states.

use crate::{
    model::{Block, Model, State},
    stub::{Habits, Stub, handle, header, sides},
};
use alloy_primitives::{Address, B256};
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use prestate_client::{
    BlockRef, DiffEvent, DiffSide, DiffStream, DiffStreamConfig, DiffStreamError, DiffStreamKind,
    Refusal, StartAt, StreamedDiff,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{accept_async, tungstenite::Message};
use url::Url;

type Shared = Arc<Mutex<(Model, StdRng)>>;

/// How a message is mistreated.
#[derive(Clone, Copy, PartialEq)]
enum Mishap {
    None,
    Dropped,
    Cut,
    Skipped,
}

struct Socket {
    url: Url,
    shared: Shared,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Socket {
    /// Of a hundred messages so many are mistreated.
    async fn start(seed: u64, mishaps: u32) -> Self {
        let shared: Shared = Arc::new(Mutex::new((Model::new(seed), StdRng::seed_from_u64(seed))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap()).parse().unwrap();
        let world = Arc::clone(&shared);
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&world), mishaps));
            }
        });
        Self { url, shared, server }
    }

    fn change(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.shared.lock().0);
    }

    fn head(&self) -> Arc<Block> {
        Arc::clone(self.shared.lock().0.head())
    }
}

async fn serve(stream: TcpStream, world: Shared, mishaps: u32) {
    let Ok(mut socket) = accept_async(stream).await else { return };
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(text) = frame else { continue };
        let call: Value = serde_json::from_str(&text).unwrap();
        let params = &call["params"];
        let mut from = None;
        let result = {
            let world = world.lock();
            let model = &world.0;
            match call["method"].as_str().unwrap() {
                "eth_getBlockByNumber" if params[0] == "latest" => Ok(header(Some(model.head()))),
                "eth_getBlockByNumber" => {
                    let number = params[0].as_str().unwrap().trim_start_matches("0x");
                    Ok(header(model.at(u64::from_str_radix(number, 16).unwrap())))
                }
                _ => {
                    assert_eq!(params[0], "blockDiffs");
                    let hash: B256 = params[1]["from"]["hash"].as_str().unwrap().parse().unwrap();
                    from = model.block(&hash).cloned();
                    match from {
                        Some(_) => Ok(json!("0x1")),
                        None => {
                            let data = json!({ "reason": "unknown" });
                            Err(json!({ "code": -32000, "message": "not known", "data": data }))
                        }
                    }
                }
            }
        };
        let reply = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }),
        };
        if socket.send(Message::text(reply.to_string())).await.is_err() {
            return;
        }
        let Some(mut at) = from else { continue };
        loop {
            let found = {
                let mut world = world.lock();
                let (model, rng) = &mut *world;
                let mishap = match rng.random_range(0..100) < mishaps {
                    true => [Mishap::Dropped, Mishap::Cut, Mishap::Skipped][rng.random_range(0..3)],
                    false => Mishap::None,
                };
                step(model, &at).map(|(message, next)| {
                    // A skip shows by what follows.
                    let last = next.at == model.head().at;
                    (
                        message,
                        next,
                        if last && mishap == Mishap::Skipped { Mishap::None } else { mishap },
                    )
                })
            };
            let Some((message, next, mishap)) = found else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            at = next;
            let message = match mishap {
                Mishap::None => message,
                Mishap::Dropped => return,
                Mishap::Cut => json!({ "type": "cut", "reason": "tooSlow", "message": "too slow" }),
                Mishap::Skipped => continue,
            };
            let params = json!({ "subscription": "0x1", "result": message });
            let sent =
                json!({ "jsonrpc": "2.0", "method": "prestate_subscription", "params": params });
            if socket.send(Message::text(sent.to_string())).await.is_err() || mishap == Mishap::Cut
            {
                break;
            }
        }
    }
}

/// The message that leads one step towards the head, and where it leads.
fn step(model: &Model, at: &Arc<Block>) -> Option<(Value, Arc<Block>)> {
    let (kind, block, next) = if model.is_canonical(&at.at.hash) {
        let next = model.at(at.at.number + 1)?;
        ("commit", next, next)
    } else {
        ("revert", at, model.block(&at.parent).unwrap())
    };
    let parent = model.block(&block.parent).unwrap();
    let (pre, post) = sides(&parent.state, &block.state);
    let mut head = handle(block);
    head["parentHash"] = json!(block.parent);
    head["timestamp"] = json!("0x0");
    Some((json!({ "type": kind, "block": head, "pre": pre, "post": post }), Arc::clone(next)))
}

/// Storage as a reader of diffs keeps it.
#[derive(Default)]
struct Mirror(BTreeMap<(Address, B256), B256>);

impl Mirror {
    fn of(state: &State) -> Self {
        let slots = state.iter().flat_map(|(address, account)| {
            account.storage().iter().map(|(slot, value)| ((*address, *slot), *value))
        });
        Self(slots.collect())
    }

    fn apply(&mut self, side: &DiffSide) {
        for (address, account) in side {
            match account {
                None => self.0.retain(|(owner, _), _| owner != address),
                Some(account) => {
                    self.0.extend(
                        account.storage.iter().map(|(slot, value)| ((*address, *slot), *value)),
                    );
                }
            }
        }
        self.0.retain(|_, value| !value.is_zero());
    }

    fn on(&mut self, event: &DiffEvent) {
        let forward = |diff: &StreamedDiff| match diff {
            StreamedDiff::Block { pre, post } => (pre.clone(), post.clone()),
            StreamedDiff::Transactions { .. } => panic!("block diffs were asked for"),
        };
        match event {
            DiffEvent::Commit(block) => self.apply(&forward(&block.diff).1),
            DiffEvent::Revert(block) => self.apply(&forward(&block.diff).0),
            DiffEvent::Range(range) => self.apply(&range.post),
            _ => {}
        }
    }
}

fn config(start: StartAt) -> DiffStreamConfig {
    DiffStreamConfig {
        start,
        poll: Duration::from_millis(1),
        pause: Duration::from_micros(100),
        max_pause: Duration::from_millis(1),
        ..DiffStreamConfig::default()
    }
}

#[tokio::test]
async fn nothing_is_missed_over_broken_sockets_cuts_and_skipped_messages() {
    let socket = Socket::start(1, 15).await;
    socket.change(|model| (0..10).for_each(|_| model.mine()));
    let mut stream = DiffStream::new(socket.url.clone(), config(StartAt::Head)).unwrap();
    assert_eq!(stream.next().await.unwrap(), DiffEvent::Started(socket.head().at));
    let mut mirror = Mirror::of(&socket.head().state);
    let mut rng = StdRng::seed_from_u64(1);
    let (mut reverts, mut interruptions) = (0, Vec::new());
    for _ in 0..150 {
        socket.change(|model| {
            let depth = if rng.random_bool(0.2) { rng.random_range(1..=8) } else { 0 };
            model.cut(depth);
            (0..=depth).for_each(|_| model.mine());
        });
        let head = socket.head();
        while stream.position() != Some(head.at) {
            let event = stream.next().await.unwrap();
            match &event {
                DiffEvent::Revert(_) => reverts += 1,
                DiffEvent::Interrupted { reason, .. } => interruptions.push(reason.clone()),
                _ => {}
            }
            mirror.on(&event);
        }
        assert!(mirror.0 == Mirror::of(&head.state).0, "at {}", head.at);
    }
    assert!(reverts > 20, "{reverts}");
    for expected in ["too slow", "does not follow", "reset"] {
        let seen = interruptions.iter().any(|reason| reason.contains(expected));
        assert!(seen, "{expected} is not in {interruptions:?}");
    }
}

#[tokio::test]
async fn from_a_block_that_left_the_chain() {
    let socket = Socket::start(2, 0).await;
    socket.change(|model| (0..10).for_each(|_| model.mine()));
    let left = socket.head();
    socket.change(|model| {
        model.cut(3);
        (0..5).for_each(|_| model.mine());
    });
    let mut stream = DiffStream::new(socket.url.clone(), config(StartAt::Block(left.at))).unwrap();
    let mut kinds = String::new();
    while stream.position() != Some(socket.head().at) {
        kinds.push(match stream.next().await.unwrap() {
            DiffEvent::Started(at) => {
                assert_eq!(at, left.at);
                's'
            }
            DiffEvent::Revert(_) => 'r',
            DiffEvent::Commit(_) => 'c',
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(kinds, "srrrccccc");
}

#[tokio::test]
async fn ranges_over_http_lead_to_the_same_states() {
    let stub = Stub::start(3, Habits { prestate: true, dropped: 100, ..Habits::default() }).await;
    stub.mine(10);
    let start = stub.head();
    let mut stream = DiffStream::new(stub.url.clone(), config(StartAt::Block(start.at))).unwrap();
    let mut mirror = Mirror::of(&start.state);
    let (mut reorgs, mut interruptions) = (0, 0);
    for n in 0..60 {
        stub.reorg(n % 5, n % 5 + 1 + n % 3);
        while stream.position() != Some(stub.head().at) {
            let event = stream.next().await.unwrap();
            match &event {
                DiffEvent::Range(range) => reorgs += usize::from(range.reorg.is_some()),
                DiffEvent::Interrupted { .. } => interruptions += 1,
                _ => {}
            }
            mirror.on(&event);
        }
        assert!(mirror.0 == Mirror::of(&stub.head().state).0);
    }
    assert!(reorgs > 30 && interruptions > 0, "{reorgs} {interruptions}");
}

#[tokio::test]
async fn what_cannot_be_served_is_an_error_and_what_may_come_is_waited_for() {
    let socket = Socket::start(4, 0).await;
    let of = |start| DiffStream::new(socket.url.clone(), config(start)).unwrap();
    let elsewhere = StartAt::Block(BlockRef::new(100, B256::repeat_byte(9)));
    let refused = of(elsewhere).next().await.unwrap_err();
    assert!(matches!(refused, DiffStreamError::Refused(Refusal::UnknownBlock { .. })), "{refused}");
    let refused = of(StartAt::Number(100_000)).next().await.unwrap_err();
    assert!(matches!(refused, DiffStreamError::Refused(Refusal::Future { .. })), "{refused}");
    let started = of(StartAt::Number(100)).next().await.unwrap();
    assert_eq!(started, DiffEvent::Started(socket.head().at));

    let no_prestate = Stub::start(5, Habits::default()).await;
    let mut stream = DiffStream::new(no_prestate.url.clone(), config(StartAt::Head)).unwrap();
    stream.next().await.unwrap();
    let refused = stream.next().await.unwrap_err();
    assert!(matches!(refused, DiffStreamError::Refused(Refusal::NoSuchMethod(_))), "{refused}");

    let transactions =
        DiffStreamConfig { kind: DiffStreamKind::TransactionDiffs, ..config(StartAt::Head) };
    let error = DiffStream::new(no_prestate.url.clone(), transactions).unwrap_err();
    assert!(matches!(error, DiffStreamError::TransactionsOverHttp));
    let error = DiffStream::new("ftp://x".parse().unwrap(), config(StartAt::Head)).unwrap_err();
    assert!(error.to_string().contains("expected ws, wss, http or https"));

    // Nobody there: told, and tried again for as long as it takes.
    let url = {
        let gone = Socket::start(6, 0).await;
        gone.url.clone()
    };
    let mut stream = DiffStream::new(url, config(StartAt::Head)).unwrap();
    for _ in 0..3 {
        assert!(matches!(stream.next().await.unwrap(), DiffEvent::Interrupted { .. }));
    }
}

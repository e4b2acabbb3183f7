//! A provider over HTTP that answers from the model, with the habits of public ones.

use crate::model::{Account, Block, Model, State};
use alloy_primitives::{Address, B256};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prestate_client::CostTable;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, io::Write, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use url::Url;

/// How a call is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gate {
    Error(i64, &'static str),
    Status(u16),
}

/// What is wrong with this provider.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    /// `debug_*` is refused.
    pub(crate) gate_debug: Option<Gate>,
    /// Only `debug_traceBlockByHash` is.
    pub(crate) gate_trace_by_hash: bool,
    /// `prestate_*` is offered.
    pub(crate) prestate: bool,
    /// A block cannot be named by hash in reads.
    pub(crate) no_eip_1898: bool,
    /// More items than that in a batch are refused, each by itself.
    pub(crate) items: Option<usize>,
    /// More items than that: the whole batch is refused.
    pub(crate) max_batch: Option<usize>,
    /// Every item is refused for good.
    pub(crate) always_limited: bool,
    /// Of a thousand requests so many are dropped without an answer.
    pub(crate) dropped: u32,
    /// Of a thousand reads by hash so many reach a node that does not have the block yet.
    pub(crate) behind: u32,
    /// Of a thousand requests so many find that the chain moved on just before.
    pub(crate) moves: u32,
    /// How long methods take.
    pub(crate) slow: BTreeMap<&'static str, Duration>,
    /// Traces come without their last entry.
    pub(crate) short_traces: bool,
    /// Every trace's `pre` is of another state than it says.
    pub(crate) wrong_pre: bool,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) habits: Habits,
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) units: u64,
    /// Requests that did not ask for gzip and zstd.
    pub(crate) asked_for_identity: u64,
    rng: StdRng,
}

pub(crate) struct Stub {
    pub(crate) url: Url,
    pub(crate) world: Arc<Mutex<World>>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Stub {
    pub(crate) async fn start(seed: u64, habits: Habits) -> Self {
        let world = World {
            model: Model::new(seed),
            habits,
            calls: BTreeMap::new(),
            units: 0,
            asked_for_identity: 0,
            rng: StdRng::seed_from_u64(seed ^ 0x5eed),
        };
        let world = Arc::new(Mutex::new(world));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let shared = Arc::clone(&world);
        let server = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let world = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&world), request));
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new());
                tokio::spawn(http.serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { url, world, server }
    }

    pub(crate) fn mine(&self, blocks: usize) {
        let mut world = self.world.lock();
        (0..blocks).for_each(|_| world.model.mine());
    }

    pub(crate) fn reorg(&self, depth: usize, blocks: usize) {
        self.world.lock().model.cut(depth);
        self.mine(blocks);
    }

    pub(crate) fn head(&self) -> Arc<Block> {
        Arc::clone(self.world.lock().model.head())
    }
}

type Reply = Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>>;

async fn answer(world: Arc<Mutex<World>>, request: Request<Incoming>) -> Reply {
    let accepts = request.headers().get("accept-encoding").cloned();
    let accepts = accepts.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let body = request.into_body().collect().await?.to_bytes();
    let call: Value = serde_json::from_slice(&body)?;
    let (reply, slow) = {
        let mut world = world.lock();
        if !(accepts.contains("gzip") && accepts.contains("zstd")) {
            world.asked_for_identity += 1;
        }
        let chance = |world: &mut World, of: u32| world.rng.random_range(0..1000) < of;
        let (dropped, moves) = (world.habits.dropped, world.habits.moves);
        if chance(&mut world, moves) {
            let depth = world.rng.random_range(0..3);
            world.model.cut(depth);
            (0..=depth).for_each(|_| world.model.mine());
        }
        if chance(&mut world, dropped) {
            return Err("dropped".into());
        }
        let slow = methods(&call).filter_map(|method| world.habits.slow.get(method).copied()).max();
        (world.reply(&call), slow)
    };
    if let Some(slow) = slow {
        tokio::time::sleep(slow).await;
    }
    let reply = match reply {
        Ok(reply) => reply,
        Err(status) => {
            let body = Full::new(Bytes::from_static(b"<html>no</html>"));
            return Ok(Response::builder().status(status).body(body)?);
        }
    };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(reply.to_string().as_bytes())?;
    let reply = Response::builder()
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    Ok(reply.body(Full::new(Bytes::from(gzip.finish()?)))?)
}

fn methods(call: &Value) -> impl Iterator<Item = &str> {
    let calls = call.as_array().map_or(std::slice::from_ref(call), Vec::as_slice);
    calls.iter().filter_map(|call| call["method"].as_str())
}

fn error(code: i64, message: impl Into<String>) -> Value {
    json!({ "code": code, "message": message.into() })
}

impl World {
    /// The reply's body, or an HTTP status.
    fn reply(&mut self, call: &Value) -> Result<Value, u16> {
        let Some(batch) = call.as_array() else { return self.one(call, false) };
        if self.habits.max_batch.is_some_and(|max| batch.len() > max) {
            let refusal = error(-32600, "batch too large");
            return Ok(json!({ "jsonrpc": "2.0", "id": null, "error": refusal }));
        }
        let mut replies = Vec::new();
        for (at, call) in batch.iter().enumerate() {
            let over = self.habits.items.is_some_and(|items| at >= items);
            replies.push(self.one(call, over || self.habits.always_limited)?);
        }
        // In any order: the ids say which is which.
        replies.reverse();
        Ok(Value::Array(replies))
    }

    fn one(&mut self, call: &Value, limited: bool) -> Result<Value, u16> {
        let method = call["method"].as_str().unwrap();
        *self.calls.entry(method.to_owned()).or_default() += 1;
        self.units += CostTable::alchemy().of(method);
        let limits = [
            error(429, "Your app has exceeded its compute units per second capacity"),
            error(-32005, "rate limited"),
            error(-32016, "over rate limit"),
        ];
        let result = if limited {
            Err(limits[self.rng.random_range(0..limits.len())].clone())
        } else if method.starts_with("debug_") && self.habits.gate_debug.is_some() {
            match self.habits.gate_debug.unwrap() {
                Gate::Status(status) => return Err(status),
                Gate::Error(code, message) => Err(error(code, message)),
            }
        } else {
            self.result(method, &call["params"])
        };
        let (key, value) = match result {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        Ok(json!({ "jsonrpc": "2.0", "id": call["id"], key: value }))
    }

    fn result(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let unknown =
            || error(-32601, format!("the method {method} does not exist/is not available"));
        let model = &self.model;
        let hash = |value: &Value| value.as_str().unwrap().parse::<B256>().unwrap();
        let number = |value: &Value| {
            u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
        };
        match method {
            "eth_chainId" => Ok(json!("0x539")),
            "eth_getBlockByNumber" => Ok(match params[0].as_str().unwrap() {
                "latest" => header(Some(model.head())),
                _ => header(model.at(number(&params[0]))),
            }),
            "eth_getBlockByHash" => Ok(header(model.block(&hash(&params[0])))),
            "eth_getStorageAt" => {
                let block = match &params[2] {
                    Value::Object(_) if self.habits.no_eip_1898 => {
                        let text = "invalid argument 2: json: cannot unmarshal object into Go value of type string";
                        return Err(error(-32602, text));
                    }
                    Value::Object(object) => {
                        let behind = self.rng.random_range(0..1000) < self.habits.behind;
                        if behind { None } else { model.block(&hash(&object["blockHash"])) }
                    }
                    text => model.at(number(text)),
                };
                let block = block.ok_or_else(|| error(-32000, "header not found"))?;
                let address = params[0].as_str().unwrap().parse().unwrap();
                Ok(json!(block.value(address, hash(&params[1]))))
            }
            "debug_traceBlockByHash" if self.habits.gate_trace_by_hash => Err(unknown()),
            "debug_traceBlockByHash" => self.traces(model.block(&hash(&params[0])), params),
            "debug_traceBlockByNumber" => self.traces(model.at(number(&params[0])), params),
            method if method.starts_with("prestate_") && !self.habits.prestate => Err(unknown()),
            "prestate_getStorage" => {
                let block = model.block(&hash(&params[0]));
                let block = block.ok_or_else(|| error(-32000, "block not found"))?;
                Ok(json!({ "block": handle(block), "storage": values(block, &params[1]) }))
            }
            "prestate_getDiffRange" => {
                let from = model.block(&hash(&params[0]));
                let from = from.ok_or_else(|| error(-32000, "block not found"))?;
                assert_eq!(params[1], "latest");
                let (pre, post) = sides(&from.state, &model.head().state);
                let mut reply = json!({
                    "from": handle(from), "to": handle(model.head()), "pre": pre, "post": post,
                });
                if let Some(reorg) = self.reorg(from) {
                    reply["reorg"] = reorg;
                }
                Ok(reply)
            }
            "prestate_resync" => self.resync(&params[0]),
            _ => Err(unknown()),
        }
    }

    fn traces(&self, block: Option<&Arc<Block>>, params: &Value) -> Result<Value, Value> {
        assert_eq!(params[1]["tracer"], "prestateTracer");
        assert_eq!(params[1]["tracerConfig"]["diffMode"], true);
        let block = block.ok_or_else(|| error(-32000, "block not found"))?;
        let mut traces = block.traces.clone();
        if self.habits.short_traces {
            traces.pop();
        }
        if self.habits.wrong_pre {
            for account in traces
                .iter_mut()
                .flat_map(|trace| trace["result"]["pre"].as_object_mut().unwrap().values_mut())
            {
                for value in
                    account["storage"].as_object_mut().into_iter().flat_map(Map::values_mut)
                {
                    *value = json!(B256::repeat_byte(0xee));
                }
            }
        }
        Ok(Value::Array(traces))
    }

    fn resync(&self, request: &Value) -> Result<Value, Value> {
        let model = &self.model;
        let hash: B256 = request["from"]["hash"].as_str().unwrap().parse().unwrap();
        let from = model.block(&hash);
        let from = from.ok_or_else(|| error(-32000, format!("block {hash} not found")))?;
        let head = match request.get("to") {
            Some(to) => model.block(&to.as_str().unwrap().parse().unwrap()).unwrap(),
            None => model.head(),
        };
        let mut storage = values(head, &request["cold"]);
        for (address, watch) in request["watch"].as_object().into_iter().flatten() {
            let account: Address = address.parse().unwrap();
            for slot in watch["slots"].as_array().into_iter().flatten() {
                let key = slot.as_str().unwrap().parse().unwrap();
                let value = head.value(account, key);
                if value != from.value(account, key) {
                    storage.entry(address.clone()).or_insert_with(|| json!({}))
                        [slot.as_str().unwrap()] = json!(value);
                }
            }
        }
        let mut reply = json!({
            "from": handle(from), "head": handle(head), "storage": storage, "accounts": {},
        });
        if let Some(reorg) = self.reorg(from) {
            reply["reorg"] = reorg;
        }
        Ok(reply)
    }

    /// What left the chain below a block, if it did.
    fn reorg(&self, from: &Arc<Block>) -> Option<Value> {
        let (mut ancestor, mut dropped) = (from, Vec::new());
        while !self.model.is_canonical(&ancestor.at.hash) {
            dropped.push(handle(ancestor));
            ancestor = self.model.block(&ancestor.parent).unwrap();
        }
        let notice = json!({ "commonAncestor": handle(ancestor), "dropped": dropped });
        (!dropped.is_empty()).then_some(notice)
    }
}

/// What differs between two states, as `prestate_*` shows it; accounts with storage only.
pub(crate) fn sides(old: &State, new: &State) -> (Value, Value) {
    let (mut pre, mut post) = (Map::new(), Map::new());
    for address in old.keys().chain(new.keys()) {
        let name = address.to_string().to_lowercase();
        match (old.get(address), new.get(address)) {
            (Some(was), Some(is)) if was != is => {
                let (mut before, mut after) = (Map::new(), Map::new());
                for slot in was.storage().keys().chain(is.storage().keys()) {
                    let of = |account: &Account| {
                        account.storage().get(slot).copied().unwrap_or_default()
                    };
                    if of(was) != of(is) {
                        before.insert(slot.to_string(), json!(of(was)));
                        after.insert(slot.to_string(), json!(of(is)));
                    }
                }
                pre.insert(name.clone(), json!({ "storage": before }));
                post.insert(name, json!({ "storage": after }));
            }
            (was, is) if was != is => {
                pre.insert(name.clone(), was.map_or(Value::Null, Account::whole));
                post.insert(name, is.map_or(Value::Null, Account::whole));
            }
            _ => {}
        }
    }
    (Value::Object(pre), Value::Object(post))
}

pub(crate) fn handle(block: &Block) -> Value {
    json!({ "number": format!("0x{:x}", block.at.number), "hash": block.at.hash })
}

pub(crate) fn header(block: Option<&Arc<Block>>) -> Value {
    let Some(block) = block else { return Value::Null };
    let mut header = handle(block);
    header["parentHash"] = json!(block.parent);
    header["transactions"] = json!(block.transactions);
    header
}

fn values(block: &Block, slots: &Value) -> Map<String, Value> {
    let mut storage = Map::new();
    for (address, slots) in slots.as_object().into_iter().flatten() {
        let account: Address = address.parse().unwrap();
        let slots = slots.as_array().unwrap().iter().map(|slot| slot.as_str().unwrap());
        let slots =
            slots.map(|slot| (slot.to_owned(), json!(block.value(account, slot.parse().unwrap()))));
        storage.insert(address.clone(), Value::Object(slots.collect()));
    }
    storage
}

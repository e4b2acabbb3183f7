//! One node, one chain, one question, asked on both ports: what the node's own tracer takes for
//! it, and what the lane takes. `PRESTATE_BENCH_BLOCKS=240` makes it long enough to be quoted.

use crate::{
    equality::{Compared, compare},
    http::{call, request},
    program::{Program, eventually},
    workload::Workload,
};
use alloy_primitives::{Address, B256};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    fmt,
    io::Read,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

/// Connections that ask at the same time.
const CONNECTIONS: usize = 2;
/// Calls of contracts in a block, and slots that each sets.
const CALLS: u64 = 60;
const SLOTS: u64 = 10;
/// Bytes of the contract's code: most of a mainnet block's diff is code.
const CODE_BYTES: usize = 20_000;

/// What asking took.
struct Taken {
    what: &'static str,
    requests: usize,
    wall: Duration,
    cpu: Duration,
    body_bytes: u64,
    median: Duration,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests as f64;
        write!(
            f,
            "| {} | {} | {:.1} | {:.2} | {:.2} | {} |",
            self.what,
            self.requests,
            requests / self.wall.as_secs_f64(),
            self.cpu.as_secs_f64() * 1e3 / requests,
            self.median.as_secs_f64() * 1e3,
            self.body_bytes / self.requests as u64,
        )
    }
}

/// Time that a process has computed, user and system (proc(5), fields 14 and 15).
fn cpu_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<_> = after_name.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn tracing(number: u64) -> String {
    let config = json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } });
    request("debug_traceBlockByNumber", json!([format!("0x{number:x}"), config]))
}

/// Asks one after the other on one connection, until `next` has no more; returns times and bytes.
async fn ask(to: SocketAddr, next: impl Fn() -> Option<u64>) -> Vec<(Duration, u64)> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut asked = Vec::new();
    while let Some(number) = next() {
        let request = Request::post("/")
            .header(header::HOST, to.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT_ENCODING, "gzip")
            .body(Full::new(Bytes::from(tracing(number))))
            .unwrap();
        let started = Instant::now();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().data_ref().map_or(0, |data| data.len() as u64);
        }
        asked.push((started.elapsed(), bytes));
        sender.ready().await.unwrap();
    }
    asked
}

async fn measure(
    what: &'static str,
    pid: u32,
    to: SocketAddr,
    numbers: impl Fn(usize) -> Option<u64> + Send + Sync + 'static,
) -> Taken {
    let (numbers, count) = (Arc::new(numbers), Arc::new(AtomicUsize::new(0)));
    let (cpu, started) = (cpu_of(pid), Instant::now());
    let connections = (0..CONNECTIONS).map(|_| {
        let (numbers, count) = (numbers.clone(), count.clone());
        tokio::spawn(ask(to, move || numbers(count.fetch_add(1, Ordering::Relaxed))))
    });
    let mut asked = Vec::new();
    for connection in connections.collect::<Vec<_>>() {
        asked.extend(connection.await.unwrap());
    }
    let (wall, cpu) = (started.elapsed(), cpu_of(pid) - cpu);
    asked.sort_unstable();
    let body_bytes = asked.iter().map(|(_, bytes)| bytes).sum();
    let median = asked[asked.len() / 2].0;
    Taken { what, requests: asked.len(), wall, cpu, body_bytes, median }
}

/// The body of one answer, unpacked.
async fn answer(to: SocketAddr, number: u64) -> Value {
    let headers = [(header::ACCEPT_ENCODING, "gzip".to_owned())];
    let response = crate::http::post(to, tracing(number), &headers).await.unwrap();
    let mut text = String::new();
    GzDecoder::new(&*response.body).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_question_on_both_ports() {
    let blocks: u64 = std::env::var("PRESTATE_BENCH_BLOCKS")
        .map_or(6, |blocks| blocks.parse().expect("PRESTATE_BENCH_BLOCKS is a number"));
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start(folder.path(), &[]);
    let (mut workload, deploying) = Workload::deploy(CODE_BYTES);
    let mut time = 0x6490_fdd2_u64;
    for block in 0..=blocks {
        let txs: Vec<_> = match block {
            0 => deploying.clone(),
            _ => (0..CALLS)
                .map(|call| workload.store(workload.large, SLOTS, call * 8, block * 1_000 + call))
                .collect(),
        };
        time += 12;
        let attributes = json!({
            "timestamp": format!("0x{time:x}"), "prevRandao": B256::ZERO,
            "suggestedFeeRecipient": Address::with_last_byte(0xfe), "withdrawals": [],
            "parentBeaconBlockRoot": B256::ZERO,
        });
        let params = json!([attributes, txs, null]);
        call(program.http, "testing_commitBlockV1", params).await.unwrap();
    }
    let head = blocks + 1;
    eventually("all diffs are there", async || {
        let status = program.status().await;
        let durable = &status["pipeline"]["durable"]["number"];
        durable.as_str().is_some_and(|number| number == format!("0x{head:x}"))
    })
    .await;

    let first = 2;
    let each = move |at: usize| Some(first + at as u64).filter(|number| *number <= head);
    let repeated = (blocks as usize * 10).min(2_000);
    let newest = 8.min(blocks);
    let again = move |at: usize| (at < repeated).then(|| head - at as u64 % newest);
    let miss = measure("lane, first time", program.id(), program.lane, each).await;
    // Those that are asked for again and again are in the cache by now.
    let hit = measure("lane, again", program.id(), program.lane, again).await;
    let node = measure("reth's own", program.id(), program.http, each).await;
    println!("| asked | requests | a second | ms CPU a request | ms (median) | bytes |");
    println!("|---|---|---|---|---|---|");
    for taken in [&node, &miss, &hit] {
        println!("{taken}");
    }

    let mut sum = Compared::default();
    for number in [first, head] {
        let (here, there) =
            (answer(program.lane, number).await, answer(program.http, number).await);
        let length = |answer: &Value| answer["result"].as_array().unwrap().len();
        assert_eq!((length(&here), length(&there)), (CALLS as usize, CALLS as usize));
        let block =
            call(program.http, "eth_getBlockByNumber", json!([format!("0x{number:x}"), false]));
        let hash = block.await.unwrap()["hash"].as_str().unwrap().to_owned();
        compare(program.http, program.lane, &hash, &mut sum).await;
    }
    assert_eq!(sum.txs, 2 * CALLS as usize);
    assert_eq!((miss.requests as u64, node.requests as u64), (blocks, blocks));
}

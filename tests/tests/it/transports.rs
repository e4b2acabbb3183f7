//! Every method over every transport: the same bytes.

use flate2::read::GzDecoder;
use futures_util::{SinkExt, StreamExt};
use prestate_host_embedded::MemoryChain;
use prestate_lane::{Lane, LaneConfig, Running};
use prestate_rpc::{METHODS, Rpc, RpcConfig};
use prestate_tests::{fixtures::workspace, geth::Case};
use serde_json::value::RawValue;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    runtime::Runtime,
};
use tokio_tungstenite::{client_async, tungstenite::Message};

/// Calls in one batch.
const BATCH: usize = 50;

/// Chains whose recorded questions are asked, beside one of each method below.
const CASES: [&str; 3] =
    ["errors.json", "scenarios/S2-shanghai.json", "scenarios/calls-inside-a-block-prague.json"];

/// Methods that count what was asked: their answers change from call to call.
const VOLATILE: [&str; 2] = ["debug_getCacheStatus", "prestate_status"];

/// Methods that only a transport with notifications has.
const NOTIFYING: [&str; 2] = ["prestate_subscribe", "prestate_unsubscribe"];

/// Questions of consumers, of a chain with some blocks.
const CONSUMERS: [(&str, &str); 5] = [
    ("prestate_getDiffRange", r#"["0x0","latest",{"code":"full"}]"#),
    ("prestate_getDiffRange", r#"["latest","0x0"]"#),
    (
        "prestate_getStorage",
        r#"["latest",{"0x00000000000000000000000000000000000000aa":["0x0000000000000000000000000000000000000000000000000000000000000001"]}]"#,
    ),
    (
        "prestate_getAccounts",
        r#"["latest",{"0x00000000000000000000000000000000000000aa":{"code":"full"}}]"#,
    ),
    (
        "prestate_resync",
        r#"[{"from":{"number":"0x100000","hash":"0x0000000000000000000000000000000000000000000000000000000000000001"}}]"#,
    ),
];

/// A server over a recorded chain.
struct Served {
    running: Running,
    uds: PathBuf,
}

async fn serve(case: &Case, folder: &Path) -> Served {
    let genesis = serde_json::from_str(case.genesis.get()).expect("a genesis");
    let chain = MemoryChain::from_genesis(&genesis);
    for block in &case.blocks {
        chain.import_rlp(block).expect("a valid block");
    }
    let uds = folder.join("prestate.sock");
    let config = LaneConfig {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        uds: Some(uds.clone()),
        ..Default::default()
    };
    let rpc = Rpc::new(Arc::new(chain), RpcConfig::default());
    let running = Lane::bind(config, Arc::new(rpc)).await.expect("a free port");
    Served { running, uds }
}

/// The questions: every fifth of what was recorded (all with `PRESTATE_ALL_TRANSPORTS` set), and
/// each method at least once.
fn questions(case: &Case) -> Vec<(String, String)> {
    let served = |method: &str| METHODS.contains(&method);
    let mut asked: Vec<_> = case
        .requests
        .iter()
        .filter(|request| served(&request.method))
        // A timeout is a race by its nature.
        .filter(|request| !request.params.get().contains("timeout"))
        .step_by(if std::env::var_os("PRESTATE_ALL_TRANSPORTS").is_some() { 1 } else { 5 })
        .map(|request| (request.method.clone(), request.params.get().to_owned()))
        .collect();
    let hash = format!("\"0x{}\"", "00".repeat(32));
    asked.extend(CONSUMERS.map(|(method, params)| (method.to_owned(), params.to_owned())));
    for method in METHODS.iter().filter(|method| !NOTIFYING.contains(method)) {
        for params in
            ["[]", "[\"latest\"]", "[\"0x1\",{}]", "[\"0x1\",false]", "[\"0x1\",[\"trace\"]]"]
        {
            asked.push(((*method).to_owned(), params.to_owned()));
        }
        asked.push(((*method).to_owned(), format!("[{hash}]")));
        let object = "[{\"fromBlock\":\"0x1\",\"toBlock\":\"0x1\"}]";
        asked.push(((*method).to_owned(), object.to_owned()));
    }
    asked
}

fn call(id: usize, (method, params): &(String, String)) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}")
}

async fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).await.expect("connected");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// One POST over a kept connection, its body decoded.
async fn post(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    body: &str,
    coding: &str,
) -> String {
    let head = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    let header = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    let mut body = Vec::new();
    if header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            while !size.ends_with("\r\n") {
                size.push(stream.read_u8().await.expect("a chunk") as char);
            }
            let size = usize::from_str_radix(size.trim(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await.expect("a chunk");
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        let length = header("content-length").expect("a length").parse().expect("a number");
        body.resize(length, 0);
        stream.read_exact(&mut body).await.expect("a body");
    }
    let text = match header("content-encoding").as_deref() {
        Some("gzip") => {
            let mut text = Vec::new();
            GzDecoder::new(body.as_slice()).read_to_end(&mut text).expect("one gzip member");
            text
        }
        Some("zstd") => zstd::decode_all(body.as_slice()).expect("zstd"),
        _ => body,
    };
    String::from_utf8(text).expect("text")
}

/// The entries of a batch's answer as they came.
fn entries(answer: &str) -> Vec<String> {
    let entries: Vec<&RawValue> = serde_json::from_str(answer).expect("an array");
    entries.into_iter().map(|entry| entry.get().to_owned()).collect()
}

async fn compare(case: &Case) -> (usize, usize, BTreeSet<String>) {
    let folder =
        std::env::temp_dir().join(format!("prestate-{}-{}", std::process::id(), case.name));
    std::fs::create_dir_all(&folder).expect("a folder");
    let Served { running, uds } = serve(case, &folder).await;
    let asked = questions(case);
    let methods = asked.iter().map(|(method, _)| method.clone()).collect();
    let addr = running.local_addr();
    let mut plain = connect(addr).await;
    let mut coded = connect(addr).await;
    let mut unix = UnixStream::connect(&uds).await.expect("connected");
    let stream = connect(addr).await;
    let (mut socket, _) = client_async(format!("ws://{addr}/"), stream).await.expect("upgraded");
    let (mut requests, mut differences) = (0, String::new());
    let mut wants = Vec::with_capacity(asked.len());
    for (id, question) in asked.iter().enumerate() {
        let body = call(id, question);
        let want = post(&mut plain, &body, "identity").await;
        socket.send(Message::text(&*body)).await.expect("sent");
        let over_socket = loop {
            match socket.next().await.expect("an answer").expect("a message") {
                Message::Text(text) => break text.to_string(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{body}: {other:?}"),
            }
        };
        let others = [
            ("gzip", post(&mut coded, &body, "gzip").await),
            ("zstd", post(&mut coded, &body, "zstd").await),
            ("unix socket", post(&mut unix, &body, "gzip").await),
            ("WebSocket", over_socket),
        ];
        requests += 1 + others.len();
        for (transport, have) in others {
            let counts = VOLATILE.contains(&question.0.as_str()) && have.contains("\"result\"");
            if have != want && !counts {
                let _ = writeln!(differences, "{transport}: {body}\n  {want:.300}\n  {have:.300}");
            }
        }
        wants.push(want);
    }
    for coding in ["identity", "gzip", "zstd"] {
        for (at, batch) in asked.chunks(BATCH).enumerate() {
            let calls: Vec<_> = batch
                .iter()
                .enumerate()
                .map(|(i, question)| call(at * BATCH + i, question))
                .collect();
            let answer = post(&mut coded, &format!("[{}]", calls.join(",")), coding).await;
            requests += batch.len();
            let have = entries(&answer);
            assert_eq!(have.len(), batch.len());
            for ((have, want), question) in have.iter().zip(&wants[at * BATCH..]).zip(batch) {
                if have != want && !VOLATILE.contains(&question.0.as_str()) {
                    let _ = writeln!(differences, "batch, {coding}\n  {want:.300}\n  {have:.300}");
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}: {differences}", case.name);
    drop(running);
    let _ = std::fs::remove_dir_all(&folder);
    (requests, asked.len(), methods)
}

#[test]
fn all_transports_agree() {
    let runtime = Runtime::new().expect("a runtime");
    let (mut requests, mut questions, mut methods) = (0, 0, BTreeSet::new());
    for name in CASES {
        let path = workspace().join("tests/cases").join(name);
        let case = Case::read(&path).expect("a case");
        let (sent, asked, seen) = runtime.block_on(compare(&case));
        requests += sent;
        questions += asked;
        methods.extend(seen);
    }
    assert_eq!(methods.len(), METHODS.len() - NOTIFYING.len());
    println!(
        "{questions} questions of {} methods, {requests} requests over identity, gzip, zstd, unix \
         socket, WebSocket and batches: 0 differences",
        methods.len()
    );
}

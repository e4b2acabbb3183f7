//! WebSocket.

use crate::support::{Server, big_json, result, rpc, streamed};
use futures_util::{SinkExt, StreamExt};
use prestate_lane::LaneConfig;
use std::{io::Write, sync::atomic::Ordering::SeqCst, time::Duration};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig, protocol::frame::coding::CloseCode},
};

pub(crate) type Socket = WebSocketStream<TcpStream>;

pub(crate) async fn open(server: &Server) -> Socket {
    let stream = TcpStream::connect(server.addr).await.unwrap();
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    let url = format!("ws://{}/", server.addr);
    client_async_with_config(url, stream, Some(config)).await.unwrap().0
}

/// The next text; everything is given up after a while.
pub(crate) async fn text(socket: &mut Socket) -> String {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), socket.next()).await;
        match next.expect("nothing came").expect("closed").unwrap() {
            Message::Text(text) => return text.to_string(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn ask(socket: &mut Socket, body: &str) -> String {
    socket.send(Message::text(body)).await.unwrap();
    text(socket).await
}

/// How the server ends it.
async fn close_code(socket: &mut Socket) -> Option<CloseCode> {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), socket.next()).await;
        match next.expect("nothing came") {
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(error)) => panic!("{error}"),
            None => return None,
        }
    }
}

#[test]
fn calls_and_batches_answer_as_over_http() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        for body in [
            rpc("eth_chainId", "[]"),
            rpc("test_echo", r#"[{"a" : 1.0}]"#),
            rpc("test_error", "[]"),
            rpc("test_panic", "[]"),
            rpc("nope_x", "[]"),
            rpc("test_big", "[3000000]"),
            "{".into(),
            "[]".into(),
            "7".into(),
            r#"{"jsonrpc":"2.0","id":true,"method":"eth_chainId"}"#.into(),
            r#"{"jsonrpc":"2.0","id":"\u0041","method":"eth_chainId"}"#.into(),
            r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#.into(),
            format!("[{},{}]", rpc("eth_chainId", "[]"), rpc("test_error", "[]")),
        ] {
            let over_http = tokio::task::block_in_place(|| server.call(&body));
            assert!(ask(&mut socket, &body).await == over_http, "{body}");
        }
        socket.send(Message::binary(rpc("eth_chainId", "[]"))).await.unwrap();
        assert_eq!(text(&mut socket).await, result("\"0x1\""));
        socket.close(None).await.unwrap();
        assert_eq!(close_code(&mut socket).await, Some(CloseCode::Normal));
    });
    server.until("the place is free", |server| server.stats().connections_open == 0);
    assert_eq!(server.stats().sockets, 1);
}

/// B41 (nodecore#267): silence.
#[test]
fn notifications_are_not_answered() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        let note = r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#;
        socket.send(Message::text(note)).await.unwrap();
        socket.send(Message::text(format!("[{note},{note}]"))).await.unwrap();
        assert_eq!(ask(&mut socket, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
    });
    assert_eq!(server.seen.calls.load(SeqCst), 4);
}

/// A slow call does not hold up the ones after it.
#[test]
fn calls_run_side_by_side() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        socket.send(Message::text(rpc("test_sleep", "[1000]"))).await.unwrap();
        assert_eq!(ask(&mut socket, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
        assert_eq!(text(&mut socket).await, result("1000"));
    });
}

#[test]
fn streams_are_one_message() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        let answer = ask(&mut socket, &rpc("test_stream", "[20,100000]")).await;
        assert!(answer == result(&streamed(20, 100_000)));
        // One that breaks off ends the socket, unfinished.
        for end in ["fail", "vanish"] {
            let mut socket = open(&server).await;
            let body = rpc("test_stream", &format!(r#"[5,5000,"{end}"]"#));
            socket.send(Message::text(body)).await.unwrap();
            assert_eq!(close_code(&mut socket).await, Some(CloseCode::Error));
        }
        assert_eq!(ask(&mut socket, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
    });
}

/// Pings are answered, and calls run, while a stream goes on.
#[test]
fn streams_do_not_hold_up_the_socket() {
    let server = Server::start();
    server.block_on(async {
        let mut socket = open(&server).await;
        let body = rpc("test_stream", r#"[2,5000,"hang"]"#);
        socket.send(Message::text(body)).await.unwrap();
        tokio::task::block_in_place(|| {
            server.until("it streams", |server| server.seen.pieces.load(SeqCst) == 2);
        });
        socket.send(Message::Ping("here".into())).await.unwrap();
        let next = tokio::time::timeout(Duration::from_secs(20), socket.next()).await;
        assert_eq!(next.unwrap().unwrap().unwrap(), Message::Pong("here".into()));
        socket.send(Message::text(rpc("test_error", "[]"))).await.unwrap();
        tokio::task::block_in_place(|| {
            server.until("the call runs", |server| server.stats().errors == 1);
        });
        // Hanging up in the middle ends the maker.
        socket.close(None).await.unwrap();
        tokio::task::block_in_place(|| {
            server.until("it ends", |server| {
                server.seen.streams_ended.load(SeqCst) == 1 && server.stats().connections_open == 0
            });
        });
    });
}

/// B25 (go-ethereum#32279): messages are limited; the others live on.
#[test]
fn large_messages_end_their_socket_alone() {
    let server = Server::with(LaneConfig { max_request_bytes: 10_000, ..Default::default() });
    server.block_on(async {
        let mut other = open(&server).await;
        let mut socket = open(&server).await;
        let fits = format!("{}{}", rpc("eth_chainId", "[]"), " ".repeat(9_900));
        assert_eq!(ask(&mut socket, &fits).await, result("\"0x1\""));
        socket.send(Message::text(" ".repeat(10_001))).await.unwrap();
        assert_eq!(close_code(&mut socket).await, Some(CloseCode::Size));
        assert_eq!(ask(&mut other, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
    });
}

/// B30 (jsonrpsee#553): an oversized answer is an error with its id, and the socket goes on.
#[test]
fn large_answers_are_errors() {
    let server = Server::with(LaneConfig { max_response_bytes: 1000, ..Default::default() });
    server.block_on(async {
        let mut socket = open(&server).await;
        let answer = ask(&mut socket, &rpc("test_big", "[1001]")).await;
        assert!(
            answer.starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005"#),
            "{answer}"
        );
        assert_eq!(ask(&mut socket, &rpc("test_big", "[1000]")).await, result(&big_json(1000)));
    });
}

/// B26 (go-ethereum#35111): 404 on another path; versions and keys are checked.
#[test]
fn handshakes_are_checked() {
    let server = Server::start();
    let upgrade = "connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n";
    let version = "sec-websocket-version: 13\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let get = |path: &str, headers: &[&str]| server.connect().get(path, &headers.concat());
    assert_eq!(get("/x", &[upgrade, version, key]).status, 404);
    assert_eq!(get("/", &[upgrade, version]).status, 400);
    let refused = get("/", &[upgrade, key, "sec-websocket-version: 8\r\n"]);
    assert_eq!((refused.status, refused.header("sec-websocket-version")), (426, Some("13")));
    assert_eq!(get("/", &[upgrade, version, key, "origin: http://evil.example\r\n"]).status, 403);
    // B24 (erigon#2143): compression is taken up only if it is offered, and can be switched off.
    let offered = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";
    let plain = Server::with(LaneConfig { compression: false, ..Default::default() });
    let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for (server, offer, answer) in
        [(&server, "", None), (&server, offered, Some(agreed)), (&plain, offered, None)]
    {
        let response = server.connect().get("/", &[upgrade, version, key, offer].concat());
        assert_eq!(response.status, 101);
        // The example of RFC 6455 §1.3.
        assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(response.header("sec-websocket-extensions"), answer);
    }
}

/// permessage-deflate both ways, whole and streamed; every message stands alone.
#[test]
fn messages_are_compressed_where_agreed() {
    let server = Server::start();
    let mut client = server.connect();
    let response = client.get(
        "/",
        "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-extensions: permessage-deflate\r\n",
    );
    assert_eq!(response.status, 101);
    for compressed in [false, true] {
        for (body, expected) in [
            (rpc("eth_chainId", "[]"), result("\"0x1\"")),
            (rpc("test_big", "[3000000]"), result(&big_json(3_000_000))),
            (rpc("test_miss", "[300000]"), result(&big_json(300_000))),
            (rpc("test_big", "[3000000]"), result(&big_json(3_000_000))),
            (rpc("test_stream", "[20,30000]"), result(&streamed(20, 30_000))),
            (
                format!("[{},{}]", rpc("test_big", "[70000]"), rpc("test_miss", "[70000]")),
                format!("[{0},{0}]", result(&big_json(70_000))),
            ),
        ] {
            client.write(client_frame(&body, compressed));
            let (text, was_compressed) = client.read_message();
            assert!(text == expected, "{} {body}", text.len());
            assert_eq!(was_compressed, expected.len() >= 1024, "{body}");
        }
    }
    let stats = server.stats();
    assert!(stats.bytes_out_gzip > 1_000_000, "{stats:?}");
}

/// A text frame as a client sends it.
fn client_frame(text: &str, compressed: bool) -> Vec<u8> {
    let mut payload = text.as_bytes().to_vec();
    if compressed {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        payload = encoder.get_ref().clone();
        assert!(payload.ends_with(&[0, 0, 0xff, 0xff]));
        payload.truncate(payload.len() - 4);
    }
    let mut frame = vec![if compressed { 0xc1 } else { 0x81 }, 0x80 | 126];
    frame.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[9, 8, 7, 6]);
    frame.extend(payload.iter().zip([9, 8, 7, 6].iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A peer that does not answer pings is dropped, one that does stays.
#[test]
fn peers_that_are_gone_are_dropped() {
    let ping_interval = Duration::from_millis(200);
    let server = Server::with(LaneConfig { ping_interval, ..Default::default() });
    let upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut silent = server.connect();
    assert_eq!(silent.get("/", upgrade).status, 101);
    server.block_on(async {
        let mut alive = open(&server).await;
        let pings = async {
            let mut pings = 0;
            while pings < 6 {
                match alive.next().await.unwrap().unwrap() {
                    Message::Ping(_) => pings += 1,
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), pings).await.unwrap();
        assert_eq!(ask(&mut alive, &rpc("eth_chainId", "[]")).await, result("\"0x1\""));
    });
    // Pings, then a close frame with 1008.
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut silent.stream, &mut bytes).unwrap();
    let close =
        bytes.windows(4).position(|four| four[0] == 0x88 && four[2..] == 1008_u16.to_be_bytes());
    assert!(close.is_some(), "{bytes:02x?}");
}

/// A stopped reader of a socket does not pin its answers.
#[test]
fn sockets_that_are_not_read_are_dropped() {
    let write_timeout = Duration::from_millis(300);
    let server = Server::with(LaneConfig { write_timeout, ..Default::default() });
    server.block_on(async {
        let mut socket = open(&server).await;
        socket.send(Message::text(rpc("test_big", "[30000000]"))).await.unwrap();
        tokio::task::block_in_place(|| {
            server.until("it is dropped", |server| {
                let stats = server.stats();
                stats.hits == 1
                    && stats.connections_open == 0
                    && stats.response_bytes_in_flight == 0
            });
        });
    });
}

#[test]
fn shutdown_closes_sockets() {
    let server = Server::start();
    let mut socket = server.block_on(open(&server));
    server.block_on(async {
        socket.send(Message::text(rpc("test_sleep", "[500]"))).await.unwrap();
    });
    server.until("it runs", |server| server.seen.running.load(SeqCst) == 1);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let std = socket.into_inner().into_std().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.shutdown(Duration::from_secs(20)));
        runtime.block_on(async {
            let stream = TcpStream::from_std(std).unwrap();
            let role = tokio_tungstenite::tungstenite::protocol::Role::Client;
            let mut socket = WebSocketStream::from_raw_socket(stream, role, None).await;
            assert_eq!(text(&mut socket).await, result("500"));
            assert_eq!(close_code(&mut socket).await, Some(CloseCode::Away));
        });
    });
}

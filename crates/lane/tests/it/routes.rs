//! Paths, methods, media types, unix socket, start-up errors.

use crate::support::{Client, KNOWN, Server, TestService, result, rpc};
use prestate_lane::{Lane, LaneConfig, LaneError, MetricsText};
use std::{
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

/// B46 (jsonrpsee#1277; in the laboratory `application/json; profile=x` was refused).
#[test]
fn media_types_are_geths() {
    let server = Server::start();
    let send = |kind: &str| {
        let body = rpc("eth_chainId", "[]");
        let mut client = server.connect();
        client.write(format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {}\r\n\r\n{body}",
            body.len()
        ));
        client.read()
    };
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "application/json; profile=x",
        "Application/JSON",
        "application/json-rpc",
        "application/json-rpc;charset=utf-8",
        "application/jsonrequest",
    ] {
        let response = send(&format!("content-type: {kind}\r\n"));
        assert_eq!((response.status, response.text()), (200, result("\"0x1\"")), "{kind}");
    }
    // Browsers send these without asking first: they must not reach a method.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let response = send(&format!("content-type: {kind}\r\n"));
        assert_eq!(response.status, 415, "{kind}");
        assert_eq!(response.text(), "invalid content type, only application/json is supported\n");
    }
    assert_eq!(send("").status, 415);
    assert_eq!(server.seen.calls.load(SeqCst), 8);
}

#[test]
fn methods_and_paths() {
    let server = Server::start();
    for (method, path, status) in [
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("OPTIONS", "/", 200),
        ("PUT", "/", 405),
        ("DELETE", "/", 405),
        ("PATCH", "/", 405),
        ("GET", "/x", 404),
        ("POST", "/x", 404),
        ("GET", "/v1/blocks", 404),
        ("GET", "/health", 200),
        ("HEAD", "/ready", 200),
        ("POST", "/health", 405),
        ("DELETE", &format!("/v1/blocks/{KNOWN}/geth"), 405),
        ("GET", "//", 404),
        ("GET", "/../", 404),
    ] {
        let response = server.connect().send(method, path, "");
        assert_eq!(response.status, status, "{method} {path}");
        assert_eq!(response.header("allow").is_some(), status == 405, "{method} {path}");
    }
    assert_eq!(server.connect().send("PUT", "/", "").text(), "method not allowed\n");
    assert!(server.connect().get("/", "").text().contains("<title>prestate</title>"));
    assert_eq!(server.connect().get("/health", "").text(), r#"{"status":"ok"}"#);
    assert_eq!(server.connect().get("/ready", "").text(), r#"{"status":"ready"}"#);
}

/// `--http.api`: namespaces and methods; others look as if they were not there.
#[test]
fn api_list_holds_for_calls_batches_and_resources() {
    let api = Some(vec!["eth".to_owned(), "test_echo".to_owned()]);
    let server = Server::with(LaneConfig { api, ..Default::default() });
    let missing = |method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32601,"message":"the method {method} does not exist/is not available"}}}}"#
        )
    };
    assert_eq!(server.call(&rpc("eth_chainId", "[]")), result("\"0x1\""));
    assert_eq!(server.call(&rpc("test_echo", "[1]")), result("[1]"));
    assert_eq!(server.call(&rpc("test_big", "[1]")), missing("test_big"));
    // B35: a batch is no way around it.
    let batch = format!("[{},{}]", rpc("eth_chainId", "[]"), rpc("test_error", "[]"));
    let expected = format!("[{},{}]", result("\"0x1\""), missing("test_error"));
    assert_eq!(server.call(&batch), expected);
    assert_eq!(server.connect().get(&format!("/v1/blocks/{KNOWN}/geth"), "").status, 404);
    // Readiness is the lane's own question.
    assert_eq!(server.connect().get("/ready", "").status, 200);
}

#[test]
fn start_up_errors_say_what_is_wrong() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |config: LaneConfig| {
        runtime.block_on(Lane::bind(config, Arc::new(TestService::default()))).unwrap_err()
    };
    let base = || LaneConfig { addr: ([127, 0, 0, 1], 0).into(), ..Default::default() };

    let error = bind(LaneConfig { api: Some(vec!["nope".into()]), ..base() });
    assert_eq!(
        error.to_string(),
        "api 'nope' is neither a namespace nor a method here; namespaces: debug, eth, prestate, test"
    );
    let error = bind(LaneConfig { max_batch_len: 0, ..base() });
    assert_eq!(error.to_string(), "max_batch_len must be at least 1, is 0");
    let error = bind(LaneConfig { write_timeout: Duration::ZERO, ..base() });
    assert!(matches!(error, LaneError::TooSmall { option: "write_timeout", .. }), "{error}");
    let error = bind(LaneConfig { max_request_bytes_in_flight: 10, ..base() });
    assert!(matches!(error, LaneError::TooSmall { .. }), "{error}");
    let error = bind(LaneConfig { corsdomain: vec!["a.example".into()], ..base() });
    assert!(matches!(error, LaneError::BadOrigin { .. }), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = bind(LaneConfig { addr: taken.local_addr().unwrap(), ..base() });
    assert!(matches!(error, LaneError::Bind { addr, .. } if addr == taken.local_addr().unwrap()));
}

#[test]
fn unix_socket_serves_the_same() {
    let dir = std::env::temp_dir().join(format!("prestate-lane-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("http.sock");
    // Left behind by a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::with(LaneConfig { uds: Some(path.clone()), ..Default::default() });
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = Client::over(UnixStream::connect(&path).unwrap());
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").text(), result("\"0x1\""));
    // Whatever Host a client makes up.
    client.stream.write_all(b"GET /health HTTP/1.1\r\nhost: some.where\r\n\r\n").unwrap();
    assert_eq!(client.read().status, 200);

    // A living socket and other files are not replaced.
    let bind = |uds| {
        let addr = ([127, 0, 0, 1], 0).into();
        let config = LaneConfig { addr, uds: Some(uds), ..Default::default() };
        server.block_on(Lane::bind(config, Arc::new(TestService::default())))
    };
    assert!(matches!(bind(path.clone()), Err(LaneError::BindUnix { .. })));
    let file = dir.join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(matches!(bind(file.clone()), Err(LaneError::BindUnix { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
    drop(bind(dir.join("missing/x.sock")).unwrap_err());

    drop(client);
    server.shutdown(Duration::from_secs(5));
    assert!(!path.exists());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// `/metrics` is what the program brings, and is not there without.
#[test]
fn metrics_are_what_the_program_brings() {
    let server = Server::start();
    assert_eq!(server.connect().get("/metrics", "").status, 404);
    let vhosts = vec!["localhost".into()];
    let metrics = Some(MetricsText::new(|| "prestate_x 1\n".to_owned()));
    let server = Server::with(LaneConfig { metrics, vhosts, ..LaneConfig::default() });
    let response = server.connect().get("/metrics", "");
    assert_eq!((response.status, response.text().as_str()), (200, "prestate_x 1\n"));
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(server.connect().send("HEAD", "/metrics", "").status, 200);
    let response = server.connect().send("POST", "/metrics", "content-length: 0\r\n");
    assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
    // The Host check applies.
    let mut client = server.connect();
    client.write("GET /metrics HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n");
    assert_eq!(client.read().status, 403);
}

//! Host list, CORS, tokens.

use crate::support::{KNOWN, Response, Server, request, result, rpc};
use prestate_lane::{JwtSecret, LaneConfig};
use std::{
    sync::atomic::Ordering::SeqCst,
    time::{SystemTime, UNIX_EPOCH},
};

fn with_host(server: &Server, host: &str) -> Response {
    let mut client = server.connect();
    let request = request(&rpc("eth_chainId", "[]"), "");
    client.write(request.replace("host: localhost", &format!("host: {host}")));
    client.read()
}

/// B58 (go-ethereum#34693, #15962, #32488: DNS rebinding).
#[test]
fn foreign_hosts_are_refused() {
    let server = Server::start();
    for host in ["localhost", "LOCALHOST:8545", "127.0.0.1:8545", "[::1]:1", "10.0.0.1"] {
        assert_eq!(with_host(&server, host).status, 200, "{host}");
    }
    for host in ["EVIL.example", "evil.example:8545", "localhost.evil.example"] {
        let response = with_host(&server, host);
        assert_eq!((response.status, response.text().as_str()), (403, "invalid host specified\n"));
    }
    assert_eq!(server.seen.calls.load(SeqCst), 5);
    let server = Server::with(LaneConfig {
        vhosts: vec!["Node.Example".into(), "other".into()],
        ..Default::default()
    });
    assert_eq!(with_host(&server, "node.example:8545").status, 200);
    assert_eq!(with_host(&server, "localhost").status, 403);
    let server = Server::with(LaneConfig { vhosts: vec!["*".into()], ..Default::default() });
    assert_eq!(with_host(&server, "evil.example").status, 200);
}

/// As Geth v1.17.10 answers, `Vary` joined into one.
#[test]
fn cors_answers_as_geth_does() {
    let preflight = |server: &Server, origin: &str, method: &str| {
        server.connect().send(
            "OPTIONS",
            "/",
            &format!(
                "origin: {origin}\r\naccess-control-request-method: {method}\r\n\
                 access-control-request-headers: content-type\r\n"
            ),
        )
    };
    let listed = |origins: &[&str]| {
        let corsdomain = origins.iter().map(|&origin| origin.to_owned()).collect();
        Server::with(LaneConfig { corsdomain, ..Default::default() })
    };
    let vary =
        "accept-encoding, origin, access-control-request-method, access-control-request-headers";

    let server = listed(&["http://a.example", "https://b.example:8080"]);
    for origin in ["http://a.example", "https://b.example:8080"] {
        let response = preflight(&server, origin, "POST");
        assert_eq!((response.status, response.body.len()), (200, 0));
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        assert_eq!(response.header("access-control-allow-methods"), Some("POST"));
        assert_eq!(response.header("access-control-allow-headers"), Some("content-type"));
        assert_eq!(response.header("access-control-max-age"), Some("600"));
        assert_eq!(response.header("vary"), Some(vary));
        let header = format!("origin: {origin}\r\n");
        let response = server.connect().post(&rpc("eth_chainId", "[]"), &header);
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
    }
    for (origin, method) in
        [("http://evil.example", "POST"), ("http://a.example", "DELETE"), ("null", "POST")]
    {
        let response = preflight(&server, origin, method);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("access-control-allow-origin"), None, "{origin} {method}");
    }
    let response = server.connect().post(&rpc("eth_chainId", "[]"), "origin: http://evil\r\n");
    assert_eq!(response.header("access-control-allow-origin"), None);

    let response = preflight(&listed(&["*"]), "http://any.example", "POST");
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    let response = preflight(&listed(&[]), "http://any.example", "POST");
    assert_eq!(response.header("access-control-allow-origin"), None);
    assert_eq!(response.header("access-control-max-age"), None);
}

#[test]
fn tokens_are_asked_for() {
    let secret = JwtSecret::from_hex(&"5a".repeat(32)).unwrap();
    let server = Server::with(LaneConfig {
        jwt_secret: Some(secret.clone()),
        corsdomain: vec!["*".into()],
        ..Default::default()
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let post = |header: &str| server.connect().post(&rpc("eth_chainId", "[]"), header);
    let bearer = |iat| format!("authorization: Bearer {}\r\n", secret.token(iat));
    assert_eq!(post(&bearer(now)).text(), result("\"0x1\""));
    assert_eq!(post(&bearer(now).replace("Bearer", "bEARER")).status, 200);
    for (header, text) in [
        (String::new(), "missing token\n"),
        ("authorization: Basic abc\r\n".into(), "missing token\n"),
        ("authorization: Bearer abc\r\n".into(), "token is malformed\n"),
        (bearer(now - 120), "stale token\n"),
        (bearer(now + 120), "future token\n"),
    ] {
        let response = post(&header);
        assert_eq!((response.status, response.text().as_str()), (401, text), "{header}");
        // So that a page can tell a bad token from a network fault.
        let response = post(&format!("{header}origin: http://a.example\r\n"));
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    }
    assert_eq!(server.seen.calls.load(SeqCst), 2);
    // Resources and sockets too; health and preflights not.
    let resource = format!("/v1/blocks/{KNOWN}/block");
    assert_eq!(server.connect().get(&resource, "").status, 401);
    assert_eq!(server.connect().get(&resource, &bearer(now)).status, 200);
    assert_eq!(server.connect().get("/", "").status, 401);
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    assert_eq!(server.connect().get("/", upgrade).status, 401);
    assert_eq!(server.connect().get("/", &format!("{upgrade}{}", bearer(now))).status, 101);
    assert_eq!(server.connect().get("/health", "").status, 200);
    assert_eq!(server.connect().get("/ready", "").status, 200);
    let preflight = "origin: http://a.example\r\naccess-control-request-method: POST\r\n\
                     access-control-request-headers: authorization\r\n";
    let response = server.connect().send("OPTIONS", "/", preflight);
    assert_eq!(response.header("access-control-allow-headers"), Some("authorization"));
}

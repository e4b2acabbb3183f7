//! Ids, notifications, batches, malformed input.

use crate::support::{Server, request, result, rpc};
use std::sync::atomic::Ordering::SeqCst;

fn invalid(id: &str, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"{text}"}}}}"#)
}

/// B37 (jsonrpsee takes fractions, negative numbers and exponents for notifications),
/// B38 (jsonrpsee#1376, null), B39 (node-mole-rpc#17, 0 and ""), B40 (chopsticks#807, strings).
#[test]
fn ids_come_back_byte_for_byte() {
    let server = Server::start();
    let mut client = server.connect();
    for id in [
        "1",
        "0",
        "-1",
        "1.5",
        "1e3",
        "1E+3",
        "18446744073709551616",
        "-0.0",
        "\"\"",
        "\"abc\"",
        "\"\\u0041\\n\"",
        "\"é\"",
        "null",
        "123456789012345678901234567890.5e-7",
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#);
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x1"}}"#);
        assert_eq!(client.post(&body, "").text(), expected);
        let body = format!(r#"{{"jsonrpc" : "2.0", "method":"nope_x", "id" : {id} }}"#);
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"the method nope_x does not exist/is not available"}}}}"#
        );
        assert_eq!(client.post(&body, "").text(), expected);
    }
}

/// B37: other types are refused, not taken for notifications; in a batch too.
#[test]
fn ids_of_other_types_are_refused() {
    let server = Server::start();
    let error = invalid("null", "invalid request: id is no string, number or null");
    let mut bodies = Vec::new();
    for id in ["true", "false", "{}", "[]", "[1]", "{\"a\":1}"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#);
        assert_eq!(server.call(&body), error, "{id}");
        bodies.push(body);
    }
    let expected = vec![error; bodies.len()].join(",");
    assert_eq!(server.call(&format!("[{}]", bodies.join(","))), format!("[{expected}]"));
    assert_eq!(server.seen.calls.load(SeqCst), 0);
}

/// B44 (bitcoin#20949, envoy#45202): one parser reads the first, another the last.
#[test]
fn keys_given_twice_are_refused() {
    let server = Server::start();
    let twice = |name| format!("invalid request: {name} given twice");
    for (body, id, name) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","method":"test_echo"}"#, "1", "method"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","\u006dethod":"test_echo"}"#,
            "1",
            "method",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"test_echo","params":[],"params":[1]}"#,
            "1",
            "params",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"eth_chainId"}"#, "null", "id"),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"eth_chainId"}"#, "null", "id"),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"eth_chainId"}"#, "7", "jsonrpc"),
        // A notification with a key given twice is answered: it is none for sure.
        (r#"{"jsonrpc":"2.0","method":"eth_chainId","method":"x"}"#, "null", "method"),
    ] {
        assert_eq!(server.call(body), invalid(id, &twice(name)), "{body}");
    }
    assert_eq!(server.seen.calls.load(SeqCst), 0);
    // Within params they are the method's business.
    let params = r#"[{"a":1,"a":2}]"#;
    assert_eq!(server.call(&rpc("test_echo", params)), result(params));
}

#[test]
fn escaped_spellings_mean_the_same() {
    let server = Server::start();
    let body =
        r#"{"\u006asonrpc":"\u0032.0","id":1,"method":"test\u005fecho","par\u0061ms":["\u00e9"]}"#;
    assert_eq!(server.call(body), result(r#"["\u00e9"]"#));
}

/// B41 (nodecore#267), B42 (mandel#630): a notification gets no body, and runs.
#[test]
fn notifications_run_and_get_no_body() {
    let server = Server::start();
    let mut client = server.connect();
    for body in [
        r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#,
        r#"{"jsonrpc":"2.0","method":"nope_x"}"#,
        r#"{"jsonrpc":"2.0","method":"test_panic"}"#,
        // B43 (dtpr#265): not "[]".
        r#"[{"jsonrpc":"2.0","method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_chainId"}]"#,
    ] {
        let response = client.post(body, "");
        assert_eq!((response.status, response.body.as_slice()), (204, b"".as_slice()), "{body}");
        assert_eq!(response.header("content-length"), None);
    }
    assert_eq!(server.seen.calls.load(SeqCst), 5);
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").text(), result("\"0x1\""));
}

#[test]
fn batches_answer_in_order_and_leave_notifications_out() {
    let server = Server::start();
    let body = r#" [ {"jsonrpc":"2.0","id":"a","method":"test_sleep","params":[60]},
        {"jsonrpc":"2.0","method":"eth_chainId"}, 7, {"jsonrpc":"2.0","id":2,"method":"test_error"},
        {"jsonrpc":"2.0","id":3,"method":"test_panic"},
        {"jsonrpc":"2.0","id":4,"method":"test_stream","params":[2,10]},
        {"jsonrpc":"2.0","id":5,"method":"test_stream","params":[2,10,"fail"]},
        {"id":6,"method":"eth_chainId"} ] "#;
    let stream = crate::support::streamed(2, 10);
    let expected = [
        r#"{"jsonrpc":"2.0","id":"a","result":60}"#.to_owned(),
        invalid("null", "invalid request"),
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"it \"failed\""}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"internal error"}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":4,"result":{stream}}}"#),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32000,"message":"broke"}}"#.to_owned(),
        invalid("6", "invalid request"),
    ];
    assert_eq!(server.call(body), format!("[{}]", expected.join(",")));
}

/// B36 (java-tron#6728).
#[test]
fn empty_batch_is_one_error_object() {
    let server = Server::start();
    for body in ["[]", " [ \n ] "] {
        assert_eq!(server.call(body), invalid("null", "empty batch"));
    }
}

/// Answers of Geth v1.17.10 to the same bodies, but for the empty one, which Geth leaves without
/// answer.
#[test]
fn malformed_bodies_answer_as_geth_does() {
    let server = Server::start();
    let parse = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#;
    for body in [
        "",
        " ",
        "{",
        "[",
        "{}}",
        "[{]",
        "nul",
        "{\"a\"}",
        "\u{feff}{}",
        "{'id':1}",
        "[1,]",
        r#"{"jsonrpc":"2.0","id":3,"method":"eth_chainId"} trailing"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"eth_chainId"}{"jsonrpc":"2.0"}"#,
    ] {
        assert_eq!(server.call(body), parse, "{body:?}");
    }
    for body in ["5", "\"x\"", "null", "true", "{}", r#"{"method":"eth_chainId"}"#] {
        assert_eq!(server.call(body), invalid("null", "invalid request"), "{body}");
    }
    for body in [
        r#"{"id":3,"method":"eth_chainId"}"#,
        r#"{"jsonrpc":"1.0","id":3,"method":"eth_chainId"}"#,
        r#"{"jsonrpc":2.0,"id":3,"method":"eth_chainId"}"#,
        r#"{"jsonrpc":"2.0","id":3}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":""}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"\ud800"}"#,
    ] {
        assert_eq!(server.call(body), invalid("3", "invalid request"), "{body}");
    }
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(server.call(&nested(1)), invalid("null", "empty batch"));
    assert_eq!(server.call(&nested(2)), format!("[{}]", invalid("null", "invalid request")));
    // Deep nesting neither overflows a stack nor is anyone's business but the method's.
    assert_eq!(server.call(&nested(100_000)), format!("[{}]", invalid("null", "invalid request")));
    assert_eq!(server.call(&"[".repeat(100_000)), parse);
    assert_eq!(server.seen.calls.load(SeqCst), 0);
}

#[test]
fn bytes_that_are_no_utf8_are_a_parse_error() {
    let server = Server::start();
    let mut client = server.connect();
    let mut bytes =
        request(r#"{"jsonrpc":"2.0","id":"?","method":"eth_chainId"}"#, "").into_bytes();
    let at = bytes.iter().rposition(|&byte| byte == b'?').unwrap();
    bytes[at] = 0xff;
    client.write(bytes);
    assert_eq!(client.read().json()["error"]["code"], -32700);
}

/// B45 (go-ethereum#31711): a huge name came back in the error.
#[test]
fn long_method_names_do_not_come_back() {
    let server = Server::start();
    let body = |len| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "a".repeat(len));
    let expected = invalid("1", "method name too long: 4000000 > 2048");
    assert_eq!(server.call(&body(4_000_000)), expected);
    assert_eq!(server.call(&body(2049)), invalid("1", "method name too long: 2049 > 2048"));
    // As Geth: up to the limit a name comes back whole, which bounds the answer.
    let answer = server.call(&body(2048));
    assert!(answer.contains(&"a".repeat(2048)) && answer.len() < 2048 + 200, "{answer}");
}

#[test]
fn null_params_are_none() {
    let server = Server::start();
    assert_eq!(server.call(&rpc("test_echo", "null")), result("[]"));
    assert_eq!(server.call(&rpc("test_echo", r#"{"a" : 1}"#)), result(r#"{"a" : 1}"#));
}

/// A panic is one call's error; the connection lives on.
#[test]
fn panics_stay_inside() {
    let server = Server::start();
    let mut client = server.connect();
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}"#;
    for _ in 0..3 {
        assert_eq!(client.post(&rpc("test_panic", "[]"), "").text(), error);
    }
    assert_eq!(client.post(&rpc("eth_chainId", "[]"), "").text(), result("\"0x1\""));
    assert_eq!(server.stats().panics, 3);
}

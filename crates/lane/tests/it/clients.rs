//! Real clients, where the machine has them: whole replies, batches, streams, in every coding
//! they ask for. B19: the byte counts of identity and of what each client decodes are the same.

use crate::support::{Server, big_json, result, rpc, streamed};
use std::process::{Command, Stdio};

/// Requests and the texts their replies have to decode to.
fn cases() -> Vec<(String, String)> {
    let batch = [rpc("test_big", "[200000]"), rpc("test_miss", "[3000]"), rpc("eth_chainId", "[]")];
    let answers = [result(&big_json(200_000)), result(&big_json(3000)), result("\"0x1\"")];
    vec![
        (rpc("eth_chainId", "[]"), result("\"0x1\"")),
        (rpc("test_big", "[3000000]"), result(&big_json(3_000_000))),
        (format!("[{}]", batch.join(",")), format!("[{}]", answers.join(","))),
        (rpc("test_stream", "[30,20000]"), result(&streamed(30, 20_000))),
    ]
}

/// Runs a client for every case; it reads the request on stdin and prints the decoded reply.
/// Skipped, with a line that says so, if `probe` does not run.
fn run(name: &str, probe: &[&str], command: impl Fn(&Server) -> Command) {
    let probed = Command::new(probe[0])
        .args(&probe[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !probed.is_ok_and(|status| status.success()) {
        println!("skipped: {name} is not on this machine");
        return;
    }
    let server = Server::start();
    for (body, expected) in cases() {
        let mut child = command(&server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {body}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text == expected, "{name}: {} bytes, not {}: {body}", text.len(), expected.len());
    }
    println!("{name}: {} replies", cases().len());
}

#[test]
fn curl() {
    let curl = |server: &Server, args: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail", "--max-time", "60", "-H", "content-type: application/json"]);
        command.args(args).args(["--data-binary", "@-"]).arg(server.url());
        command
    };
    let probe = ["curl", "--version"];
    run("curl", &probe, |server| curl(server, &[]));
    run("curl --compressed", &probe, |server| curl(server, &["--compressed"]));
    let gzip = ["--compressed", "-H", "accept-encoding: gzip"];
    run("curl, gzip", &probe, |server| curl(server, &gzip));
    run("curl, h2c", &probe, |server| curl(server, &["--http2-prior-knowledge"]));
    let h2 = ["--http2-prior-knowledge", "--compressed"];
    run("curl, h2c, compressed", &probe, |server| curl(server, &h2));
    let zstd = ["--compressed", "-H", "accept-encoding: zstd"];
    let has_zstd = ["sh", "-c", "curl --version | grep -q zstd"];
    run("curl, zstd", &has_zstd, |server| curl(server, &zstd));
}

#[test]
fn python() {
    let script = |library: &str, post: &str| {
        format!(
            "import sys, {library}\n\
             body, url = sys.stdin.buffer.read(), sys.argv[1]\n\
             headers = {{'content-type': 'application/json'}}\n\
             {post}\n"
        )
    };
    let requests = "r = requests.post(url, data=body, headers=headers, timeout=60)\n\
                    r.raise_for_status(); sys.stdout.buffer.write(r.content)";
    let httpx = "r = httpx.post(url, content=body, headers=headers, timeout=60)\n\
                 r.raise_for_status(); sys.stdout.buffer.write(r.content)";
    let aiohttp = "import asyncio\n\
                   async def main():\n\
                   \x20   async with aiohttp.ClientSession(raise_for_status=True) as s:\n\
                   \x20       async with s.post(url, data=body, headers=headers) as r:\n\
                   \x20           sys.stdout.buffer.write(await r.read())\n\
                   asyncio.run(main())";
    let urllib = "r = urllib.request.urlopen(urllib.request.Request(url, body, headers))\n\
                  sys.stdout.buffer.write(r.read())";
    for (library, post) in
        [("requests", requests), ("httpx", httpx), ("aiohttp", aiohttp), ("urllib.request", urllib)]
    {
        let import = format!("import {library}");
        let script = script(library, post);
        run(&format!("Python {library}"), &["python3", "-c", &import], |server| {
            let mut command = Command::new("python3");
            command.args(["-c", &script]).arg(server.url());
            command
        });
    }
}

/// In this process, on a runtime of its own.
#[test]
fn reqwest() {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, gzip, zstd) in [("gzip", true, false), ("zstd", false, true), ("none", false, false)]
    {
        let client = reqwest::Client::builder().gzip(gzip).zstd(zstd).build().unwrap();
        for (body, expected) in cases() {
            let asked = client
                .post(server.url())
                .header("content-type", "application/json")
                .body(body.clone())
                .send();
            let text = runtime.block_on(async { asked.await.unwrap().text().await.unwrap() });
            assert!(
                text == expected,
                "{name}: {} bytes, not {}: {body}",
                text.len(),
                expected.len()
            );
        }
        println!("reqwest, {name}: {} replies", cases().len());
    }
}

/// A WebSocket client with permessage-deflate of its own making.
#[test]
fn python_websockets() {
    let script = "import sys\n\
        from websockets.sync.client import connect\n\
        with connect(sys.argv[1].replace('http', 'ws'), max_size=None) as ws:\n\
        \x20   assert 'permessage-deflate' in ws.response.headers['Sec-WebSocket-Extensions']\n\
        \x20   ws.send(sys.stdin.read())\n\
        \x20   sys.stdout.write(ws.recv(timeout=60))\n";
    let probe = ["python3", "-c", "import websockets.sync.client"];
    run("Python websockets", &probe, |server| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(server.url());
        command
    });
}

#[test]
fn node() {
    let script = "const chunks = []; process.stdin.on('data', c => chunks.push(c)); \
        process.stdin.on('end', async () => { \
        const r = await fetch(process.argv[1], { method: 'POST', body: Buffer.concat(chunks), \
        headers: { 'content-type': 'application/json' } }); \
        if (!r.ok) process.exit(1); \
        process.stdout.write(Buffer.from(await r.arrayBuffer())); });";
    run("Node fetch", &["node", "-e", "fetch"], |server| {
        let mut command = Command::new("node");
        command.args(["-e", script]).arg(server.url());
        command
    });
}

#[test]
fn go() {
    let source = r#"package main

import ("io"; "net/http"; "os")

func main() {
	r, err := http.Post(os.Args[1], "application/json", os.Stdin)
	if err != nil || r.StatusCode != 200 { os.Exit(1) }
	if _, err := io.Copy(os.Stdout, r.Body); err != nil { os.Exit(2) }
}
"#;
    let dir = std::env::temp_dir().join(format!("prestate-lane-go-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (file, program) = (dir.join("main.go"), dir.join("client"));
    std::fs::write(&file, source).unwrap();
    let build = format!(
        "cd {} && GO111MODULE=off GOFLAGS= go build -o client main.go",
        dir.to_str().unwrap()
    );
    // Built once, by the probe.
    run("Go net/http", &["sh", "-c", &build], |server| {
        let mut command = Command::new(&program);
        command.arg(server.url());
        command
    });
    std::fs::remove_dir_all(&dir).unwrap();
}

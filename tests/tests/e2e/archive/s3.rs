//! Export and import over S3, against `moto`'s server (PyPI, `pip install 'moto[server]'`), where
//! it is on the PATH or named by `MOTO_SERVER`.

use super::{NO_RESERVE, Sample, canonical};
use crate::program::{Ran, prestate_in};
use serde_json::Value;
use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// A server of its own, killed at the end.
struct Moto {
    process: Child,
    authority: String,
}

impl Moto {
    fn start() -> Option<Self> {
        let program = env::var_os("MOTO_SERVER").unwrap_or_else(|| "moto_server".into());
        let mut command = Command::new(&program);
        command.args(["-H", "127.0.0.1", "-p", "0"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = match command.spawn() {
            Ok(process) => process,
            Err(error) => {
                let program = program.to_string_lossy();
                println!("skipped: no S3 here: {program}: {error} (pip install 'moto[server]')");
                return None;
            }
        };
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        // Read to the end, so that the server never waits for a reader of its log.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("Running on http://") {
                    let _ = tell.send(url.trim().to_owned());
                }
            }
        });
        let told = told.recv_timeout(Duration::from_secs(60));
        let moto = Self { process, authority: told.unwrap_or_default() };
        assert!(!moto.authority.is_empty(), "moto never said where it listens");
        Some(moto)
    }

    fn make_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!("PUT /{name} HTTP/1.1\r\nhost: {}\r\n", self.authority);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"content-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.authority)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let endpoint = self.endpoint();
        let mut all = args.to_vec();
        all.extend(["--endpoint", &endpoint]);
        // The keys that moto takes are any.
        prestate_in(
            all,
            [
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("AWS_REGION", "us-east-1"),
            ],
        )
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_copy_over_a_bucket_is_the_archive() {
    let Some(moto) = Moto::start() else { return };
    moto.make_bucket("blocks");
    let sample = Sample::of(3..=42);
    let (dir, copy) = (sample.text(), sample.beside("copy"));
    let to = "s3://blocks/mainnet/v1";
    let export = ["archive", "export", &dir, "--to", to, "--segment-blocks", "10", "--json"];
    let report = moto.json(&export);
    super::segments::says(&report, &[("written", 5), ("present", 0), ("blocks", 40)]);
    let report = moto.json(&export);
    super::segments::says(&report, &[("written", 0), ("present", 5)]);
    // Another prefix of the bucket is another location.
    let ran = moto.run(&["archive", "import", &copy, "--from", "s3://blocks/mainnet"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("no exported archive at s3://blocks/mainnet"), "{ran:?}");

    let mut import = vec!["archive", "import", &copy, "--from", to, "--json"];
    import.extend(NO_RESERVE);
    let report = moto.json(&import);
    super::segments::says(&report, &[("segments", 5), ("stored", 40)]);
    let report = moto.json(&import);
    super::segments::says(&report, &[("segments", 0), ("present", 5)]);
    assert_eq!(canonical(&copy), canonical(sample.path()));

    let ran = moto.run(&["archive", "export", &dir, "--to", "s3://nowhere/x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("s3://nowhere/x") && ran.stderr.contains("NoSuchBucket"),
        "{ran:?}"
    );
}

//! A server of the program's, as a process.

use crate::program::binary;
use prestate_tests::fixtures::workspace;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long it may take to start: it loads blocks, on a machine that does other things.
const START: Duration = Duration::from_secs(120);

/// Killed when dropped.
pub(crate) struct Served {
    process: Child,
    authority: String,
}

/// Status, head and body of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Served {
    /// Starts the program on a free port and waits until it serves.
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(binary());
        command.args(args).args(["--http.port", "0"]).current_dir(workspace());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().expect("the program starts");
        let mut served = Self { process, authority: String::new() };
        let lines = BufReader::new(served.process.stderr.take().expect("piped")).lines();
        let (tell, told) = mpsc::channel();
        // Read to the end, so that the program never waits for a reader of its log.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut log = String::new();
        loop {
            let line = told.recv_timeout(START);
            let line = line.unwrap_or_else(|_| panic!("it does not serve: {log}"));
            if let Some((_, authority)) = line.split_once(" on http://") {
                authority.trim().clone_into(&mut served.authority);
                return served;
            }
            log = log + &line + "\n";
        }
    }

    fn send(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.authority).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let length = body.len();
        let rest =
            format!("host: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}\r\n{rest}{body}").as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).expect("ASCII");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.expect("a status"), head, body: answer.split_off(end + 4) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1"), "")
    }

    /// `headers` are whole lines, each with its end.
    pub(crate) fn post(&self, body: &str, headers: &str) -> Answer {
        let head = format!("POST / HTTP/1.1\r\ncontent-type: application/json\r\n{headers}");
        self.send(head.trim_end(), body)
    }

    /// Kills it as a loss of power would.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("gone");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

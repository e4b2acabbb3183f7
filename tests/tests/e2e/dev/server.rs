use crate::program::binary;
use prestate_tests::{
    fixtures::workspace,
    geth::{Answer, Client},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

/// A running `prestate dev`. Dropping it kills the process as a power cut would.
pub(crate) struct Server {
    process: Child,
    pub(crate) banner: String,
    addr: SocketAddr,
}

impl Server {
    /// Starts the program on a free port and waits for its banner.
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut process = Command::new(binary())
            .args(["dev", "--port", "0"])
            .args(args)
            .current_dir(workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stderr = BufReader::new(process.stderr.take().expect("it was asked for"));
        let mut banner = String::new();
        // Three calls to try end it.
        while banner.matches("curl ").count() < 3 {
            let read = stderr.read_line(&mut banner).expect("it prints text");
            assert!(read > 0, "it ended early:\n{banner}");
        }
        // Whatever it logs later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let (_, after) = banner.split_once("serving on http://").expect("the banner has the URL");
        let addr = after.split_whitespace().next().expect("the URL").parse().expect("an address");
        Self { process, banner, addr }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn ws_url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// A connection of its own.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.addr)
    }

    /// The result of a call that has to succeed.
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        match self.client().call(method, &params.to_string()).expect("an answer") {
            Answer::Result(json) => serde_json::from_str(&json).expect("a result is JSON"),
            Answer::Error(error) => panic!("{method}: {error}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL; nothing can be done about a failure here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! The adapter between a workload and whoever serves it.

use super::{
    connection::Connection,
    endpoint::Endpoint,
    nginx,
    process::Process,
    rivals::RivalKind,
    workload::{ServeError, failed},
};
use crate::Failure;
use prestate_wire::Encoding;
use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// What everybody serves in a workload.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Starts a server of this program.
    pub(crate) launcher: Launcher,
    /// The JSON-RPC request.
    pub(crate) call: String,
    /// How the lane is started, and on what: `lane` and a block file, `lane-heavy` and a number of
    /// transactions.
    pub(crate) lane: (&'static str, PathBuf),
    /// A folder with the lane's reply as `body.json` and `body.json.gz`, and its result alone as
    /// `result.json`.
    pub(crate) folder: PathBuf,
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    /// `None`: it runs elsewhere, and its CPU is not known.
    pub(crate) process: Option<Process>,
    pub(crate) endpoint: Endpoint,
}

impl Server {
    /// CPU spent so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.process.as_ref().map(Process::cpu)
    }
}

/// A way to serve a reply: ours or a rival's.
pub(crate) trait Contestant {
    /// As tables call it.
    fn name(&self) -> String;

    /// Forms it can send.
    fn codings(&self) -> &[Encoding];

    /// Starts it. `None` if it is not installed here.
    fn start(&self, work: &Work) -> Result<Option<Server>, ServeError>;

    /// The request for the reply.
    fn request(&self, server: &Server, work: &Work, coding: Encoding) -> Vec<u8>;

    /// Time under load before it is measured.
    fn warm_up(&self) -> Duration {
        Duration::from_millis(100)
    }
}

const ALL: [Encoding; 3] = [Encoding::Gzip, Encoding::Zstd, Encoding::Identity];

/// Ours, as `prestate replay` serves.
#[derive(Debug)]
pub(crate) struct OurLane;

impl Contestant for OurLane {
    fn name(&self) -> String {
        "lane".to_owned()
    }

    fn codings(&self) -> &[Encoding] {
        &ALL
    }

    fn start(&self, work: &Work) -> Result<Option<Server>, ServeError> {
        let (kind, subject) = &work.lane;
        child(&work.launcher, kind, subject).map(Some)
    }

    fn request(&self, server: &Server, work: &Work, coding: Encoding) -> Vec<u8> {
        server.endpoint.post(&work.call, coding)
    }

    /// What is asked for often is put into one piece by the round of a second.
    fn warm_up(&self) -> Duration {
        Duration::from_millis(1200)
    }
}

/// nginx over the finished bodies.
#[derive(Debug)]
pub(crate) struct Nginx;

impl Contestant for Nginx {
    fn name(&self) -> String {
        "nginx gzip_static".to_owned()
    }

    fn codings(&self) -> &[Encoding] {
        &[Encoding::Gzip, Encoding::Identity]
    }

    fn start(&self, work: &Work) -> Result<Option<Server>, ServeError> {
        let started = nginx::start(&work.folder).map_err(failed("start nginx"))?;
        Ok(started.map(|(process, addr)| Server {
            process: Some(process),
            endpoint: Endpoint::local(addr),
        }))
    }

    fn request(&self, server: &Server, _: &Work, coding: Encoding) -> Vec<u8> {
        server.endpoint.get("/body.json", coding)
    }
}

/// Ways of others over the result's text, in this program.
#[derive(Debug)]
pub(crate) struct Rival(pub(crate) RivalKind);

impl Contestant for Rival {
    fn name(&self) -> String {
        self.0.title()
    }

    fn codings(&self) -> &[Encoding] {
        match self.0 {
            RivalKind::Libdeflate(_) | RivalKind::Zlib(_) => &[Encoding::Gzip],
            RivalKind::Jsonrpsee => &[Encoding::Gzip],
            RivalKind::Raw | RivalKind::Reparsed => &[Encoding::Gzip, Encoding::Identity],
        }
    }

    fn start(&self, work: &Work) -> Result<Option<Server>, ServeError> {
        child(&work.launcher, &self.0.name(), &work.folder.join("result.json")).map(Some)
    }

    fn request(&self, server: &Server, _: &Work, coding: Encoding) -> Vec<u8> {
        server.endpoint.post(&call("result", "[]"), coding)
    }
}

/// A node that runs already, asked for the same.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
}

impl Contestant for Running {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn codings(&self) -> &[Encoding] {
        &ALL
    }

    fn start(&self, _: &Work) -> Result<Option<Server>, ServeError> {
        Ok(Some(Server { process: None, endpoint: self.endpoint.clone() }))
    }

    fn request(&self, server: &Server, work: &Work, coding: Encoding) -> Vec<u8> {
        server.endpoint.post(&work.call, coding)
    }
}

/// How servers of this program are started, in processes of their own.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// This program.
    pub exe: PathBuf,
    /// Its arguments; the kind of server and what it serves follow.
    pub arguments: Vec<OsString>,
}

/// Starts a server of this program, which says its address first.
pub(crate) fn child(launcher: &Launcher, kind: &str, subject: &Path) -> Result<Server, ServeError> {
    let what = || format!("start {kind}");
    let mut command = Command::new(&launcher.exe);
    command.args(&launcher.arguments).arg(kind).arg(subject).stdout(Stdio::piped());
    let mut process = Process::start(&mut command).map_err(failed(what()))?;
    let mut line = String::new();
    if let Some(stdout) = process.child().stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed(what()))?;
    }
    let addr: SocketAddr = line
        .trim()
        .parse()
        .map_err(|_| io::Error::other(format!("said {line:?} instead of an address")))
        .map_err(failed(what()))?;
    Ok(Server { process: Some(process), endpoint: Endpoint::local(addr) })
}

/// The body of a good reply, as it came.
pub(crate) fn ask(server: &Server, request: &[u8], name: &str) -> Result<Vec<u8>, ServeError> {
    let ask = || {
        let mut connection = Connection::open(server.endpoint.addr())?.keeping_bodies();
        let reply = connection.ask(request)?;
        reply.check()?;
        Ok(reply.body)
    };
    ask().map_err(|failure: Failure| ServeError::Answer { server: name.to_owned(), failure })
}

/// A JSON-RPC request.
pub(crate) fn call(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}")
}

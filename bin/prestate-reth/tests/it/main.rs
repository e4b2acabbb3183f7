#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
//! Tests of the node with prestate in it: in this process, and as the program.

mod conformance;
mod dev;
mod equality;
mod forks;
mod history;
mod http;
mod intercept;
mod namespaces;
mod node;
mod program;
mod side_by_side;
mod subscribe;
mod troubles;
mod workload;

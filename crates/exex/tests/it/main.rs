#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
//! The extension against reth's test context: a node's database and channels without a node, so
//! that notifications come as the test says.

mod node;
mod notifications;

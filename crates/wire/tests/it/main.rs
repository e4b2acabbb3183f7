//! The crate's promises, seen from outside.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod geth_format;
mod own_views;
mod replies;
mod sample;

//! The lane over real sockets. Tests that stem from a public bug carry its number in the research
//! list of 58 as `Bnn` in their comment.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure is the test's failure")]

mod auth;
mod clients;
mod envelope;
mod framing;
mod limits;
mod resources;
mod routes;
mod socket;
mod streams;
mod subscriptions;
mod support;
mod timers;

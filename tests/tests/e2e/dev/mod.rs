//! `prestate dev` as a process, and the clients that people use against it.

mod alloy;
mod clients;
mod flags;
mod restart;
mod server;

//! The crate's promises, seen from outside.

mod geth_format;
mod own_views;
mod replies;
mod sample;

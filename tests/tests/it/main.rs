//! Integration tests over several crates.

mod bundles;
mod chain;
mod fixtures;
mod hosts;
mod layering;
mod sample;
mod selfdestruct;

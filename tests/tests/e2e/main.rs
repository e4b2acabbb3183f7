//! The `prestate` program as a process: what it prints where, and how it exits.

mod bad_input;
mod blocks;
mod program;

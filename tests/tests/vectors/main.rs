//! Geth's own tracer vectors.

mod calls;
mod parity;
mod prestate;
mod stops;
mod transaction;

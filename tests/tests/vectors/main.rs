//! Geth's own tracer vectors.

mod calls;
mod prestate;
mod transaction;

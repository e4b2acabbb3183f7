//! The lane over real sockets. Tests that stem from a public bug carry its number in the research
//! list of 58 as `Bnn` in their comment.

mod envelope;
mod support;

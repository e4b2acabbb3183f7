//! How slots are repaired soonest and cheapest: block traces against batches of reads, and our own
//! namespace where it is offered. The follow-up that the resync study asked for.

mod crossing;
mod endpoint;
mod exchange;
pub(crate) mod own_chain;
mod question;
mod report;
mod run;
mod study;

pub use crossing::Crossing;
pub(crate) use endpoint::Endpoint;
pub use endpoint::EndpointUrl;
pub use exchange::{Coding, Timed};
pub use question::{Question, Slot};
pub use report::{Cell, ResyncReport};
pub use run::{Endpoints, ResyncBenchError, ResyncOptions, resync};

#[cfg(test)]
mod tests;

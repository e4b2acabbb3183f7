//! What replies cost: the lane beside nginx `gzip_static`, libdeflate and zlib on every reply,
//! tower-http's gzip over a jsonrpsee `RawValue`, caches of raw and of re-parsed values, and nodes
//! that run already, all serving the same result to the same clients.

mod connection;
mod contestant;
mod endpoint;
mod first;
mod heavy;
mod ladder;
mod load;
mod nginx;
mod process;
mod report;
mod rivals;
mod small;
mod workload;

pub use contestant::Launcher;
pub use endpoint::{Endpoint, EndpointError};
pub use first::{FirstReplies, FirstRow};

pub use heavy::{heavy_block, heavy_host};
pub use ladder::{Climb, LadderOptions, LadderReport, Step, ladder};
pub use load::{Load, LoadResult};
pub use process::Process;
pub use report::{HeavyFill, ServeReport, ServeRow, WorkReport};
pub use rivals::{RivalKind, run_lane, run_rival, run_traced};
pub use small::SmallReport;
pub use workload::{ServeError, ServeOptions, serve};

//! What a hit costs: the lane beside nginx `gzip_static`, libdeflate on every reply, tower-http's
//! gzip over a jsonrpsee `RawValue`, all serving the same result to the same clients.

mod heavy;
mod ladder;
mod load;
mod nginx;
mod process;
mod report;
mod rivals;
mod workload;

pub use heavy::heavy_host;
pub use ladder::{Climb, LadderOptions, LadderReport, Step, ladder};
pub use load::{Load, LoadResult};
pub use process::Process;
pub use report::{HeavyRow, ServeReport, ServeRow};
pub use rivals::{RivalKind, run_lane, run_rival};
pub use workload::{ServeError, ServeOptions, serve};

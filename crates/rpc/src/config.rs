use std::thread;

/// Bytes of finished results kept: room for a few hundred mainnet blocks.
pub const DEFAULT_CACHE_BYTES: u64 = 1024 * 1024 * 1024;
/// Calls that may wait for an execution permit before others are refused.
pub const DEFAULT_MAX_QUEUE: usize = 256;

/// JSON that a struct logger may make of one transaction: tens of millions of gas fit.
pub const DEFAULT_MAX_STRUCT_LOG_BYTES: u64 = 128 * 1024 * 1024;

/// Blocks that a range may go over: half a day of mainnet, some seconds of reading. Beyond it a
/// caller is better off reading what it watches anew.
pub const DEFAULT_MAX_RANGE_BLOCKS: u64 = 4096;

/// How the service behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcConfig {
    /// Reproduce Geth's three artefacts that contradict the state unless a call says otherwise
    /// (`--geth-exact`).
    pub geth_exact: bool,
    /// Blocks executed at the same time.
    pub max_executions: usize,
    /// Reads of state and archive at the same time: they wait for the disk more than they compute.
    pub max_reads: usize,
    /// Calls waiting for a permit before others get -32005.
    pub max_queue: usize,
    /// Bound of the result cache; zero keeps nothing.
    pub cache_bytes: u64,
    /// Most blocks that `prestate_getDiffRange` and `prestate_resync` go over; beyond it -32005.
    pub max_range_blocks: u64,
    /// Most JSON that a struct logger may make of one transaction; beyond it -32005.
    pub max_struct_log_bytes: u64,
}

impl Default for RpcConfig {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            geth_exact: false,
            // A core is left to the transport.
            max_executions: cores.saturating_sub(1).max(1),
            max_reads: 4 * cores,
            max_queue: DEFAULT_MAX_QUEUE,
            cache_bytes: DEFAULT_CACHE_BYTES,
            max_range_blocks: DEFAULT_MAX_RANGE_BLOCKS,
            max_struct_log_bytes: DEFAULT_MAX_STRUCT_LOG_BYTES,
        }
    }
}

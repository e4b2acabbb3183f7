//! Hosts that run in this process, without a node: block files ([`ReplayHost`]) and an in-memory
//! chain that executes blocks from genesis on ([`MemoryChain`]), and on top of it a chain that makes
//! its own blocks ([`dev`]).

mod block_file;
mod chain;
mod chain_state;
pub mod dev;
mod execute;
mod genesis;
mod import;
mod load;
mod map_state;
mod replay;
mod trie;

pub use block_file::{BlockFile, BlockFileError};
pub use chain::MemoryChain;
pub use chain_state::{AccountProof, ChainState};
pub use genesis::{genesis_block, state_root};
pub use import::{ImportError, decode_blocks};
pub use load::{LoadError, block_paths, load_path};
pub use map_state::MapState;
pub use replay::{ReplayHost, ReplayHostError};

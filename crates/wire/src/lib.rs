//! Diffs to bytes: JSON made once, ropes, deflate, zstd, splice.
//!
//! A payload is a [`Rope`]: JSON text of its own between contract codes that all payloads of the
//! process share by code hash. Nothing here parses JSON, sees a host or a store.

mod bits;
mod body;
mod code;
mod code_segment;
mod crc;
mod deflate;
mod deflate_runs;
mod deflate_walk;
mod encoding;
mod geth;
mod hex;
mod huffman;
mod rope;
mod rope_builder;
mod splice;
mod stream;
mod trace_list;
mod traces;
mod views;
mod zstd;

pub use body::{Body, BodyBuf};
pub use code::{CodeSource, CodeTable, KnownCodes, MissingCode};
pub use code_segment::CodeSegment;
pub use deflate::gzip_once;
pub use encoding::{Encoding, MIN_COMPRESS_BYTES, NotAcceptable, negotiate};
pub use geth::{write_geth_diff, write_geth_pair, write_geth_state};
pub use rope::Rope;
pub use rope_builder::RopeBuilder;
pub use splice::{Splice, splice};
pub use stream::BodyStream;
pub use trace_list::TraceList;
pub use traces::{
    StepText, write_call_frame, write_flat_frames, write_four_byte, write_go_string,
    write_struct_logs, write_trace,
};
pub use views::{
    CodeView, write_block_diff, write_block_summary, write_sides, write_transaction_diff,
};

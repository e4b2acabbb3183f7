//! What Geth's call and opcode tracers print, byte for byte: Go's key order, omissions and string
//! escapes (`eth/tracers/native/gen_*_json.go`, `eth/tracers/logger/logger.go`).

mod call;
mod flat;
mod four_byte;
mod go_string;
mod output;
mod struct_log;

pub use call::write_call_frame;
pub use flat::write_flat_frames;
pub use four_byte::write_four_byte;
pub use go_string::write_go_string;
pub use output::write_trace;
pub use struct_log::{StepText, write_struct_logs};

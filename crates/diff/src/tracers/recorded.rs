//! How much a tracer that keeps calls has recorded.
//!
//! A call to an account without code costs 100 gas however much memory it is given, so that a
//! transaction can name hundreds of gigabytes as call data. Whoever keeps it has to count.

use revm::interpreter::CallInputs;

/// A frame without its data.
const FRAME_BYTES: u64 = 512;

/// What keeping a call takes.
pub(super) fn call_bytes(inputs: &CallInputs) -> u64 {
    let data = inputs.input.len();
    // What is returned may be kept as well.
    FRAME_BYTES + (data + inputs.return_memory_offset.len()) as u64
}

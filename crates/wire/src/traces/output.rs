use super::{
    call::write_call_frame, flat::write_flat_frames, four_byte::write_four_byte,
    go_string::write_go_string, struct_log::StepText, struct_log::write_struct_logs,
};
use crate::{
    CodeSource, MissingCode, RopeBuilder, write_geth_diff, write_geth_pair, write_geth_state,
};
use prestate_types::TraceOutput;

/// Writes what a tracer found in one transaction, as Geth prints it.
///
/// # Errors
/// A code to be shown is not known; what was written before stays in `out`, which is then of no
/// use. Only the prestate tracer shows codes.
pub fn write_trace<C: CodeSource + ?Sized>(
    out: &mut RopeBuilder,
    trace: TraceOutput<StepText>,
    codes: &C,
) -> Result<(), MissingCode> {
    match trace {
        TraceOutput::Prestate(state) => write_geth_state(out, &state, codes)?,
        TraceOutput::PrestateExact(diff) => write_geth_pair(out, &diff, codes)?,
        TraceOutput::PrestateDiff(tx, options) => write_geth_diff(out, &tx, options, codes)?,
        TraceOutput::Call(frame) => write_call_frame(out, &frame),
        TraceOutput::FlatCall(frames) => write_flat_frames(out, &frames),
        TraceOutput::FourByte(calls) => write_four_byte(out, &calls),
        TraceOutput::StructLog(logs) => write_struct_logs(out, logs),
        TraceOutput::Mux(traces) => {
            out.push(b"{");
            for (at, (name, trace)) in traces.into_iter().enumerate() {
                if at > 0 {
                    out.push(b",");
                }
                write_go_string(out, name.as_bytes());
                out.push(b":");
                write_trace(out, trace, codes)?;
            }
            out.push(b"}");
        }
        TraceOutput::Noop => out.push(b"{}"),
    }
    Ok(())
}

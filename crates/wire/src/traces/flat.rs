use super::go_string::write_go_string;
use crate::RopeBuilder;
use prestate_types::{CallFrame, FlatFrames, FrameKind, TracePlace, VmError};

/// Writes the result of `flatCallTracer` (`call_flat.go`): a list, the outer frame before the
/// inner ones, each with its address in the tree.
pub fn write_flat_frames(out: &mut RopeBuilder, frames: &FlatFrames) {
    let writer = Writer { place: &frames.place, parity_errors: frames.parity_errors };
    out.push(b"[");
    writer.frame(out, &frames.root, &mut Vec::new());
    out.push(b"]");
}

struct Writer<'a> {
    place: &'a TracePlace,
    parity_errors: bool,
}

impl Writer<'_> {
    fn frame(&self, out: &mut RopeBuilder, frame: &CallFrame, address: &mut Vec<u64>) {
        if !address.is_empty() {
            out.push(b",");
        }
        out.push(b"{\"action\":{");
        action(out, frame);
        out.push(b"},\"blockHash\":");
        hash_or_null(out, self.place.block_hash.as_ref());
        out.push(b",\"blockNumber\":");
        out.push_decimal(self.place.block_number);
        if let Some(error) = &frame.error {
            out.push(b",\"error\":");
            match error.parity_text().filter(|_| self.parity_errors) {
                Some(text) => write_go_string(out, text.as_bytes()),
                None => write_go_string(out, error.to_string().as_bytes()),
            }
        }
        // A revert's output says why; the result of other failures is dropped.
        let failed = frame.error.as_ref().is_some_and(|error| *error != VmError::Reverted);
        if !failed && frame.kind != FrameKind::SelfDestruct {
            out.push(b",\"result\":{");
            result(out, frame);
            out.push(b"}");
        }
        out.push(b",\"subtraces\":");
        out.push_decimal(frame.calls.len() as u64);
        out.push(b",\"traceAddress\":[");
        for (at, index) in address.iter().enumerate() {
            if at > 0 {
                out.push(b",");
            }
            out.push_decimal(*index);
        }
        out.push(b"],\"transactionHash\":");
        hash_or_null(out, self.place.tx_hash.as_ref());
        out.push(b",\"transactionPosition\":");
        out.push_decimal(self.place.tx_index);
        out.push(b",\"type\":\"");
        out.push(match frame.kind {
            FrameKind::SelfDestruct => "suicide",
            kind if kind.is_create() => "create",
            _ => "call",
        });
        out.push(b"\"}");
        for (index, call) in frame.calls.iter().enumerate() {
            address.push(index as u64);
            self.frame(out, call, address);
            address.pop();
        }
    }
}

/// Members of `action` (`gen_flatcallaction_json.go`).
fn action(out: &mut RopeBuilder, frame: &CallFrame) {
    let value = frame.value.unwrap_or_default();
    if frame.kind == FrameKind::SelfDestruct {
        out.push(b"\"address\":\"");
        out.push_hex(frame.from.as_slice());
        out.push(b"\",\"balance\":\"");
        out.push_quantity_256(&value);
        if let Some(to) = &frame.to {
            out.push(b"\",\"refundAddress\":\"");
            out.push_hex(to.as_slice());
        }
        out.push(b"\"");
        return;
    }
    out.push(match frame.kind {
        FrameKind::Call | FrameKind::SelfDestruct => &b"\"callType\":\"call"[..],
        FrameKind::CallCode => b"\"callType\":\"callcode",
        FrameKind::DelegateCall => b"\"callType\":\"delegatecall",
        FrameKind::StaticCall => b"\"callType\":\"staticcall",
        FrameKind::Create => b"\"creationMethod\":\"create",
        FrameKind::Create2 => b"\"creationMethod\":\"create2",
    });
    out.push(b"\",\"from\":\"");
    out.push_hex(frame.from.as_slice());
    out.push(b"\",\"gas\":\"");
    out.push_quantity(frame.gas);
    out.push(if frame.kind.is_create() { &b"\",\"init\":\""[..] } else { b"\",\"input\":\"" });
    out.push_hex(&frame.input);
    if let Some(to) = frame.to.as_ref().filter(|_| !frame.kind.is_create()) {
        out.push(b"\",\"to\":\"");
        out.push_hex(to.as_slice());
    }
    out.push(b"\",\"value\":\"");
    out.push_quantity_256(&value);
    out.push(b"\"");
}

/// Members of `result` (`gen_flatcallresult_json.go`).
fn result(out: &mut RopeBuilder, frame: &CallFrame) {
    if frame.kind.is_create() {
        if let Some(to) = &frame.to {
            out.push(b"\"address\":\"");
            out.push_hex(to.as_slice());
            out.push(b"\",");
        }
        out.push(b"\"code\":\"");
        out.push_hex(&frame.output);
        out.push(b"\",\"gasUsed\":\"");
        out.push_quantity(frame.gas_used);
    } else {
        out.push(b"\"gasUsed\":\"");
        out.push_quantity(frame.gas_used);
        out.push(b"\",\"output\":\"");
        out.push_hex(&frame.output);
    }
    out.push(b"\"");
}

fn hash_or_null(out: &mut RopeBuilder, hash: Option<&alloy_primitives::B256>) {
    match hash {
        Some(hash) => {
            out.push(b"\"");
            out.push_hex(hash.as_slice());
            out.push(b"\"");
        }
        None => out.push(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, Bytes, U256};

    #[test]
    fn nested_frames_become_a_list_with_addresses() {
        let destruct = CallFrame {
            kind: FrameKind::SelfDestruct,
            to: Some(Address::ZERO),
            value: Some(U256::from(1)),
            ..CallFrame::default()
        };
        let create = CallFrame {
            kind: FrameKind::Create2,
            error: Some(VmError::StackUnderflow { len: 0, required: 1 }),
            calls: vec![destruct],
            ..CallFrame::default()
        };
        let root = CallFrame {
            to: Some(Address::ZERO),
            output: Bytes::from_static(&[7]),
            error: Some(VmError::Reverted),
            calls: vec![create],
            ..CallFrame::default()
        };
        let place = TracePlace {
            block_hash: Some(B256::ZERO),
            block_number: 5,
            tx_hash: None,
            tx_index: 2,
        };
        let written = |parity_errors| {
            let mut out = RopeBuilder::new();
            let root = root.clone();
            write_flat_frames(&mut out, &FlatFrames { root, place, parity_errors });
            String::from_utf8(out.finish().to_vec()).unwrap()
        };
        let zero = format!("0x{}", "00".repeat(20));
        let at = format!(r#""blockHash":"0x{}","blockNumber":5"#, "00".repeat(32));
        let tx = r#""transactionHash":null,"transactionPosition":2"#;
        let expected = |reverted: &str, underflow: &str| {
            [
                format!(
                    r#"[{{"action":{{"callType":"call","from":"{zero}","gas":"0x0","input":"0x","to":"{zero}","value":"0x0"}},{at},"error":"{reverted}","result":{{"gasUsed":"0x0","output":"0x07"}},"subtraces":1,"traceAddress":[],{tx},"type":"call"}}"#
                ),
                format!(
                    r#"{{"action":{{"creationMethod":"create2","from":"{zero}","gas":"0x0","init":"0x","value":"0x0"}},{at},"error":"{underflow}","subtraces":1,"traceAddress":[0],{tx},"type":"create"}}"#
                ),
                format!(
                    r#"{{"action":{{"address":"{zero}","balance":"0x1","refundAddress":"{zero}"}},{at},"subtraces":0,"traceAddress":[0,0],{tx},"type":"suicide"}}]"#
                ),
            ]
            .join(",")
        };
        assert_eq!(
            written(false),
            expected("execution reverted", r"stack underflow (0 \u003c=\u003e 1)")
        );
        assert_eq!(written(true), expected("Reverted", "Stack underflow"));
    }
}

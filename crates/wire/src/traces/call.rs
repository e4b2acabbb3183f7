use super::go_string::write_go_string;
use crate::RopeBuilder;
use prestate_types::{CallFrame, CallLog};

/// Writes the result of `callTracer` (`gen_callframe_json.go`). Calls nest as deep as the EVM lets
/// them, 1,024.
pub fn write_call_frame(out: &mut RopeBuilder, frame: &CallFrame) {
    out.push(b"{\"from\":\"");
    out.push_hex(frame.from.as_slice());
    out.push(b"\",\"gas\":\"");
    out.push_quantity(frame.gas);
    out.push(b"\",\"gasUsed\":\"");
    out.push_quantity(frame.gas_used);
    if let Some(to) = &frame.to {
        out.push(b"\",\"to\":\"");
        out.push_hex(to.as_slice());
    }
    out.push(b"\",\"input\":\"");
    out.push_hex(&frame.input);
    if !frame.output.is_empty() {
        out.push(b"\",\"output\":\"");
        out.push_hex(&frame.output);
    }
    out.push(b"\"");
    if let Some(error) = &frame.error {
        out.push(b",\"error\":");
        write_go_string(out, error.to_string().as_bytes());
    }
    if !frame.revert_reason.is_empty() {
        out.push(b",\"revertReason\":");
        write_go_string(out, &frame.revert_reason);
    }
    let mut lead: &[u8] = b",\"calls\":[";
    for call in &frame.calls {
        out.push(lead);
        write_call_frame(out, call);
        lead = b",";
    }
    if !frame.calls.is_empty() {
        out.push(b"]");
    }
    lead = b",\"logs\":[";
    for log in &frame.logs {
        out.push(lead);
        call_log(out, log);
        lead = b",";
    }
    if !frame.logs.is_empty() {
        out.push(b"]");
    }
    if let Some(value) = &frame.value {
        out.push(b",\"value\":\"");
        out.push_quantity_256(value);
        out.push(b"\"");
    }
    out.push(b",\"type\":\"");
    out.push(frame.kind.name());
    out.push(b"\"}");
}

fn call_log(out: &mut RopeBuilder, log: &CallLog) {
    out.push(b"{\"address\":\"");
    out.push_hex(log.address.as_slice());
    out.push(b"\",\"topics\":[");
    for (at, topic) in log.topics.iter().enumerate() {
        out.push(if at == 0 { &b"\""[..] } else { b",\"" });
        out.push_hex(topic.as_slice());
        out.push(b"\"");
    }
    out.push(b"],\"data\":\"");
    out.push_hex(&log.data);
    out.push(b"\",\"index\":\"");
    out.push_quantity(log.index);
    out.push(b"\",\"position\":\"");
    out.push_quantity(log.position);
    out.push(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, Bytes, U256};
    use prestate_types::{FrameKind, VmError};

    fn written(frame: &CallFrame) -> String {
        let mut out = RopeBuilder::new();
        write_call_frame(&mut out, frame);
        String::from_utf8(out.finish().to_vec()).unwrap()
    }

    #[test]
    fn fields_come_in_geths_order_and_are_left_out_as_there() {
        let inner = CallFrame {
            kind: FrameKind::StaticCall,
            to: Some(Address::ZERO),
            ..CallFrame::default()
        };
        let frame = CallFrame {
            kind: FrameKind::Create2,
            from: Address::repeat_byte(0xab),
            gas: 16,
            output: Bytes::from_static(&[1]),
            error: Some(VmError::Reverted),
            revert_reason: Bytes::from_static(b"<\xff"),
            calls: vec![inner.clone(), inner],
            logs: vec![CallLog {
                address: Address::ZERO,
                topics: vec![B256::ZERO],
                data: Bytes::new(),
                index: 3,
                position: 1,
            }],
            value: Some(U256::from(255)),
            ..CallFrame::default()
        };
        let zero = format!("0x{}", "00".repeat(20));
        let inner = format!(
            r#"{{"from":"{zero}","gas":"0x0","gasUsed":"0x0","to":"{zero}","input":"0x","type":"STATICCALL"}}"#
        );
        let expected = format!(
            r#"{{"from":"0x{}","gas":"0x10","gasUsed":"0x0","input":"0x","output":"0x01","error":"execution reverted","revertReason":"\u003c\ufffd","calls":[{inner},{inner}],"logs":[{{"address":"{zero}","topics":["0x{}"],"data":"0x","index":"0x3","position":"0x1"}}],"value":"0xff","type":"CREATE2"}}"#,
            "ab".repeat(20),
            "00".repeat(32),
        );
        assert_eq!(written(&frame), expected);
    }
}

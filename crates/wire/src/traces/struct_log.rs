use super::go_string::write_go_string;
use crate::{Rope, RopeBuilder, geth::push_slot};
use prestate_types::{Step, StepSink, StructLogs, opcode_name};

/// Steps as text, written as they come.
#[derive(Debug, Default)]
pub struct StepText {
    steps: RopeBuilder,
    any: bool,
}

impl StepText {
    /// The steps, separated by commas, without the brackets around them.
    pub fn finish(self) -> Rope {
        self.steps.finish()
    }
}

impl StepSink for StepText {
    fn step(&mut self, step: &Step<'_>) -> usize {
        let lead = if std::mem::replace(&mut self.any, true) { 1 } else { 0 };
        let before = self.steps.owned_bytes();
        if lead == 1 {
            self.steps.push(b",");
        }
        write_step(&mut self.steps, step);
        self.steps.owned_bytes() - before - lead
    }
}

/// Writes the struct logger's result (`logger.go`, `ExecutionResult`).
pub fn write_struct_logs(out: &mut RopeBuilder, logs: StructLogs<StepText>) {
    out.push(b"{\"gas\":");
    out.push_decimal(logs.gas);
    out.push(b",\"failed\":");
    out.push(if logs.failed { "true" } else { "false" });
    out.push(b",\"returnValue\":\"");
    out.push_hex(&logs.return_value);
    out.push(b"\",\"structLogs\":[");
    out.push_rope(&logs.steps.finish());
    out.push(b"]}");
}

/// One step (`logger.go`, `structLogLegacy`).
fn write_step(out: &mut RopeBuilder, step: &Step<'_>) {
    out.push(b"{\"pc\":");
    out.push_decimal(step.pc);
    out.push(b",\"op\":\"");
    match opcode_name(step.opcode) {
        Some(name) => out.push(name),
        None => out.push(format!("opcode {:#x} not defined", step.opcode)),
    }
    out.push(b"\",\"gas\":");
    out.push_decimal(step.gas);
    out.push(b",\"gasCost\":");
    out.push_decimal(step.gas_cost);
    out.push(b",\"depth\":");
    out.push_decimal(step.depth as u64);
    if let Some(error) = step.error {
        out.push(b",\"error\":");
        write_go_string(out, error.to_string().as_bytes());
    }
    if let Some(stack) = step.stack {
        out.push(b",\"stack\":[");
        for (at, item) in stack.iter().enumerate() {
            out.push(if at == 0 { &b"\""[..] } else { b",\"" });
            out.push_quantity_256(item);
            out.push(b"\"");
        }
        out.push(b"]");
    }
    if !step.return_data.is_empty() {
        out.push(b",\"returnData\":\"");
        out.push_hex(step.return_data);
        out.push(b"\"");
    }
    if !step.memory.is_empty() {
        out.push(b",\"memory\":[");
        for (at, word) in step.memory.chunks(32).enumerate() {
            out.push(if at == 0 { &b"\""[..] } else { b",\"" });
            out.push_hex(word);
            // Memory grows by words, so that the last is whole; Geth pads it all the same.
            out.push(&[b'0'; 64][2 * word.len()..]);
            out.push(b"\"");
        }
        out.push(b"]");
    }
    for (at, (slot, value)) in step.storage.iter().enumerate() {
        out.push(if at == 0 { &b",\"storage\":{"[..] } else { b"," });
        push_slot(out, slot, value);
    }
    if !step.storage.is_empty() {
        out.push(b"}");
    }
    if step.refund != 0 {
        out.push(b",\"refund\":");
        out.push_decimal(step.refund);
    }
    out.push(b"}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, Bytes, U256};
    use prestate_types::VmError;

    #[test]
    fn lengths_are_right_where_the_text_is_cut_into_parts() {
        let step = Step {
            pc: 0,
            opcode: 0,
            gas: 0,
            gas_cost: 0,
            depth: 1,
            error: None,
            stack: None,
            return_data: &[],
            memory: &[1; 70_000],
            storage: &[],
            refund: 0,
        };
        let mut steps = StepText::default();
        let lengths: usize = (0..9).map(|_| steps.step(&step)).sum();
        assert_eq!(steps.finish().to_vec().len(), lengths + 8);
    }

    #[test]
    fn steps_in_geths_order() {
        let bare = Step {
            pc: 1,
            opcode: 0x0c,
            gas: 10,
            gas_cost: 0,
            depth: 1,
            error: None,
            stack: None,
            return_data: &[],
            memory: &[],
            storage: &[],
            refund: 0,
        };
        let full = Step {
            opcode: 0x55,
            error: Some(&VmError::OutOfGas),
            stack: Some(&[U256::ZERO, U256::from(258)]),
            return_data: &[9],
            memory: &[1; 33],
            storage: &[(B256::ZERO, B256::with_last_byte(1))],
            refund: 5,
            ..bare
        };
        let mut steps = StepText::default();
        let lengths =
            [steps.step(&bare), steps.step(&full), steps.step(&Step { stack: Some(&[]), ..bare })];
        let texts = [
            r#"{"pc":1,"op":"opcode 0xc not defined","gas":10,"gasCost":0,"depth":1}"#.to_owned(),
            format!(
                r#"{{"pc":1,"op":"SSTORE","gas":10,"gasCost":0,"depth":1,"error":"out of gas","stack":["0x0","0x102"],"returnData":"0x09","memory":["0x{}","0x01{}"],"storage":{{"0x{}":"0x{}01"}},"refund":5}}"#,
                "01".repeat(32),
                "00".repeat(31),
                "00".repeat(32),
                "00".repeat(31),
            ),
            r#"{"pc":1,"op":"opcode 0xc not defined","gas":10,"gasCost":0,"depth":1,"stack":[]}"#
                .to_owned(),
        ];
        assert_eq!(lengths, [texts[0].len(), texts[1].len(), texts[2].len()]);
        let mut out = RopeBuilder::new();
        let return_value = Bytes::from_static(&[0xaa]);
        write_struct_logs(&mut out, StructLogs { gas: 7, failed: true, return_value, steps });
        assert_eq!(
            String::from_utf8(out.finish().to_vec()).unwrap(),
            format!(
                r#"{{"gas":7,"failed":true,"returnValue":"0xaa","structLogs":[{}]}}"#,
                texts.join(",")
            )
        );
    }
}

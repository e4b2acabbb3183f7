use crate::RopeBuilder;
use prestate_types::SelectorCalls;

/// Writes the result of `4byteTracer`: `{"0x<selector>-<size>":count,…}`, ascending by key as
/// text.
pub fn write_four_byte(out: &mut RopeBuilder, calls: &[SelectorCalls]) {
    let mut entries: Vec<(String, u64)> =
        calls.iter().map(|call| (format!("{}-{}", call.selector, call.size), call.count)).collect();
    entries.sort_unstable();
    out.push(b"{");
    for (at, (key, count)) in entries.iter().enumerate() {
        out.push(if at == 0 { &b"\""[..] } else { b",\"" });
        out.push(key);
        out.push(b"\":");
        out.push_decimal(*count);
    }
    out.push(b"}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::FixedBytes;

    #[test]
    fn keys_ascend_as_text() {
        let call = |size, count| SelectorCalls { selector: FixedBytes([1, 2, 3, 4]), size, count };
        let mut out = RopeBuilder::new();
        write_four_byte(&mut out, &[call(32, 1), call(128, 2), call(0, 3)]);
        let text = String::from_utf8(out.finish().to_vec()).unwrap();
        assert_eq!(text, r#"{"0x01020304-0":3,"0x01020304-128":2,"0x01020304-32":1}"#);
    }
}

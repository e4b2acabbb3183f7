use crate::RopeBuilder;

/// Writes text as Go's `encoding/json` does, quotes included: what HTML could take for markup is
/// escaped, and each byte that is not UTF-8 becomes `\ufffd`.
pub fn write_go_string(out: &mut RopeBuilder, text: &[u8]) {
    out.push(b"\"");
    for chunk in text.utf8_chunks() {
        valid(out, chunk.valid());
        for _ in chunk.invalid() {
            out.push(b"\\ufffd");
        }
    }
    out.push(b"\"");
}

fn valid(out: &mut RopeBuilder, text: &str) {
    let mut plain = 0;
    for (at, letter) in text.char_indices() {
        let escape: &[u8] = match letter {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\u{8}' => b"\\b",
            '\u{c}' => b"\\f",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '<' => b"\\u003c",
            '>' => b"\\u003e",
            '&' => b"\\u0026",
            '\u{2028}' => b"\\u2028",
            '\u{2029}' => b"\\u2029",
            '\0'..='\u{1f}' => b"",
            _ => continue,
        };
        out.push(&text[plain..at]);
        plain = at + letter.len_utf8();
        if escape.is_empty() {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let code = letter as usize;
            out.push([b'\\', b'u', b'0', b'0', DIGITS[code >> 4], DIGITS[code & 15]]);
        } else {
            out.push(escape);
        }
    }
    out.push(&text[plain..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8]) -> String {
        let mut out = RopeBuilder::new();
        write_go_string(&mut out, text);
        String::from_utf8(out.finish().to_vec()).unwrap()
    }

    #[test]
    fn escapes_as_go() {
        assert_eq!(written(b"plain"), "\"plain\"");
        assert_eq!(written(b"(0 <=> 1) & \"\\"), r#""(0 \u003c=\u003e 1) \u0026 \"\\""#);
        assert_eq!(written(b"\x00\x08\x0c\n\r\t\x1f\x7f"), "\"\\u0000\\b\\f\\n\\r\\t\\u001f\x7f\"");
        assert_eq!(written("é\u{2028}\u{fffd}".as_bytes()), "\"é\\u2028\u{fffd}\"");
    }

    #[test]
    fn each_invalid_byte_counts() {
        // The first three bytes of a four-byte letter: one replacement each, unlike Unicode's
        // recommendation of one for all.
        assert_eq!(written(b"a\xf0\x9f\x98b\xff"), "\"a\\ufffd\\ufffd\\ufffdb\\ufffd\"");
    }
}

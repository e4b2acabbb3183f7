//! Lower-case hex straight into the buffer.

use alloy_primitives::U256;

/// Appends `bytes` in hex, two digits a byte, no prefix.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    // The slice has exactly the size asked for, the only way to fail.
    let written = const_hex::encode_to_slice(bytes, &mut out[start..]);
    debug_assert!(written.is_ok());
}

/// Appends a number as Ethereum's quantity: `0x` and hex without leading zeros, zero as `0x0`.
pub(crate) fn push_quantity(out: &mut Vec<u8>, value: u64) {
    push_minimal(out, &value.to_be_bytes());
}

/// As [`push_quantity`], for 256 bits.
pub(crate) fn push_quantity_256(out: &mut Vec<u8>, value: &U256) {
    match u64::try_from(value) {
        Ok(small) => push_quantity(out, small),
        Err(_) => push_minimal(out, &value.to_be_bytes::<32>()),
    }
}

fn push_minimal(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"0x");
    let Some(first) = bytes.iter().position(|byte| *byte != 0) else {
        out.push(b'0');
        return;
    };
    let mut rest = &bytes[first..];
    if bytes[first] < 16 {
        out.push(DIGITS[usize::from(bytes[first])]);
        rest = &rest[1..];
    }
    push_hex(out, rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantity(value: U256) -> String {
        let mut out = Vec::new();
        push_quantity_256(&mut out, &value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn quantities_are_minimal() {
        for (value, text) in [(0u64, "0x0"), (1, "0x1"), (16, "0x10"), (0xabc, "0xabc")] {
            assert_eq!(quantity(U256::from(value)), text);
        }
        assert_eq!(quantity(U256::MAX), format!("0x{}", "f".repeat(64)));
    }

    proptest! {
        #[test]
        fn quantities_agree_with_the_formatter(limbs: [u64; 4], keep in 0usize..=256) {
            let value = U256::from_limbs(limbs) >> (256 - keep);
            prop_assert_eq!(quantity(value), format!("{value:#x}"));
        }
    }
}

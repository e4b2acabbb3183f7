//! The reason in a revert's output, decoded as Geth does (`accounts/abi/abi.go`, `UnpackRevert`).

use alloy_primitives::{Bytes, U256};

/// `Error(string)`.
const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
/// `Panic(uint256)`.
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// The reason; `None` if the output is neither an `Error(string)` nor a `Panic(uint256)`.
pub(super) fn revert_reason(output: &Bytes) -> Option<Bytes> {
    let (selector, _) = output.split_first_chunk::<4>()?;
    let body = output.slice(4..);
    match *selector {
        ERROR => string(&body),
        PANIC => {
            let code = word(&body, 0)?;
            Some(match u64::try_from(code).ok().and_then(panic_reason) {
                Some(reason) => Bytes::from_static(reason.as_bytes()),
                None => format!("unknown panic code: {code:#x}").into_bytes().into(),
            })
        }
        _ => None,
    }
}

fn word(body: &[u8], at: usize) -> Option<U256> {
    Some(U256::from_be_slice(body.get(at..at.checked_add(32)?)?))
}

fn string(body: &Bytes) -> Option<Bytes> {
    let offset = usize::try_from(word(body, 0)?).ok()?;
    let length = usize::try_from(word(body, offset)?).ok()?;
    let start = offset + 32;
    let end = start.checked_add(length).filter(|end| *end <= body.len())?;
    Some(body.slice(start..end))
}

const fn panic_reason(code: u64) -> Option<&'static str> {
    Some(match code {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(selector: [u8; 4], words: &[u64], tail: &[u8]) -> Bytes {
        let mut bytes = selector.to_vec();
        for word in words {
            bytes.extend_from_slice(&U256::from(*word).to_be_bytes::<32>());
        }
        bytes.extend_from_slice(tail);
        bytes.into()
    }

    fn reason(output: &Bytes) -> Option<Vec<u8>> {
        revert_reason(output).map(|reason| reason.to_vec())
    }

    #[test]
    fn strings_with_and_without_padding() {
        assert_eq!(reason(&output(ERROR, &[32, 2], b"no")), Some(b"no".to_vec()));
        assert_eq!(reason(&output(ERROR, &[32, 0], b"")), Some(Vec::new()));
        // The offset may point anywhere inside, also at itself.
        assert_eq!(reason(&output(ERROR, &[0], b"")), Some(Vec::new()));
        assert_eq!(reason(&output(ERROR, &[32, 1], b"\xff")), Some(vec![0xff]));
    }

    #[test]
    fn what_does_not_fit_is_no_reason() {
        for bad in [
            output(ERROR, &[32, 3], b"no"),
            output(ERROR, &[33, 2], b"no"),
            output(ERROR, &[u64::MAX, 2], b"no"),
            output(ERROR, &[32, u64::MAX], b"no"),
            output(ERROR, &[32], b""),
            output([1, 2, 3, 4], &[32, 2], b"no"),
            output(PANIC, &[], b"short"),
            Bytes::from_static(&[8, 0xc3]),
        ] {
            assert_eq!(reason(&bad), None, "{bad}");
        }
    }

    #[test]
    fn panics_by_code() {
        assert_eq!(
            reason(&output(PANIC, &[0x11], b"")),
            Some(b"arithmetic underflow or overflow".to_vec())
        );
        assert_eq!(
            reason(&output(PANIC, &[0xff], b"")),
            Some(b"unknown panic code: 0xff".to_vec())
        );
    }
}

//! Durations as Go's `time.ParseDuration` reads them.

use super::go_json::quote;
use std::time::Duration;

/// Go's limit: 2^63 nanoseconds, below zero only.
const LIMIT: u64 = 1 << 63;

/// Reads a duration such as `300ms`, `1h15m30.918s` or `-1.5h`; less than zero is zero.
///
/// # Errors
/// Go's text.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || error("invalid duration", text);
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = unsigned;
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        if !rest.starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
            return Err(invalid());
        }
        let (whole, after) = digits(rest);
        let value = integer(whole).ok_or_else(invalid)?;
        rest = after;
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = digits(after);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, after) = rest.split_at(end);
        rest = after;
        if unit.is_empty() {
            return Err(error("missing unit in duration", text));
        }
        let unit = unit_nanos(unit)
            .ok_or_else(|| error(&format!("unknown unit {} in duration", quote(unit)), text))?;
        let mut nanos =
            value.checked_mul(unit).filter(|nanos| *nanos <= LIMIT).ok_or_else(invalid)?;
        let (numerator, scale) = decimals(fraction);
        if numerator > 0 {
            nanos += (numerator as f64 * (unit as f64 / scale)) as u64;
        }
        total = total.checked_add(nanos).filter(|total| *total <= LIMIT).ok_or_else(invalid)?;
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    if total == LIMIT {
        return Err(invalid());
    }
    Ok(Duration::from_nanos(total))
}

fn error(what: &str, text: &str) -> String {
    format!("time: {what} {}", quote(text))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn integer(digits: &str) -> Option<u64> {
    let mut value = 0u64;
    for digit in digits.bytes() {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        if value > LIMIT {
            return None;
        }
    }
    Some(value)
}

/// Decimals as a numerator and its power of ten; those beyond 63 bits are dropped, as in Go.
fn decimals(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        (value, scale) = (next, scale * 10.0);
    }
    (value, scale)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+5s", 5_000_000_000),
            ("-5s", 0),
            ("1.5h", 5_400_000_000_000),
            ("1h15m30.918s", 4_530_918_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("3µs", 3_000),
            ("3μs", 3_000),
            ("1ns1us1ms", 1_001_001),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    /// Texts of Geth v1.17.10 (Go 1.26) for `debug_traceTransaction` with such a timeout.
    #[test]
    fn refuses_in_gos_words() {
        for (text, message) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1.5.5s", "time: missing unit in duration \"1.5.5s\""),
            ("5sm", "time: unknown unit \"sm\" in duration \"5sm\""),
            ("9999999999999h", "time: invalid duration \"9999999999999h\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("5x\"é", "time: unknown unit \"x\\\"\\xc3\\xa9\" in duration \"5x\\\"\\xc3\\xa9\""),
        ] {
            assert_eq!(parse(text).unwrap_err(), message);
        }
    }
}

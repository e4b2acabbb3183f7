use std::fmt;

/// Bodies shorter than this are not compressed: the head of a packet costs more than is saved.
pub const MIN_COMPRESS_BYTES: u64 = 1024;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// As it is.
    #[default]
    Identity,
    /// One gzip member (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878), window of 8 MB at most (RFC 9659).
    Zstd,
}

impl Encoding {
    /// Value of `Content-Encoding`; `None` for identity, which has no such header.
    pub const fn header(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Name of the coding as RFC 9110 has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The client accepts none of the codings there are: HTTP 406.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("none of zstd, gzip and identity is acceptable")]
pub struct NotAcceptable;

/// What a client says of one coding.
#[derive(Debug, Clone, Copy, Default)]
struct Weights {
    zstd: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

/// The coding for an `Accept-Encoding` header (RFC 9110 §12.5.3). Several headers are joined with
/// commas first. Without a header, or with an empty one, it is identity.
///
/// The highest weight wins; among equals zstd, then gzip, then identity. Identity, if not named,
/// is acceptable at last resort unless `*;q=0` is given. Codings with a weight that does not parse
/// are passed over.
///
/// # Errors
/// Nothing we have is acceptable.
pub fn negotiate(accept_encoding: Option<&str>) -> Result<Encoding, NotAcceptable> {
    let Some(header) = accept_encoding else { return Ok(Encoding::Identity) };
    let mut weights = Weights::default();
    for entry in header.split(',') {
        let mut parts = entry.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let Some(weight) = weight_of(parts) else { continue };
        let known = if coding.eq_ignore_ascii_case("zstd") {
            &mut weights.zstd
        } else if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            &mut weights.gzip
        } else if coding.eq_ignore_ascii_case("identity") {
            &mut weights.identity
        } else if coding == "*" {
            &mut weights.any
        } else {
            continue;
        };
        // Named twice: the more willing of the two.
        *known = (*known).max(Some(weight));
    }
    let zstd = weights.zstd.or(weights.any).unwrap_or(0);
    let gzip = weights.gzip.or(weights.any).unwrap_or(0);
    // "If the representation has no content coding, then it is acceptable by default unless
    // specifically excluded": identity not named is the last resort, whatever the weight of "*".
    let identity = weights.identity.unwrap_or(0);
    let refused =
        weights.identity == Some(0) || (weights.identity.is_none() && weights.any == Some(0));
    let best = zstd.max(gzip).max(identity);
    match best {
        0 if refused => Err(NotAcceptable),
        0 => Ok(Encoding::Identity),
        best if best == zstd => Ok(Encoding::Zstd),
        best if best == gzip => Ok(Encoding::Gzip),
        _ => Ok(Encoding::Identity),
    }
}

/// Weight in thousandths; `None` if malformed. Other parameters are passed over.
fn weight_of<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<u16> {
    for parameter in parameters {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            return thousandths(value.trim());
        }
    }
    Some(1000)
}

/// `qvalue` of RFC 9110 §12.4.2: 0 to 1 with three decimals at most.
fn thousandths(value: &str) -> Option<u16> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    match (whole, fraction) {
        ("0", fraction) => Some(fraction),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use Encoding::{Gzip, Identity, Zstd};
        let table: &[(Option<&str>, Result<Encoding, NotAcceptable>)] = &[
            (None, Ok(Identity)),
            (Some(""), Ok(Identity)),
            (Some("gzip"), Ok(Gzip)),
            (Some("GZip"), Ok(Gzip)),
            (Some("x-gzip"), Ok(Gzip)),
            (Some("zstd"), Ok(Zstd)),
            (Some("gzip, deflate, br, zstd"), Ok(Zstd)),
            (Some("gzip, deflate, br"), Ok(Gzip)),
            (Some("deflate, br"), Ok(Identity)),
            (Some("gzip;q=1.0, zstd;q=0.5"), Ok(Gzip)),
            (Some("gzip ; q=0.5 , zstd ; Q=0.501"), Ok(Zstd)),
            (Some("gzip;q=0.5, identity"), Ok(Identity)),
            (Some("gzip;q=0.5, identity;q=0.5"), Ok(Gzip)),
            (Some("gzip;q=0.001"), Ok(Gzip)),
            (Some("gzip;q=0"), Ok(Identity)),
            (Some("gzip;q=0, zstd;q=0.000"), Ok(Identity)),
            (Some("*"), Ok(Zstd)),
            (Some("*;q=0.3, gzip"), Ok(Gzip)),
            (Some("zstd;q=0, *"), Ok(Gzip)),
            (Some("zstd;q=0, gzip;q=0, *"), Ok(Identity)),
            (Some("*;q=0"), Err(NotAcceptable)),
            (Some("identity;q=0"), Err(NotAcceptable)),
            (Some("br, identity;q=0"), Err(NotAcceptable)),
            (Some("identity;q=0, gzip;q=0.1"), Ok(Gzip)),
            (Some("identity;q=0, *;q=0.1"), Ok(Zstd)),
            (Some("*;q=0, identity"), Ok(Identity)),
            (Some("*;q=0, identity;q=0.1"), Ok(Identity)),
            (Some("gzip;q=2"), Ok(Identity)),
            (Some("gzip;q=-1"), Ok(Identity)),
            (Some("gzip;q=0.1234"), Ok(Identity)),
            (Some("gzip;q=abc, zstd"), Ok(Zstd)),
            (Some("gzip;level=9"), Ok(Gzip)),
            (Some("gzip;q=1.000"), Ok(Gzip)),
            (Some("gzip;q=1."), Ok(Gzip)),
            (Some("gzip;q=1.001"), Ok(Identity)),
            (Some(",, ,gzip,"), Ok(Gzip)),
            (Some("gzip;q=0, gzip"), Ok(Gzip)),
            (Some("gzip-but-not-quite"), Ok(Identity)),
        ];
        for (header, expected) in table {
            assert_eq!(negotiate(*header), *expected, "{header:?}");
        }
    }
}

use crate::JwtSecretError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::Sha256;
use std::{fmt, path::Path, time::Duration};

/// How far `iat` may be from our clock, either way (execution-apis `authentication.md`).
const IAT_WINDOW: Duration = Duration::from_secs(60);

/// A 256-bit secret for bearer tokens. Not shown by `Debug`.
#[derive(Clone)]
pub struct JwtSecret([u8; 32]);

impl JwtSecret {
    /// From 64 hex digits, `0x` or not, white space around allowed: what Geth's and reth's
    /// `jwt.hex` files hold.
    pub fn from_hex(hex: &str) -> Result<Self, JwtSecretError> {
        let bytes =
            const_hex::decode(hex.trim()).map_err(|source| JwtSecretError::Hex { source })?;
        let given = bytes.len();
        bytes.try_into().map(Self).map_err(|_| JwtSecretError::Length { given })
    }

    /// From a file with that content.
    pub fn from_file(path: &Path) -> Result<Self, JwtSecretError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| JwtSecretError::Read { path: path.to_owned(), source })?;
        Self::from_hex(&text)
    }

    fn mac(&self) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        Hmac::new_from_slice(&self.0).expect("any key length")
    }

    /// A token for `iat` seconds since 1970, as a client would make it.
    pub fn token(&self, iat: u64) -> String {
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#),
            URL_SAFE_NO_PAD.encode(format!("{{\"iat\":{iat}}}"))
        );
        let signature = self.mac().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Checks an `Authorization` value at `now`, since 1970. The error is the text of the 401;
    /// Geth's where Geth has its own (`node/jwt_handler.go`).
    pub(crate) fn check(
        &self,
        authorization: Option<&str>,
        now: Duration,
    ) -> Result<(), &'static str> {
        let token = authorization
            .and_then(|value| value.trim().split_once(' '))
            // The scheme is case-insensitive (RFC 9110 §11.1).
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty())
            .ok_or("missing token")?;
        let malformed = "token is malformed";
        let (signed, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed)?;
        // The only algorithm, whatever the token says: "none" must not pass.
        if header.alg != "HS256" {
            return Err("token signature is invalid: signing method is not HS256");
        }
        // Compared in constant time.
        self.mac()
            .chain_update(signed)
            .verify_slice(&decode(signature)?)
            .map_err(|_| "token signature is invalid: signature is invalid")?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| malformed)?;
        let now = now.as_secs_f64();
        if claims.exp.is_some_and(|exp| now >= exp) {
            return Err("token is expired");
        }
        let iat = claims.iat.ok_or("missing issued-at")?;
        if now - iat > IAT_WINDOW.as_secs_f64() {
            return Err("stale token");
        }
        if iat - now > IAT_WINDOW.as_secs_f64() {
            return Err("future token");
        }
        Ok(())
    }
}

impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JwtSecret(..)")
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

/// Unknown claims are passed over.
#[derive(Deserialize)]
struct Claims {
    /// Seconds since 1970; NumericDate may have a fraction (RFC 7519 §2).
    iat: Option<f64>,
    exp: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn secret() -> JwtSecret {
        JwtSecret::from_hex(&"11".repeat(32)).unwrap()
    }

    fn check(value: &str) -> Result<(), &'static str> {
        secret().check(Some(value), Duration::from_secs(NOW))
    }

    fn signed(header: &str, claims: &str) -> String {
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = secret().mac().chain_update(&signed).finalize().into_bytes();
        format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn window_is_sixty_seconds_either_way() {
        let bearer = |iat| format!("Bearer {}", secret().token(iat));
        assert_eq!(check(&bearer(NOW)), Ok(()));
        assert_eq!(check(&bearer(NOW - 60)), Ok(()));
        assert_eq!(check(&bearer(NOW + 60)), Ok(()));
        assert_eq!(check(&bearer(NOW - 61)), Err("stale token"));
        assert_eq!(check(&bearer(NOW + 61)), Err("future token"));
    }

    #[test]
    fn scheme_is_case_insensitive() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            assert_eq!(check(&format!("{scheme} {}", secret().token(NOW))), Ok(()));
        }
        assert_eq!(check(&format!("Basic {}", secret().token(NOW))), Err("missing token"));
    }

    #[test]
    fn faults_are_told_apart() {
        let at = Duration::from_secs(NOW);
        assert_eq!(secret().check(None, at), Err("missing token"));
        assert_eq!(check("Bearer "), Err("missing token"));
        assert_eq!(check("Bearer a.b"), Err("token is malformed"));
        assert_eq!(check("Bearer !.!.!"), Err("token is malformed"));
        assert_eq!(check(&signed(r#"{"alg":"HS256"}"#, "{}")), Err("missing issued-at"));
        assert_eq!(
            check(&signed(r#"{"alg":"HS256"}"#, &format!(r#"{{"iat":{NOW},"exp":{NOW}}}"#))),
            Err("token is expired")
        );
        assert_eq!(
            check(&signed(r#"{"alg":"HS256"}"#, &format!(r#"{{"iat":{NOW}.5,"who":"x"}}"#))),
            Ok(())
        );
        assert_eq!(
            check(&signed(r#"{"alg":"none"}"#, &format!(r#"{{"iat":{NOW}}}"#))),
            Err("token signature is invalid: signing method is not HS256")
        );
        let other = JwtSecret::from_hex(&"22".repeat(32)).unwrap();
        assert_eq!(
            check(&format!("Bearer {}", other.token(NOW))),
            Err("token signature is invalid: signature is invalid")
        );
    }

    /// Made with Python's `hmac` module.
    #[test]
    fn token_equals_one_made_elsewhere() {
        let expected = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                        eyJpYXQiOjE3MDAwMDAwMDB9.\
                        Hb09lNHg9IiC1UttHzXRW1voUqjM97m4oEuKWkSux5g";
        assert_eq!(secret().token(NOW), expected);
    }

    #[test]
    fn secrets_are_256_bits_of_hex() {
        assert!(JwtSecret::from_hex(&format!(" 0x{}\n", "ab".repeat(32))).is_ok());
        assert!(matches!(JwtSecret::from_hex("abcd"), Err(JwtSecretError::Length { given: 2 })));
        assert!(matches!(JwtSecret::from_hex("zz"), Err(JwtSecretError::Hex { .. })));
        assert!(matches!(
            JwtSecret::from_file(Path::new("/nonexistent/jwt.hex")),
            Err(JwtSecretError::Read { .. })
        ));
        assert_eq!(format!("{:?}", secret()), "JwtSecret(..)");
    }
}

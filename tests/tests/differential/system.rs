//! The side under test: anything that answers JSON-RPC calls about a chain it was given.

use prestate_tests::geth::Answer;

/// A system with a chain loaded.
pub(crate) trait System {
    /// The `result` bytes, or code and message of the error.
    fn call(&self, method: &str, params: &str) -> Result<Vec<u8>, (i64, String)>;
}

/// How an answer of Geth and one of a system differ; `None` if they do not.
///
/// Results are compared as bytes. Of errors, code and message are compared: the members' order and
/// escapes (Go writes `<` as `\u003c`) are the transport's business.
pub(crate) fn difference(geth: &Answer, ours: &Result<Vec<u8>, (i64, String)>) -> Option<String> {
    match (geth, ours) {
        (Answer::Result(want), Ok(have)) if want.as_bytes() == have => None,
        (Answer::Result(want), Ok(have)) => {
            let have = String::from_utf8_lossy(have);
            Some(format!("geth {}\nours {}", around(want, &have), around(&have, want)))
        }
        (Answer::Error(_), Err((code, message))) => {
            let want = geth.error();
            (want != Some((*code, message.clone())))
                .then(|| format!("geth error {want:?}\nours error ({code}, {message:?})"))
        }
        (Answer::Result(want), Err((code, message))) => {
            Some(format!("geth {}\nours error ({code}, {message:?})", head(want)))
        }
        (Answer::Error(_), Ok(have)) => {
            let have = String::from_utf8_lossy(have);
            Some(format!("geth error {:?}\nours {}", geth.error(), head(&have)))
        }
    }
}

/// Whether a question is to be asked: `DIFF_ONLY` limits a run to those whose method or parameters
/// contain it.
pub(crate) fn asked(method: &str, params: &str) -> bool {
    std::env::var("DIFF_ONLY").map_or(true, |part| method.contains(&part) || params.contains(&part))
}

const SHOWN: usize = 300;

fn head(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// The part of `text` around the first byte that is not in `other`.
fn around(text: &str, other: &str) -> String {
    let at = text.bytes().zip(other.bytes()).position(|(a, b)| a != b);
    let at = at.unwrap_or(text.len().min(other.len()));
    let from = at.saturating_sub(SHOWN / 2);
    let bytes = &text.as_bytes()[from..text.len().min(at + SHOWN / 2)];
    format!("[{} bytes, from {from}] {}", text.len(), String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_compared_as_bytes_and_errors_by_code_and_message() {
        let result = Answer::Result("{\"a\":1}".to_owned());
        assert_eq!(difference(&result, &Ok(b"{\"a\":1}".to_vec())), None);
        assert!(difference(&result, &Ok(b"{\"a\": 1}".to_vec())).is_some());
        let error = Answer::Error(r#"{"code":-32000,"message":"\u003ceval\u003e"}"#.to_owned());
        assert_eq!(difference(&error, &Err((-32000, "<eval>".to_owned()))), None);
        assert!(difference(&error, &Err((-32602, "<eval>".to_owned()))).is_some());
        assert!(difference(&error, &Ok(b"1".to_vec())).is_some());
    }
}

use memchr::memchr2;
use prestate_wire::Rope;

/// Tells whether JSON text that passes by is whole: a streamed result whose maker hung up early
/// must not look like a short one. Checks nesting only; the maker writes well-formed JSON.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    depth: u64,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Balance {
    pub(crate) fn push(&mut self, mut text: &[u8]) {
        self.begun |= !text.is_empty();
        while !text.is_empty() {
            if self.escaped {
                self.escaped = false;
                text = &text[1..];
            } else if self.in_string {
                // Most bytes are hex in strings: skipped at memchr's speed.
                let Some(at) = memchr2(b'"', b'\\', text) else { return };
                self.in_string = text[at] != b'"';
                self.escaped = text[at] == b'\\';
                text = &text[at + 1..];
            } else {
                match text[0] {
                    b'"' => self.in_string = true,
                    b'[' | b'{' => self.depth += 1,
                    b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                text = &text[1..];
            }
        }
    }

    pub(crate) fn push_rope(&mut self, rope: &Rope) {
        for chunk in rope.chunks() {
            self.push(&chunk);
        }
    }

    /// Whether a value has begun and nothing is left open.
    pub(crate) fn is_whole(&self) -> bool {
        self.begun && self.depth == 0 && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(pieces: &[&[u8]]) -> bool {
        let mut balance = Balance::default();
        for piece in pieces {
            balance.push(piece);
        }
        balance.is_whole()
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert!(whole(&[br#"["]","\"[","\\"]"#]));
        assert!(whole(&[br#"["a\"#, br#""","b"]"#]));
        assert!(whole(&[b"null"]));
        assert!(!whole(&[]));
        assert!(!whole(&[br#"["]"#]));
    }

    proptest! {
        /// Every proper prefix of an array is seen as cut, however it was sliced.
        #[test]
        fn prefixes_are_not_whole(strings in proptest::collection::vec(".*", 1..5), cut in any::<prop::sample::Index>()) {
            let text = serde_json::to_vec(&strings).unwrap();
            let cut = cut.index(text.len());
            let (left, right) = text.split_at(cut);
            prop_assert!(!whole(&[left]));
            prop_assert!(whole(&[left, right]));
        }
    }
}

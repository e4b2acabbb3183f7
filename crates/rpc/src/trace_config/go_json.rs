//! JSON as Go's `encoding/json` decodes it into structs: keys match whatever their case, unknown
//! keys are ignored, the last of equal keys wins, null leaves a field as it is, and of several
//! wrong types the first is reported.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Members of an object in their order.
pub(crate) type Members<'a> = Vec<(String, &'a RawValue)>;

/// One value, looked at without its members' values.
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    String(String),
    Array,
    Object(Members<'a>),
}

impl<'a> Value<'a> {
    pub(crate) fn of(raw: &'a RawValue) -> Self {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'"') => Self::String(unquote(text)),
            Some(b'[') => Self::Array,
            // A raw value is well-formed, so that an object always reads as one.
            Some(b'{') => Self::Object(
                serde_json::from_str::<Object<'_>>(text).map(|object| object.0).unwrap_or_default(),
            ),
            _ => Self::Number(text),
        }
    }

    /// Go's name of the value in errors.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array => "array",
            Self::Object(_) => "object",
        }
    }
}

/// The members of an object; `None` for null.
///
/// # Errors
/// Go's text if it is anything else; `go_type` is what it should have been.
pub(crate) fn object<'a>(raw: &'a RawValue, go_type: &str) -> Result<Option<Members<'a>>, String> {
    match Value::of(raw) {
        Value::Null => Ok(None),
        Value::Object(members) => Ok(Some(members)),
        other => {
            Err(format!("json: cannot unmarshal {} into Go value of type {go_type}", other.name()))
        }
    }
}

/// Fills a struct's fields and keeps the first error.
#[derive(Debug)]
pub(super) struct Fields {
    go_struct: &'static str,
    error: Option<String>,
}

impl Fields {
    /// Fields of this struct.
    pub(super) const fn of(go_struct: &'static str) -> Self {
        Self { go_struct, error: None }
    }

    /// The first error, if any.
    pub(super) fn done(self) -> Result<(), String> {
        self.error.map_or(Ok(()), Err)
    }

    /// A bool.
    pub(super) fn bool(&mut self, raw: &RawValue, field: &str, target: &mut bool) {
        match Value::of(raw) {
            Value::Null => {}
            Value::Bool(value) => *target = value,
            other => self.refuse(other.name(), field, "bool"),
        }
    }

    /// An int; Go refuses fractions and exponents.
    pub(super) fn int(&mut self, raw: &RawValue, field: &str, target: &mut i64) {
        match Value::of(raw) {
            Value::Null => {}
            Value::Number(text) => match text.parse() {
                Ok(value) => *target = value,
                Err(_) => self.refuse(&format!("number {text}"), field, "int"),
            },
            other => self.refuse(other.name(), field, "int"),
        }
    }

    /// A pointer to a string: null clears it.
    pub(super) fn string(&mut self, raw: &RawValue, field: &str, target: &mut Option<String>) {
        match Value::of(raw) {
            Value::Null => *target = None,
            Value::String(value) => *target = Some(value),
            other => self.refuse(other.name(), field, "string"),
        }
    }

    /// An object that is not looked into.
    pub(super) fn any_object(&mut self, raw: &RawValue, field: &str, go_type: &str) {
        match Value::of(raw) {
            Value::Null | Value::Object(_) => {}
            other => self.refuse(other.name(), field, go_type),
        }
    }

    fn refuse(&mut self, value: &str, field: &str, go_type: &str) {
        let go_struct = self.go_struct;
        self.error.get_or_insert_with(|| {
            format!(
                "json: cannot unmarshal {value} into Go struct field {go_struct}.{field} of type {go_type}"
            )
        });
    }
}

/// A key as Go compares it: Unicode's simple case folding, of which ASCII names have two letters
/// with a third form.
pub(crate) fn fold(key: &str) -> String {
    key.chars()
        .map(|letter| match letter {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// The text of a string literal. Go takes a lone surrogate for U+FFFD; serde_json refuses it.
fn unquote(literal: &str) -> String {
    serde_json::from_str(literal)
        .or_else(|_| serde_json::from_str(&without_lone_surrogates(literal)))
        .unwrap_or_default()
}

fn without_lone_surrogates(literal: &str) -> String {
    let unit = |at: usize| {
        let digits = literal.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut text = String::with_capacity(literal.len());
    let mut at = 0;
    while let Some(letter) = literal[at..].chars().next() {
        let next = literal.as_bytes().get(at + 1);
        let taken = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                text.push('\u{fffd}');
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // An escaped backslash must not be read as the start of the next escape.
            (None, _) if letter == '\\' => 1 + next.map_or(0, |_| 1),
            (None, _) => letter.len_utf8(),
        };
        text.push_str(&literal[at..at + taken]);
        at += taken;
    }
    text
}

struct Object<'a>(Members<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    members.push((unquote(key.get()), value));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Reader).map(Object)
    }
}

/// As Go's `time` package quotes text in errors.
pub(super) fn quote(text: &str) -> Cow<'static, str> {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='\u{7f}' => quoted.push(letter),
            _ => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    quoted.push_str(&format!("\\x{byte:02x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn members_keep_order_duplicates_and_escapes() {
        let value = raw(r#"{ "a" : 1, "\u0061":[2], "\ud800x":3, "\\ud800":4, "\ud83d\ude00":5 }"#);
        let members = object(&value, "T").unwrap().unwrap();
        let seen: Vec<_> = members.iter().map(|(key, value)| (key.as_str(), value.get())).collect();
        assert_eq!(
            seen,
            [("a", "1"), ("a", "[2]"), ("\u{fffd}x", "3"), ("\\ud800", "4"), ("😀", "5")]
        );
    }

    #[test]
    fn folds_as_go() {
        assert_eq!(fold("DiſableStac\u{212a}"), "disablestack");
        assert_eq!(fold("É"), "É");
    }

    #[test]
    fn the_first_error_is_kept() {
        let mut fields = Fields::of("T");
        let (mut flag, mut number, mut text) = (false, 0, None);
        fields.int(&raw("1.5"), "N", &mut number);
        fields.bool(&raw("{}"), "B", &mut flag);
        fields.string(&raw("\"x\""), "S", &mut text);
        assert_eq!((flag, number, text.as_deref()), (false, 0, Some("x")));
        assert_eq!(
            fields.done().unwrap_err(),
            "json: cannot unmarshal number 1.5 into Go struct field T.N of type int"
        );
    }
}

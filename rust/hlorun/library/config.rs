//! Options of custom calls: MLIR attributes (`lower = true, uplo = 76 : ui8`), JSON of any nesting, or
//! a struct's bytes.

use std::borrow::Cow;

use crate::module::{BackendConfig, InstructionRef};
use crate::types::Dims;

/// The options of one call.
pub enum Config {
    /// JSON.
    Json(serde_json::Value),
    /// Pairs of `key = value`.
    Attributes(Vec<(String, String)>),
    /// Neither.
    Bytes(Vec<u8>),
    /// Nothing was said.
    None,
}

impl Config {
    /// The options of `instruction`.
    pub fn of(instruction: InstructionRef<'_>) -> Config {
        match instruction.backend_config() {
            None => Config::None,
            Some(BackendConfig::Json(value)) => Config::Json(value),
            Some(BackendConfig::Opaque(bytes)) => match attributes(&bytes) {
                Some(pairs) => Config::Attributes(pairs),
                None => Config::Bytes(bytes),
            },
        }
    }

    /// The bytes of a struct.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Config::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The JSON, if it is JSON.
    pub fn json(&self) -> Option<&serde_json::Value> {
        match self {
            Config::Json(value) => Some(value),
            _ => None,
        }
    }

    /// An option as text, without its type.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self {
            Config::Json(value) => match find(value, name)? {
                serde_json::Value::String(text) => Some(Cow::Borrowed(text)),
                other => Some(Cow::Owned(other.to_string())),
            },
            Config::Attributes(pairs) => {
                let pair = pairs.iter().find(|pair| pair.0 == name)?;
                Some(Cow::Borrowed(&pair.1))
            }
            Config::Bytes(_) | Config::None => None,
        }
    }

    /// The value under a path of JSON names.
    pub fn at(&self, path: &[&str]) -> Option<&serde_json::Value> {
        path.iter()
            .try_fold(self.json()?, |value, name| value.get(name))
    }

    /// A number; JSON may write it as a string.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// A truth value, also as 0 and 1.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.text(name)?.as_ref() {
            "true" => Some(true),
            "false" => Some(false),
            other => other.parse::<f64>().ok().map(|n| n != 0.0),
        }
    }
}

/// The trips that a loop's configuration says it has.
pub fn known_trip_count(instruction: InstructionRef<'_>) -> Option<u64> {
    let config = Config::of(instruction);
    let n = config.at(&["known_trip_count", "n"])?;
    n.as_u64().or_else(|| n.as_str()?.parse().ok())
}

/// A whole number; JSON may write it as a string.
pub fn int(value: &serde_json::Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// A list of whole numbers, without what is none.
pub fn ints(value: &serde_json::Value) -> Option<Dims> {
    Some(value.as_array()?.iter().filter_map(int).collect())
}

/// The first value called `name` in a JSON tree, outer levels first.
fn find<'v>(value: &'v serde_json::Value, name: &str) -> Option<&'v serde_json::Value> {
    // serde_json itself bounds the depth of what it reads.
    let mut level = vec![value];
    while !level.is_empty() {
        let mut next = Vec::new();
        for value in level {
            if let serde_json::Value::Object(object) = value {
                if let Some(found) = object.get(name) {
                    return Some(found);
                }
                next.extend(object.values());
            }
        }
        level = next;
    }
    None
}

/// `{a = 1 : i32, b = "x"}` as pairs; `None` when the bytes are something else.
fn attributes(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut pairs = Vec::new();
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    let ends = inner.char_indices().chain([(inner.len(), ',')]);
    for (at, c) in ends {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' | '<' | '(' if !quoted => depth += 1,
            ']' | '}' | '>' | ')' if !quoted => depth -= 1,
            ',' if (!quoted && depth <= 0) || at == inner.len() => {
                if let Some((key, value)) = inner[start..at].split_once('=') {
                    let value = value.trim();
                    let value = match value.strip_prefix('"') {
                        Some(rest) => rest.trim_end_matches('"'),
                        None => value.split(" : ").next().unwrap_or(value).trim(),
                    };
                    pairs.push((key.trim().trim_matches('"').to_owned(), value.to_owned()));
                }
                start = (at + 1).min(inner.len());
            }
            _ => {}
        }
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_split_at_the_top_only() {
        let pairs =
            attributes(b"{uplo = 76 : ui8, dims = array<i64: 1, 2>, name = \"a, b\"}").unwrap();
        let config = Config::Attributes(pairs);
        assert_eq!(config.number("uplo"), Some(76.0));
        assert_eq!(config.text("name").as_deref(), Some("a, b"));
        assert_eq!(config.flag("missing"), None);
        assert!(attributes(b"\x00\x01").is_none());
    }

    #[test]
    fn json_is_searched_level_by_level() {
        let value = serde_json::json!({"outer": {"lower": "true", "n": 3}});
        let config = Config::Json(value);
        assert_eq!(config.flag("lower"), Some(true));
        assert_eq!(config.number("n"), Some(3.0));
    }
}

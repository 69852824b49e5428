//! `backend_config=…`: what a backend wants to know about an instruction.

use std::borrow::Cow;

use super::attributes::{AttrKey, AttrValue};
use super::escape::unescape;
use super::instruction::InstructionRef;

/// A backend configuration, understood as far as it can be.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendConfig {
    /// JSON, quoted or bare in the text.
    Json(serde_json::Value),
    /// Anything else, unescaped: MLIR attributes, serialized messages, flags.
    Opaque(Vec<u8>),
}

impl BackendConfig {
    /// Understands the (unescaped) bytes.
    pub fn from_bytes(bytes: &[u8]) -> BackendConfig {
        // Only objects count as JSON: `1` or `"a"` are as likely something else.
        if bytes.trim_ascii_start().starts_with(b"{")
            && let Ok(value) = serde_json::from_slice(bytes)
        {
            return BackendConfig::Json(value);
        }
        BackendConfig::Opaque(bytes.to_vec())
    }
}

impl<'m> InstructionRef<'m> {
    /// The bytes of the backend configuration, unescaped when the text quotes them.
    pub fn backend_config_bytes(self) -> Option<Cow<'m, [u8]>> {
        match self.attribute(AttrKey::BackendConfig)? {
            AttrValue::String(text) => Some(unescape(self.module.text().bytes(*text))),
            AttrValue::Raw(text) => Some(Cow::Borrowed(self.module.text().bytes(*text))),
            _ => None,
        }
    }

    /// The backend configuration; `None` when there is none or it is empty.
    pub fn backend_config(self) -> Option<BackendConfig> {
        self.backend_config_bytes()
            .filter(|bytes| !bytes.is_empty())
            .map(|bytes| BackendConfig::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_or_bytes() {
        let json = BackendConfig::from_bytes(br#"{"alpha_real":1,"n":"9223372036854775807"}"#);
        let value = serde_json::json!({"alpha_real": 1, "n": "9223372036854775807"});
        assert_eq!(json, BackendConfig::Json(value));
        let mlir = BackendConfig::from_bytes(b"{attr = 1 : i32}");
        assert_eq!(mlir, BackendConfig::Opaque(b"{attr = 1 : i32}".to_vec()));
    }
}

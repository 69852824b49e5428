//! Words that attributes such as `direction=EQ` take.

use super::error::{Fault, Parsed, closest};
use super::lexer::snippet;
use super::parser::Parser;
use crate::module::{AttrKey, HloOpcode, TextRef};

/// The words of one attribute.
struct Words {
    words: &'static [&'static str],
    /// Whether later versions of XLA may add to them; a word not listed is then kept.
    open: bool,
}

/// What `key` of an `opcode` may say; `None` where anything goes.
fn words_of(key: AttrKey, opcode: HloOpcode) -> Option<Words> {
    let closed = |words| Some(Words { words, open: false });
    let open = |words| Some(Words { words, open: true });
    match key {
        AttrKey::Direction => closed(&["EQ", "NE", "GE", "GT", "LE", "LT"]),
        AttrKey::Type => closed(&["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]),
        AttrKey::FftType => closed(&["FFT", "IFFT", "RFFT", "IRFFT"]),
        AttrKey::Distribution => {
            closed(&["rng_uniform", "rng_normal", "rng_invalid", "rng_bernoulli"])
        }
        AttrKey::TransposeA | AttrKey::TransposeB => {
            closed(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", "TRANSPOSE_INVALID"])
        }
        AttrKey::Kind => open(&["kLoop", "kInput", "kOutput", "kCustom"]),
        AttrKey::PaddingType => open(&["PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"]),
        AttrKey::ApiVersion => open(&[
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ]),
        AttrKey::CustomCallSchedule => {
            open(&["SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"])
        }
        AttrKey::OperandPrecision => open(&["default", "high", "highest", "packed_nibble"]),
        AttrKey::ConvKind => open(&["fprop", "wgrad", "dgrad", "unset"]),
        AttrKey::Mode => open(&[
            "cross_replica",
            "cross_partition",
            "cross_replica_and_partition",
            "flattened_id",
        ]),
        AttrKey::Algorithm if opcode == HloOpcode::RngBitGenerator => {
            open(&["rng_default", "rng_three_fry", "rng_philox"])
        }
        AttrKey::Algorithm => open(&[
            "unset",
            "dot_any_f8_any_f8_f32",
            "dot_any_f8_any_f8_f32_fast_accum",
            "dot_f16_f16_f16",
            "dot_f16_f16_f32",
            "dot_bf16_bf16_bf16",
            "dot_bf16_bf16_f32",
            "dot_bf16_bf16_f32_x3",
            "dot_bf16_bf16_f32_x6",
            "dot_bf16_bf16_f32_x9",
            "dot_tf32_tf32_f32",
            "dot_tf32_tf32_f32_x3",
            "dot_f32_f32_f32",
            "dot_f64_f64_f64",
        ]),
        _ => None,
    }
}

impl Parser<'_> {
    /// A word that `key` of an `opcode` may say.
    pub(super) fn enumeration(&mut self, key: AttrKey, opcode: HloOpcode) -> Parsed<TextRef> {
        let text = self.cursor.word("a word")?;
        let Some(known) = words_of(key, opcode) else {
            return Ok(text);
        };
        let word = self.cursor.bytes(text);
        if known.words.iter().any(|w| w.as_bytes() == word) || opcode == HloOpcode::Unknown {
            return Ok(text);
        }
        self.unknown_word(key, text, &known)?;
        Ok(text)
    }

    #[cold]
    fn unknown_word(&mut self, key: AttrKey, text: TextRef, known: &Words) -> Parsed<()> {
        let word = self.cursor.bytes(text);
        let key = key.name().unwrap_or_default();
        let message = format!("'{}' is no {key} that is known", snippet(word));
        let candidates = known.words.iter().map(|w| w.as_bytes());
        let note = match closest(word, candidates, usize::MAX) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("known are {}", known.words.join(", ")),
        };
        if known.open {
            self.warn(text, message, Some(note))
        } else {
            Err(Fault::new(text.start as usize, message).with_note(note))
        }
    }
}

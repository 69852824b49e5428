//! Words that attributes such as `direction=EQ` take.

use super::error::{Fault, Parsed};
use super::lexer::snippet;
use super::parser::Parser;
use crate::module::words;
use crate::module::{AttrKey, HloOpcode, TextRef};
use crate::suggestion::closest;

/// The words of one attribute.
struct Known {
    words: words::Words,
    /// Whether later versions of XLA may add to them; a word not listed is then kept.
    open: bool,
    /// Whether XLA reads them in capitals and small letters alike.
    any_case: bool,
}

/// What `key` of an `opcode` may say; `None` where anything goes.
fn words_of(key: AttrKey, opcode: HloOpcode) -> Option<Known> {
    let some = |words, open, any_case| {
        Some(Known {
            words,
            open,
            any_case,
        })
    };
    let closed = |list| some(list, false, false);
    let open = |list| some(list, true, false);
    let any_case = |list| some(list, true, true);
    match key {
        AttrKey::Direction => closed(&["EQ", "NE", "GE", "GT", "LE", "LT"]),
        AttrKey::Type => closed(&["FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]),
        AttrKey::FftType => closed(words::FFT_TYPE),
        AttrKey::Distribution => some(words::DISTRIBUTION, false, true),
        AttrKey::TransposeA | AttrKey::TransposeB => closed(words::TRANSPOSE),
        AttrKey::Kind => open(&["kLoop", "kInput", "kOutput", "kCustom"]),
        AttrKey::PaddingType => open(words::PADDING_TYPE),
        AttrKey::ApiVersion => any_case(&words::API_VERSION[1..]),
        AttrKey::CustomCallSchedule => any_case(words::CUSTOM_CALL_SCHEDULE),
        AttrKey::OperandPrecision => any_case(words::PRECISION),
        AttrKey::ConvKind => open(words::CONVOLUTION_KIND),
        AttrKey::Mode => open(&[
            "cross_replica",
            "cross_partition",
            "cross_replica_and_partition",
            "flattened_id",
        ]),
        AttrKey::Algorithm if opcode == HloOpcode::RngBitGenerator => {
            any_case(words::RNG_ALGORITHM)
        }
        AttrKey::Algorithm => any_case(words::DOT_ALGORITHM),
        _ => None,
    }
}

/// Whether `key` of an `opcode` may say `word`, spelled as here.
pub(crate) fn is_word(key: AttrKey, opcode: HloOpcode, word: &[u8]) -> bool {
    let known = words_of(key, opcode);
    known.is_some_and(|known| known.words.iter().any(|w| w.as_bytes() == word))
}

impl Parser<'_> {
    /// A word that `key` of an `opcode` may say, spelled as XLA prints it.
    pub(super) fn enumeration(&mut self, key: AttrKey, opcode: HloOpcode) -> Parsed<TextRef> {
        let text = self.cursor.word("a word")?;
        let Some(known) = words_of(key, opcode) else {
            return Ok(text);
        };
        let word = self.cursor.bytes(text);
        if known.words.iter().any(|w| w.as_bytes() == word) || opcode == HloOpcode::Unknown {
            return Ok(text);
        }
        let mut spelled = known.words.iter().filter(|_| known.any_case);
        if let Some(word) = spelled.find(|w| w.as_bytes().eq_ignore_ascii_case(word)) {
            return self.add_text(word.as_bytes());
        }
        self.unknown_word(key, text, &known)?;
        Ok(text)
    }

    #[cold]
    fn unknown_word(&mut self, key: AttrKey, text: TextRef, known: &Known) -> Parsed<()> {
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

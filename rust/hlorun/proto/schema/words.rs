//! Enumerations of protos: the words that stand for numbers in the text of a proto.
//!
//! Where HLO text has a list of the same words, they follow from that: in capitals, with a beginning
//! of their own. An element type is the word for itself.

use super::numbered::Form;
use crate::module::words;
use crate::proto::numbers;
use crate::types::PrimitiveType;

/// An enumeration.
pub struct Enumeration {
    /// What the words begin with that HLO text has without it.
    prefix: &'static str,
    /// The words of HLO text by their numbers.
    words: fn(usize) -> Option<&'static str>,
    /// Words that HLO text has otherwise or not at all; these go first.
    others: &'static [(&'static str, i32)],
}

/// Numbers of enumerations are below this.
const MOST_WORDS: i32 = 64;

impl Enumeration {
    /// The word for a number.
    pub fn word(&self, number: i32) -> Option<String> {
        if let Some((word, _)) = self.others.iter().find(|row| row.1 == number) {
            return Some((*word).to_owned());
        }
        let word = (self.words)(usize::try_from(number).ok()?)?;
        Some(format!("{}{}", self.prefix, word.to_ascii_uppercase()))
    }

    /// The number of a word.
    pub fn number(&self, word: &[u8]) -> Option<i32> {
        let other = self.others.iter().find(|row| row.0.as_bytes() == word);
        if let Some((_, number)) = other {
            return Some(*number);
        }
        let rest = word.strip_prefix(self.prefix.as_bytes())?;
        let is_word = |number: &i32| {
            let known = (self.words)(*number as usize);
            let is_same = known.is_some_and(|known| {
                known
                    .bytes()
                    .map(|byte| byte.to_ascii_uppercase())
                    .eq(rest.iter().copied())
            });
            is_same && !self.others.iter().any(|row| row.1 == *number)
        };
        (0..MOST_WORDS).find(is_word)
    }
}

/// Words that HLO text has as well.
macro_rules! shared {
    ($($name:ident, $prefix:literal, $words:expr;)*) => {
        $(pub const $name: Form = Form::Enumeration(&Enumeration {
            prefix: $prefix,
            words: |number| $words.get(number).copied(),
            others: &[],
        });)*
    };
}

/// Words that only protos have, or number otherwise.
macro_rules! own {
    ($($name:ident, $words:expr;)*) => {
        $(pub const $name: Form = Form::Enumeration(&Enumeration {
            prefix: "",
            words: |_| None,
            others: $words,
        });)*
    };
}

shared! {
    TRANSPOSE, "", words::TRANSPOSE;
    ACCURACY_MODE, "", words::ACCURACY;
    PRECISION, "", words::PRECISION;
    DOT_ALGORITHM, "ALG_", words::DOT_ALGORITHM;
    PADDING_TYPE, "", words::PADDING_TYPE;
    FFT_TYPE, "", words::FFT_TYPE;
    RANDOM_DISTRIBUTION, "", words::DISTRIBUTION;
    RANDOM_ALGORITHM, "", words::RNG_ALGORITHM;
    CUSTOM_CALL_SCHEDULE, "", words::CUSTOM_CALL_SCHEDULE;
    CONVOLUTION_KIND, "CONVOLUTION_KIND_", words::CONVOLUTION_KIND;
    CUSTOM_CALL_API_VERSION, "", words::API_VERSION;
}

own! {
    DIM_LEVEL_TYPE, &[
        ("DIM_DENSE", 0), ("DIM_COMPRESSED", 1), ("DIM_SINGLETON", 2), ("DIM_LOOSE_COMPRESSED", 3),
    ];
    SHARD_GROUP_TYPE, &[("AS", 0), ("LIKE", 1)];
    TRI_STATE, &[("TRI_STATE_UNSPECIFIED", 0), ("TRI_STATE_TRUE", 1), ("TRI_STATE_FALSE", 2)];
    ALIAS_KIND, &[("UNDEFINED_ALIAS", 0), ("MAY_ALIAS", 1), ("MUST_ALIAS", 2)];
    PROFILE_TYPE, &[("INVALID", 0), ("WINDOW", 1), ("FLAG", 2), ("INTEGER", 3)];
    MODULE_PROFILE_TYPE, &[
        ("INVALID", 0), ("FLAG", 1), ("FUSION", 2), ("LAYOUT", 3), ("DOT", 4), ("FLAGNET", 5),
        ("SHARDING", 6), ("SCHEDULE", 7),
    ];
    PROFILE_SOURCE, &[
        ("PROFILE_SOURCE_UNKNOWN_SOURCE", 0), ("PROFILE_SOURCE_EMBEDDED", 1),
        ("PROFILE_SOURCE_REMOTE", 2),
    ];
    COMPILATION_EVENT, &[
        ("COMPILATION_EVENT_UNKNOWN_EVENT", 0), ("COMPILATION_EVENT_FIRST_COMPILATION", 1),
        ("COMPILATION_EVENT_RECOMPILATION", 2),
    ];
    PROFILE_GENERATION_STRATEGY, &[
        ("PROFILE_GENERATION_STRATEGY_UNKNOWN", 0), ("PROFILE_GENERATION_STRATEGY_GA", 1),
        ("PROFILE_GENERATION_STRATEGY_FANTA", 2), ("PROFILE_GENERATION_STRATEGY_CFO", 3),
        ("PROFILE_GENERATION_STRATEGY_EXHAUSTIVE", 4), ("PROFILE_GENERATION_STRATEGY_LCM_GNN", 5),
        ("PROFILE_GENERATION_STRATEGY_LCM_MOE", 6),
    ];
    HEAP_EVENT, &[("ALLOC", 0), ("FREE", 1), ("SHARE_WITH", 2)];
}

pub const SHARDING_TYPE: Form = Form::Enumeration(&Enumeration {
    prefix: "",
    words: |number| words::SHARDING.get(number).copied(),
    others: &[("OTHER", 3)],
});

pub const PRIMITIVE_TYPE: Form = Form::Enumeration(&Enumeration {
    prefix: "",
    words: |number| numbers::element_type(number as i32).map(PrimitiveType::name),
    others: &[
        ("PRIMITIVE_TYPE_INVALID", 0),
        ("TUPLE", numbers::TUPLE),
        ("OPAQUE_TYPE", numbers::OPAQUE),
        ("TOKEN", numbers::TOKEN),
        ("BUFFER", numbers::BUFFER),
        ("F6E3M2FN", 35),
        ("F6E2M3FN", 36),
    ],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_belong_together() {
        for (form, number, word) in [
            (PRIMITIVE_TYPE, 11, "F32"),
            (PRIMITIVE_TYPE, 23, "F8E4M3B11FNUZ"),
            (PRIMITIVE_TYPE, 13, "TUPLE"),
            (SHARDING_TYPE, 3, "OTHER"),
            (SHARDING_TYPE, 1, "MAXIMAL"),
            (DOT_ALGORITHM, 3, "ALG_DOT_F16_F16_F16"),
            (RANDOM_DISTRIBUTION, 1, "RNG_UNIFORM"),
            (CONVOLUTION_KIND, 0, "CONVOLUTION_KIND_UNSET"),
            (ALIAS_KIND, 2, "MUST_ALIAS"),
        ] {
            let Form::Enumeration(words) = form else {
                panic!("an enumeration");
            };
            assert_eq!(words.word(number).as_deref(), Some(word));
            assert_eq!(words.number(word.as_bytes()), Some(number));
            assert_eq!(words.number(word.to_lowercase().as_bytes()), None);
        }
        let Form::Enumeration(sharding) = SHARDING_TYPE else {
            panic!("an enumeration");
        };
        assert_eq!(sharding.number(b"DEVICES"), None);
        assert_eq!(sharding.word(7), None);
    }
}

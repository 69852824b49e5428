//! Messages whose fields are also looked up by number, without decoding the whole message.

/// How a field may stand in the bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The message has no such field; newer writers may.
    Unknown,
    /// One number of 64 bits, or a truth value.
    Number,
    /// One number of 32 bits.
    Int32,
    /// Several of them, packed or one by one.
    Numbers,
    /// A number of four bytes.
    Float,
    /// Numbers of four or eight bytes, packed or one by one.
    Floats,
    /// A string, bytes or a message.
    Bytes,
}

/// The number that `tag` says.
pub const fn number(tag: &str) -> u32 {
    let digits = tag.as_bytes();
    let (mut at, mut number) = (0, 0);
    while at < digits.len() {
        number = 10 * number + (digits[at] - b'0') as u32;
        at += 1;
    }
    number
}

/// The kind of a field that prost calls `words`, which end the build where there is no rule for them.
pub const fn kind(words: &str) -> Kind {
    let words = words.as_bytes();
    if begins(words, b"bytes") || begins(words, b"message") {
        return Kind::Bytes;
    }
    // Of what stands behind a type of numbers, only `repeated` has an "r".
    let (mut at, mut is_repeated) = (0, false);
    while at < words.len() {
        is_repeated |= words[at] == b'r';
        at += 1;
    }
    let is_short = begins(words, b"int32");
    let is_whole = is_short || begins(words, b"int64") || begins(words, b"uint");
    match (is_whole || begins(words, b"bool"), is_repeated) {
        (true, true) => Kind::Numbers,
        (true, false) if is_short => Kind::Int32,
        (true, false) => Kind::Number,
        (false, true) if begins(words, b"float") || begins(words, b"double") => Kind::Floats,
        (false, false) if begins(words, b"float") => Kind::Float,
        _ => panic!("a kind of field without a rule"),
    }
}

const fn begins(words: &[u8], with: &[u8]) -> bool {
    let mut at = 0;
    while at < with.len() {
        if at >= words.len() || words[at] != with[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Field numbers are below this.
pub const MOST_FIELDS: usize = 128;

/// Declares a message and a module of the same fields' numbers, with the kind of each in `KINDS`.
macro_rules! numbered {
    (
        $(#[$about:meta])* pub struct $message:ident, $numbers:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $tag:tt ($($word:tt)*),)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub struct $message {
            $($(#[$doc])* #[prost($($word)*, tag = $tag)] pub $field: $type,)*
        }

        #[allow(non_upper_case_globals, dead_code)]
        pub mod $numbers {
            use super::super::numbered::{Kind, MOST_FIELDS, kind, number};

            $(pub const $field: u32 = number($tag);)*

            pub const KINDS: [Kind; MOST_FIELDS] = {
                let mut kinds = [Kind::Unknown; MOST_FIELDS];
                $(kinds[$field as usize] = kind(stringify!($($word)*));)*
                kinds
            };
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::schema::instruction;

    #[test]
    fn numbers_and_kinds_follow_from_the_declaration() {
        assert_eq!(instruction::shape, 3);
        assert_eq!(instruction::iota_collective_device_list, 92);
        for (field, kind) in [
            (instruction::name, Kind::Bytes),
            (instruction::window, Kind::Bytes),
            (instruction::id, Kind::Number),
            (instruction::is_stable, Kind::Number),
            (instruction::cross_program_prefetch_index, Kind::Int32),
            (instruction::dimensions, Kind::Numbers),
            (instruction::epsilon, Kind::Float),
            (100, Kind::Unknown),
        ] {
            assert_eq!(instruction::KINDS[field as usize], kind, "field {field}");
        }
    }
}

//! How messages are declared: a field's name, number and type stand once. From that follow what prost
//! decodes, the numbers by which fields are looked up without decoding the whole message, and the table
//! by which the text of a proto is read and written.

use super::words::Enumeration;

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
    let is_short = begins(words, b"int32");
    let is_whole = is_short || begins(words, b"int64") || begins(words, b"uint");
    match (is_whole || begins(words, b"bool"), is_repeated(words)) {
        (true, true) => Kind::Numbers,
        (true, false) if is_short => Kind::Int32,
        (true, false) => Kind::Number,
        (false, true) if begins(words, b"float") || begins(words, b"double") => Kind::Floats,
        (false, false) if begins(words, b"float") => Kind::Float,
        _ => panic!("a kind of field without a rule"),
    }
}

/// Whether the field is repeated. Only `repeated` contains an "r".
const fn is_repeated(words: &[u8]) -> bool {
    let mut at = 0;
    while at < words.len() {
        if words[at] == b'r' {
            return true;
        }
        at += 1;
    }
    false
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

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Form {
    /// A number of 32 bits.
    Int32,
    /// One of 64 bits.
    Int64,
    /// One of 32 bits without a sign.
    Uint32,
    /// One of 64 bits without a sign.
    Uint64,
    /// A truth value.
    Bool,
    /// A number of four bytes.
    Float,
    /// One of eight bytes.
    Double,
    /// A string or bytes.
    String,
    /// A number that has a word.
    Enumeration(&'static Enumeration),
    /// A message with the fields of the table.
    Message(fn() -> &'static Table),
}

/// A field.
pub struct Row {
    pub number: u32,
    pub name: &'static str,
    pub form: Form,
    pub is_repeated: bool,
}

/// The fields of a message.
pub struct Table {
    pub name: &'static str,
    pub rows: &'static [Row],
}

impl Table {
    /// The field called `name`.
    pub fn named(&self, name: &[u8]) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name.as_bytes() == name)
    }

    /// The field with this number.
    pub fn numbered(&self, number: u32) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.number == number)
    }
}

/// A message of which the fields are known.
pub trait Described {
    /// The table of its fields.
    fn table() -> &'static Table;
}

/// A message whose fields are looked up in its bytes.
pub trait Numbered: prost::Message + Described + Default {
    /// How each field may stand there, by its number.
    const KINDS: &'static [Kind; MOST_FIELDS];
}

/// The form of a field that is an `M`.
pub const fn message<M: Described>() -> Form {
    Form::Message(M::table)
}

/// A field called `name` that prost calls `words`; of other than numbers, `form` says what it is.
pub const fn row(tag: &str, name: &'static str, words: &str, form: &[Form]) -> Row {
    let name = match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    };
    let words = words.as_bytes();
    let form = match form {
        [form] => *form,
        _ if begins(words, b"int32") => Form::Int32,
        _ if begins(words, b"int64") => Form::Int64,
        _ if begins(words, b"uint32") => Form::Uint32,
        _ if begins(words, b"uint64") => Form::Uint64,
        _ if begins(words, b"bool") => Form::Bool,
        _ if begins(words, b"float") => Form::Float,
        _ if begins(words, b"double") => Form::Double,
        _ => panic!("a field without a form"),
    };
    Row {
        number: number(tag),
        name,
        form,
        is_repeated: is_repeated(words),
    }
}

/// Implements [`Described`] for a message with these fields.
macro_rules! describe {
    ($message:ident $($field:ident = $tag:tt ($($word:tt)*) [$($form:expr)?],)*) => {
        impl super::numbered::Described for $message {
            fn table() -> &'static super::numbered::Table {
                #[allow(unused_imports)]
                use super::numbered::{Row, Table, message, row};
                const ROWS: &[Row] = &[
                    $(row($tag, stringify!($field), stringify!($($word)*), &[$($form)?]),)*
                ];
                &Table { name: stringify!($message), rows: ROWS }
            }
        }
    };
}

/// Declares a message: each field's number, its type for prost, and after `as` its form (enumeration,
/// message or string) where that type does not say it. Fields under `unread` are in the table but are not
/// decoded. With a second name, also [`Numbered`] and a module of the decoded fields' numbers.
macro_rules! declare {
    (
        $(#[$about:meta])* pub struct $message:ident, $numbers:ident { $($body:tt)* }
    ) => {
        declare! { $(#[$about])* pub struct $message { $($body)* } }
        declare! { numbers $numbers { $($body)* } }

        impl super::numbered::Numbered for $message {
            const KINDS: &'static [super::numbered::Kind; super::numbered::MOST_FIELDS] =
                &$numbers::KINDS;
        }
    };
    (
        numbers $numbers:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $tag:tt ($($word:tt)*) $(as $form:expr)?,)*
            $(unread { $($rest:tt)* })?
        }
    ) => {
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
    (
        $(#[$about:meta])* pub struct $message:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $tag:tt ($($word:tt)*) $(as $form:expr)?,)*
            $(unread {
                $($other:ident = $other_tag:tt ($($other_word:tt)*) $(as $other_form:expr)?,)*
            })?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Message)]
        pub struct $message {
            $($(#[$doc])* #[prost($($word)*, tag = $tag)] pub $field: $type,)*
        }

        describe! {
            $message
            $($field = $tag ($($word)*) [$($form)?],)*
            $($($other = $other_tag ($($other_word)*) [$($other_form)?],)*)?
        }
    };
}

/// Declares messages that are not decoded.
macro_rules! unread {
    ($($message:ident {
        $($field:ident = $tag:tt ($($word:tt)*) $(as $form:expr)?,)*
    })*) => {
        $(
            pub enum $message {}

            describe! { $message $($field = $tag ($($word)*) [$($form)?],)* }
        )*
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

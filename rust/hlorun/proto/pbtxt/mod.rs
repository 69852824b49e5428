//! The text form of protos, `.pbtxt`: text ↔ the bytes of the same message.
//!
//! Comes in: the text of a module, of what holds one, or of a snapshot. Goes out: its bytes, which are
//! read as those of any proto; and back. Names, numbers and types of fields are those of the tables in
//! `schema`. Promise: nothing recurses, and memory is in proportion to what comes in.

mod lexer;
mod read;
mod write;

pub(super) use read::{kind, to_bytes};
pub(super) use write::to_text;

use super::schema::numbered::{Described, Table};
use super::schema::{HloModuleProto, HloProto, HloSnapshot};
use super::sniff::Kind;

/// Messages within messages; snapshots of nested tuples are the deepest there are.
const MOST_NESTED: usize = 512;

/// The fields of a message that a file may hold.
fn table_of(kind: Kind) -> &'static Table {
    match kind {
        Kind::Module => HloModuleProto::table(),
        Kind::Hlo => HloProto::table(),
        Kind::Snapshot => HloSnapshot::table(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# proto-message: HloModuleProto
name: "m" entry_computation_name: 'e', entry_computation_id: 0x1;
computations {
  name: "e"  # one
  id: 1 root_id: 01
  instructions: <
    name: "c" ".1" opcode: 'con\x73\164ant'
    shape { element_type: F32 dimensions: [2, 1] dimensions: 3
            layout { minor_to_major: 2 minor_to_major: 1 minor_to_major: 0 } }
    literal { shape: { element_type: 11 } f32s: [1.5, -inf, 1e2f, nan, -2, .5] }
    id: 1
    frontend_attributes { map { key: "a" value: "\"\303\251\n" } }
  >
}
"#;

    fn fault(text: &str) -> (usize, String) {
        let error = to_bytes(text.as_bytes(), Kind::Module).expect_err(text);
        (error.position, error.message.clone())
    }

    #[test]
    fn a_text_comes_back() {
        assert_eq!(kind(TEXT.as_bytes()), Some(Kind::Module));
        let bytes = to_bytes(TEXT.as_bytes(), Kind::Module).expect("it is legal");
        let text = to_text(&bytes, Kind::Module).expect("all fields have names");
        for line in [
            "  name: \"e\"\n",
            "    name: \"c.1\"\n    opcode: \"constant\"\n",
            "      element_type: F32\n      dimensions: [2, 1, 3]\n",
            "      f32s: [1.5, -inf, 100, nan, -2, 0.5]\n",
            "        value: \"\\\"\\303\\251\\n\"\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(to_bytes(text.as_bytes(), Kind::Module).ok(), Some(bytes));
    }

    #[test]
    fn numbers_are_packed_as_other_writers_do() {
        let text = "computations { instructions { dimensions: 1 dimensions: [2, 300] id: -1 } }";
        let bytes = to_bytes(text.as_bytes(), Kind::Module).expect("it is legal");
        let instruction = [&[0x72, 4, 1, 2, 0xac, 2, 0x98, 2][..], &[0xff; 9], &[1]].concat();
        let length = instruction.len() as u8;
        let before = [0x1a, length + 2, 0x12, length];
        assert_eq!(bytes, [&before[..], &instruction[..]].concat());
    }

    #[test]
    fn texts_of_modules_are_no_protos() {
        for text in [
            "hlo {\n  ROOT p = f32[] parameter(0)\n}",
            "hlo { %p = f32[] parameter(0)\n}",
            "name { a = f32[] parameter(0) }",
            "HloModule name: a",
            "name = f32[] parameter(0)",
            "// computations {\n",
            "",
            "#",
            "computations (p: f32[]) -> f32[] {",
        ] {
            assert_eq!(kind(text.as_bytes()), None, "{text}");
        }
        for (text, found) in [
            ("hlo_module { name: \"a\" }", Kind::Hlo),
            ("hlo: < # b\n hlo_module {", Kind::Snapshot),
            ("# a\n\n  entry_computation_id : 5", Kind::Module),
            ("computations {}", Kind::Module),
            ("computations: [{ id: 1 }]", Kind::Module),
        ] {
            assert_eq!(kind(text.as_bytes()), Some(found), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_where_it_stands() {
        for (text, position, message) in [
            (
                "nam: 1",
                0,
                "HloModuleProto has no field 'nam'; did you mean 'name'?",
            ),
            ("id: 1 id: 2", 6, "field 'id' is given twice"),
            (
                "id: \"a\"",
                4,
                "expected a whole number for 'id', found a string",
            ),
            (
                "id: 1.5",
                4,
                "expected a whole number for 'id', found '1.5'",
            ),
            ("id: 9223372036854775808", 4, "does not fit"),
            ("name: 5", 6, "expected a string for 'name', found '5'"),
            (
                "name: \"a\nb\"",
                6,
                "a string without its closing quote on the same line",
            ),
            ("name: \"\\q\"", 7, "an unknown escape"),
            ("id 5", 3, "expected ':' after 'id', found '5'"),
            ("id: [1]", 4, "field 'id' is not repeated"),
            (
                "computations { id: 1",
                20,
                "expected '}' or a field of HloComputationProto, found the end",
            ),
            (
                "computations { id: 1 >",
                21,
                "expected '}' or a field of HloComputationProto, found '>'",
            ),
            (
                "computations: [{ id: 1 } { }]",
                25,
                "expected ',' or ']' in the list of 'computations'",
            ),
            ("[ext.name]: 1", 0, "extensions and Any"),
            (
                "schedule { sequences { key: 1 value { instruction_ids: [1,] } } }",
                58,
                "a whole number",
            ),
            (
                "host_program_shape { result { element_type: F31 } }",
                44,
                "'F31' is no value of 'element_type'",
            ),
            (
                "host_program_shape { result { is_dynamic_dimension: 2 } }",
                52,
                "true or false",
            ),
            (
                "device_assignment { replica_count: 2147483648 }",
                35,
                "does not fit",
            ),
        ] {
            let (at, found) = fault(text);
            assert!(found.contains(message), "{text}: {found}");
            assert_eq!(at, position, "{text}: {found}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let shape = "tuple_shapes {".repeat(100_000);
        let text = format!("host_program_shape {{ result {{ {shape}");
        assert!(fault(&text).1.contains("deeper than"));
    }
}

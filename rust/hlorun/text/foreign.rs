//! Tells what a text is that is no HLO: other things XLA dumps, other encodings.
//!
//! In: a text that does not start with `HloModule`. Out: a sentence for the user.

/// Bytes looked at for what no text holds.
const WINDOW: usize = 16;

const MLIR: [&[u8]; 5] = [
    b"module @",
    b"module attributes",
    b"builtin.module",
    b"func.func",
    b"#loc",
];

const ASSIGNMENTS: [&[u8]; 3] = [b"BufferAssignment:", b"Used values:", b"HloLiveRange (max"];

/// What `text` is, where its start tells.
pub fn recognize(text: &[u8]) -> Option<&'static str> {
    let trimmed = text.trim_ascii_start();
    let starts = |with: &[&[u8]]| with.iter().any(|start| trimmed.starts_with(start));
    if starts(&MLIR) {
        return Some(
            "this is MLIR (StableHLO?), not HLO text; XLA dumps HLO text with --xla_dump_hlo_as_text",
        );
    }
    if starts(&ASSIGNMENTS) {
        return Some(
            "this is a buffer assignment, not a module; load_buffer_assignment and hlorun memory read it",
        );
    }
    if starts(&[b"\xff\xfe", b"\xfe\xff"]) {
        return Some(
            "this is UTF-16 or UTF-32, HLO text is UTF-8; convert it, with iconv for example",
        );
    }
    let odd = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    if text.iter().take(WINDOW).any(odd) {
        return Some(
            "this is binary, not HLO text (a serialized proto?); XLA dumps HLO text with --xla_dump_hlo_as_text",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::recognize;

    #[test]
    fn other_things_are_named() {
        for (text, wanted) in [
            (&b"module @jit_f {\n"[..], Some("MLIR")),
            (
                b"BufferAssignment:\nallocation 0",
                Some("buffer assignment"),
            ),
            (b"\xff\xfeH\0l\0o\0", Some("UTF-16")),
            (b"\x0a\x05jit_f\x12\x04main", Some("binary")),
            (b"\x7fELF\x02\x01\x01\0\0", Some("binary")),
            (b"ENTRY main {\n\tx = f32[] constant(1) }", None),
            (b"%x = f32[] constant(1)\r\n", None),
            (b"", None),
        ] {
            let found = recognize(text);
            assert_eq!(found.is_some(), wanted.is_some(), "{text:?}");
            assert!(
                found
                    .zip(wanted)
                    .is_none_or(|(found, wanted)| found.contains(wanted))
            );
        }
    }
}

//! Tells what bytes are that are no HLO: other things XLA dumps, other programs' models, other
//! encodings.
//!
//! In: bytes that do not start with `HloModule` and are no HLO proto. Out: a sentence for the user
//! that names the way to HLO.

/// Bytes looked at for what no text holds.
const WINDOW: usize = 16;

/// The way from a JAX function to HLO text.
macro_rules! from_jax {
    ($what:literal) => {
        concat!(
            $what,
            "; JAX gives HLO text with jax.jit(f).lower(x).as_text(\"hlo\"), XLA dumps it with --xla_dump_hlo_as_text"
        )
    };
}

/// The way from a TensorFlow model to HLO text.
macro_rules! from_tensorflow {
    ($what:literal) => {
        concat!(
            $what,
            "; TensorFlow gives HLO text with f.experimental_get_compiler_ir(x)(stage=\"hlo\") of a \
             tf.function(f, jit_compile=True), JAX with jax.jit(f).lower(x).as_text(\"hlo\")"
        )
    };
}

const MLIR: &str = from_jax!("this is MLIR (StableHLO?), not HLO");
const LLVM: &str = from_jax!(
    "this is LLVM IR, which XLA made from HLO; the module is the file beside it that ends in .txt or .hlo.pb"
);
const PTX: &str = from_jax!(
    "this is GPU assembly, which XLA made from HLO; the module is the file beside it that ends in .txt or .hlo.pb"
);
const MACHINE: &str =
    from_jax!("this is machine code, which a compiler made; HLO cannot be read back from it");
const ONNX: &str = from_jax!(
    "this is an ONNX model, not HLO; jaxonnxruntime and onnx2jax make JAX functions of it"
);
const SAVED_MODEL: &str = from_tensorflow!("this is a TensorFlow SavedModel, not HLO");
const TFLITE: &str = from_tensorflow!("this is a TensorFlow Lite model, not HLO");
const ASSIGNMENT: &str =
    "this is a buffer assignment, not a module; load_buffer_assignment and hlorun memory read it";
const OPTIONS: &str = from_jax!("these are options of XLA, not a module");
const PICTURE: &str = from_jax!(
    "this is a picture of a graph; the module is the file beside it that ends in .txt or .hlo.pb"
);
const ARCHIVE: &str = "this is a ZIP archive, as PyTorch and Keras write for weights, not HLO; PyTorch/XLA dumps \
     HLO text where XLA_FLAGS has --xla_dump_to=FOLDER, JAX gives it with jax.jit(f).lower(x).as_text(\"hlo\")";
const JAXPR: &str = from_jax!("this is a jaxpr, not HLO");

/// What files begin with, blanks before it left out, and what they are then.
const STARTS: &[(&[u8], &str)] = &[
    (b"module @", MLIR),
    (b"module attributes", MLIR),
    (b"module {", MLIR),
    (b"builtin.module", MLIR),
    (b"func.func", MLIR),
    (b"#loc", MLIR),
    (b"ML\xefR", MLIR),
    (b"BufferAssignment:", ASSIGNMENT),
    (b"Used values:", ASSIGNMENT),
    (b"HloLiveRange (max", ASSIGNMENT),
    (b"Memory Space: ", ASSIGNMENT),
    (b"Total bytes used: ", ASSIGNMENT),
    (b"digraph ", PICTURE),
    (b"<!DOCTYPE html", PICTURE),
    (b"<html", PICTURE),
    (b"<svg", PICTURE),
    (b"PK\x03\x04", ARCHIVE),
    (b"; ModuleID =", LLVM),
    (b"source_filename =", LLVM),
    (b"target datalayout", LLVM),
    (b"target triple", LLVM),
    (b"BC\xc0\xde", LLVM),
    (b".version ", PTX),
    (b".amdgcn_target", PTX),
    (b"\x7fELF", MACHINE),
    (b"\xcf\xfa\xed\xfe", MACHINE),
    (b"{ lambda", JAXPR),
    (
        b"\xff\xfe",
        "this is UTF-16 or UTF-32, HLO text is UTF-8; convert it, with iconv for example",
    ),
    (
        b"\xfe\xff",
        "this is UTF-16 or UTF-32, HLO text is UTF-8; convert it, with iconv for example",
    ),
    (
        b"\x93NUMPY",
        "this is a NumPy array, not a module; hlorun run takes it with --inputs",
    ),
    (
        b"\x89HDF",
        from_tensorflow!("this is an HDF5 file, as Keras writes for weights, not HLO"),
    ),
];

/// What `text` is, where its start tells.
pub fn recognize(text: &[u8]) -> Option<&'static str> {
    let trimmed = text.trim_ascii_start();
    if let Some((_, what)) = STARTS.iter().find(|(start, _)| trimmed.starts_with(start)) {
        return Some(what);
    }
    // An instruction may be called so too, but no colon follows it.
    let word = trimmed
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
    if trimmed.starts_with(b"xla_") && trimmed.get(word.count()) == Some(&b':') {
        return Some(OPTIONS);
    }
    if text.get(4..8) == Some(b"TFL3") {
        return Some(TFLITE);
    }
    // Field 1 is a number: the version of a model. Field 2 of ONNX is the name of who wrote it.
    if let [8, version, 0x12, length, rest @ ..] = text
        && *version < 0x80
    {
        let name = rest.get(..usize::from(*length)).unwrap_or_default();
        let is_name = !name.is_empty() && name.iter().all(|byte| (b' '..0x7f).contains(byte));
        return Some(if is_name { ONNX } else { SAVED_MODEL });
    }
    let odd = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    if text.iter().take(WINDOW).any(odd) {
        return Some(from_jax!(
            "this is binary and no HloProto, HloModuleProto or HloSnapshot"
        ));
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
            (b"\x7fELF\x02\x01\x01\0\0", Some("machine code")),
            (
                b"; ModuleID = '__compute_module'\nsource_filename",
                Some("LLVM IR"),
            ),
            (b".version 8.1\n.target sm_80", Some("GPU assembly")),
            (b"\x08\x07\x12\x07pytorch\x1a\x011", Some("ONNX")),
            (b"\x08\x01\x12\x90\x05\x0a\x80", Some("SavedModel")),
            (b"\x1c\0\0\0TFL3\x14\0", Some("Lite")),
            (b"ML\xefR\x0dStableHLO", Some("MLIR")),
            (b"{ lambda ; a:f32[]. let", Some("jaxpr")),
            (b"xla_cpu_enable_fast_min_max: false", Some("options")),
            (b"xla_op = f32[] parameter(0)", None),
            (b"digraph G {", Some("picture")),
            (b"PK\x03\x04\x14", Some("archive")),
            (
                b"Total bytes used: 104112 (101.7KiB)",
                Some("buffer assignment"),
            ),
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

//! Artifacts of StableHLO are read, and broken ones declined. `tests/python/tools/make_stablehlo.py` made
//! those of `tests/data/stablehlo`; `tests/python/jax_plugin/stablehlo.py` compares with jaxlib's conversion.

use hlorun::module::HloModule;
use hlorun::stablehlo::{Declined, read};
use hlorun::text::ParseOptions;
use hlorun::text::printer::{PrintOptions, print_module};

const CONTROL: &[u8] = include_bytes!("data/stablehlo/control.mlirbc");
const ARRAYS: &[u8] = include_bytes!("data/stablehlo/arrays.mlirbc");

fn read_default(artifact: &[u8]) -> Result<HloModule, Declined> {
    read(artifact, &ParseOptions::default())
}

fn text_of(artifact: &[u8]) -> String {
    let module = read_default(artifact).expect("it is read");
    print_module(&module, &PrintOptions::default())
}

#[test]
fn what_is_read_is_legal() {
    for artifact in [CONTROL, ARRAYS] {
        let module = read_default(artifact).expect("it is read");
        hlorun::verify::verify(&module).expect("it is legal");
    }
}

#[test]
fn values_from_outside_come_in_through_tuples() {
    let text = text_of(CONTROL);
    for part in [
        "input_output_alias={ {1}: (0, {}, may-alias) }",
        "branch_computations={",
        ", condition=%",
        "get-tuple-element(",
        "op_name=\"jit(control)/",
        "FileNames\n1 \"make_stablehlo.py\"",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn attributes_are_those_of_hlo() {
    let text = text_of(ARRAYS);
    for part in [
        "window={size=3x3 stride=2x1 pad=0_1x1_1}, dim_labels=b01f_01io->b01f",
        "window={size=1x2x2x1 stride=1x2x2x1}",
        "operand_precision={highest,highest}",
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
        "topk(",
        "k=2, largest=true",
        "erf(",
        "custom_call_target=\"lapack_spotrf_ffi\"",
        "api_version=API_VERSION_TYPED_FFI",
        "backend_config={uplo = 76 : ui8}",
        "bf16[2]{0} constant({1.5, -2})",
        "pred[3]{0} constant({1, 0, 1})",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn what_ends_early_is_declined() {
    for artifact in [CONTROL, ARRAYS] {
        for end in (0..artifact.len()).step_by(17) {
            assert!(read_default(&artifact[..end]).is_err(), "{end} bytes");
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let mut changed = Vec::new();
    for artifact in [CONTROL, ARRAYS] {
        for at in (0..artifact.len()).step_by(3) {
            for value in [0, 0xff, artifact[at] ^ (1 << (at % 8))] {
                changed.clear();
                changed.extend_from_slice(artifact);
                changed[at] = value;
                let _ = read_default(&changed);
            }
        }
    }
}

#[test]
fn newer_versions_are_declined() {
    let mut newer = CONTROL.to_vec();
    let at = newer
        .iter()
        .position(|&byte| byte == b'v')
        .expect("a version");
    assert_eq!(&newer[at..at + 5], b"v1.17");
    newer[at + 3] = b'9';
    let declined = read_default(&newer).expect_err("it is newer");
    assert!(declined.to_string().contains("a version"), "{declined}");
}

//! Edits of modules: what they leave is legal, and computes what is expected.

use hlorun::module::edit::{Edit, edited, resized, widened};
use hlorun::module::{HloModule, InstructionId};
use hlorun::text::printer::{PrintOptions, print_module};
use hlorun::text::{ParseOptions, parse};
use hlorun::verify::verify;

const TEXT: &str =
    "HloModule m, entry_computation_layout={(f32[8]{0}, f32[8]{0})->(f32[4]{0}, f32[], u32[8]{0})}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8] sine(x)
  ROOT r = (s32[], f32[8]) tuple(next, y)
}

condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT r = pred[] compare(i, ten), direction=LT
}

ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  k = f32[8] constant({1, 2, 3, 4, 5, 6, 7, 8})
  t = f32[8] multiply(p, k)
  z = s32[] constant(0)
  state = (s32[], f32[8]) tuple(z, t)
  w = (s32[], f32[8]) while(state), condition=condition, body=body
  u = f32[8] get-tuple-element(w), index=1
  h = f32[4] slice(u), slice={[4:8]}
  zero = f32[] constant(0)
  sum = f32[] reduce(u, zero), dimensions={0}, to_apply=add
  bits = u32[8] bitcast-convert(q)
  ROOT out = (f32[4], f32[], u32[8]) tuple(h, sum, bits)
}
";

fn module() -> HloModule {
    parse(TEXT.as_bytes().into(), &ParseOptions::default()).unwrap()
}

fn find(module: &HloModule, name: &str) -> InstructionId {
    module.find_instruction(name).unwrap()
}

/// Prints, reads again and verifies.
fn text_of(module: &HloModule) -> String {
    let text = print_module(module, &PrintOptions::default());
    let again = parse(text.clone().into_bytes().into(), &ParseOptions::default()).unwrap();
    verify(&again).unwrap_or_else(|error| panic!("{error}\n{text}"));
    text
}

#[test]
fn what_nothing_reads_goes_with_its_parameters_and_computations() {
    let module = module();
    let output = Edit::Outputs([find(&module, "bits")].into());
    let text = text_of(&edited(&module, &[output]));
    assert!(text.contains("q: f32[8]) -> u32[8]"), "{text}");
    for gone in ["while", "sine", "add", "parameter(1)"] {
        assert!(!text.contains(gone), "{gone} in {text}");
    }
}

#[test]
fn values_become_operands_zeros_parameters_and_numbers() {
    let module = module();
    let id = |name| find(&module, name);
    let text = text_of(&edited(
        &module,
        &[
            Edit::Operand(id("y"), 0),
            Edit::Zero(id("t")),
            Edit::Parameter(id("u")),
            Edit::Number(id("ten"), 1),
        ],
    ));
    assert!(
        !text.contains("sine") && !text.contains("multiply"),
        "{text}"
    );
    assert!(!text.contains("while"), "nothing reads the loop: {text}");
    let text = text_of(&edited(&module, &[Edit::Number(id("ten"), 3)]));
    assert!(
        text.contains("constant(3)") && !text.contains("constant(10)"),
        "{text}"
    );
    let text = text_of(&edited(&module, &[Edit::Once(id("w"))]));
    assert!(text.contains("call(%state), to_apply=%body"), "{text}");
    let text = text_of(&edited(&module, &[Edit::Zero(id("t"))]));
    assert!(
        text.contains("broadcast") && text.contains("while"),
        "{text}"
    );
}

#[test]
fn outputs_stay_a_tuple_of_several() {
    let module = module();
    let outputs = ["sum", "bits"].map(|name| find(&module, name));
    let text = text_of(&edited(&module, &[Edit::Outputs(outputs.into())]));
    assert!(text.contains("-> (f32[], u32[8])"), "{text}");
}

#[test]
fn dimensions_shrink_everywhere_at_once() {
    let module = module();
    let small = resized(&resized(&module, 4, 2), 8, 6);
    let text = text_of(&small);
    assert!(
        text.contains("slice={[4:6]}") && text.contains("constant({1, 2, 3, 4, 5, 6})"),
        "{text}"
    );
    assert!(!text.contains("f32[8]"), "{text}");
}

#[test]
fn wide_modules_keep_what_knows_its_type() {
    let text = text_of(&widened(&module()).unwrap());
    assert!(
        text.contains("f64[8]{0} sine") || text.contains("f64[8] sine"),
        "{text}"
    );
    assert!(
        text.contains("p: f32[8]"),
        "parameters keep their types: {text}"
    );
    assert!(text.contains("bitcast-convert(%q)"), "{text}");
    assert!(
        text.contains("(f64[4]") && text.contains("u32[8]"),
        "{text}"
    );
}

//! What the checker of plans proves.

use hlorun::plan::{Check, CompileOptions, compile};
use hlorun::verify::verify;

/// Loops in each other's bodies and conditions in turn; each swaps two arrays.
fn nest(depth: usize) -> String {
    let state = "(s32[], f32[8], f32[8])";
    let mut text = String::from("HloModule nest\n");
    for level in 0..=depth {
        let loops = match level.checked_sub(1) {
            None => "tuple(t, x, y)".to_owned(),
            Some(below) => format!("while(i), condition=c{below}, body=b{below}"),
        };
        let parts = |inner: &str| {
            format!(
                "p = {state} parameter(0)\n t = s32[] get-tuple-element(p), index=0\n \
                 x = f32[8] get-tuple-element(p), index=1\n y = f32[8] get-tuple-element(p), index=2\n \
                 zero = s32[] constant(0)\n i = {state} tuple(zero, y, x)\n in = {state} {inner}\n"
            )
        };
        let (body, condition) = match level % 2 {
            0 => (parts(&loops), parts("tuple(t, x, y)")),
            _ => (parts("tuple(t, x, y)"), parts(&loops)),
        };
        text += &format!(
            "b{level} {{ {body} one = s32[] constant(1)\n u = s32[] add(t, one)\n \
             v = f32[8] get-tuple-element(in), index=1\n w = f32[8] add(v, x)\n \
             ROOT q = {state} tuple(u, y, w) }}\n\
             c{level} {{ {condition} s = s32[] get-tuple-element(in), index=0\n \
             m = s32[] add(s, t)\n two = s32[] constant(2)\n \
             ROOT q = pred[] compare(m, two), direction=LT }}\n"
        );
    }
    text + &format!(
        "ENTRY e {{ a = f32[8] parameter(0)\n b = f32[8] parameter(1)\n z = s32[] constant(0)\n \
         t = {state} tuple(z, a, b)\n ROOT w = {state} while(t), condition=c{depth}, body=b{depth} }}\n"
    )
}

#[test]
fn loops_in_loops_are_proved_to_their_end() {
    let module = hlorun::text::parse(nest(24).as_bytes().into(), &Default::default()).unwrap();
    let module = verify(&module).unwrap();
    let options = CompileOptions {
        disable: hlorun::plan::hlo::PASSES
            .iter()
            .map(|&name| name.into())
            .collect(),
        check: Check::Plan,
        ..CompileOptions::default()
    };
    // A plan that takes too many steps is refused.
    compile(&module, &options).unwrap();
}

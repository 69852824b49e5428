//! The planner: loops are updated in place, and what it sees through them keeps the numbers.

use hlorun::module::HloOpcode;
use hlorun::plan::thunk::{Thunk, ThunkKind, ThunkSequence};
use hlorun::plan::{Check, CompileOptions, Executable, compile};
use hlorun::verify::verify;

fn build(text: &str, disable: &[&str]) -> Executable {
    let module = hlorun::text::parse(text.as_bytes().into(), &Default::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let module = verify(&module).unwrap_or_else(|error| panic!("{error}"));
    let options = CompileOptions {
        disable: disable.iter().map(|&name| name.to_owned()).collect(),
        check: Check::Plan,
        ..CompileOptions::default()
    };
    compile(&module, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Small different numbers for every input; all inputs are `f32`.
fn inputs(executable: &Executable) -> Vec<Vec<f32>> {
    executable
        .inputs()
        .iter()
        .enumerate()
        .map(|(k, leaf)| {
            (0..leaf.byte_size() / 4)
                .map(|i| ((i * 37 + k * 11) % 29) as f32 / 29.0 - 0.5)
                .collect()
        })
        .collect()
}

fn run(executable: &Executable) -> Vec<Vec<f32>> {
    let inputs = inputs(executable);
    let mut outputs: Vec<Vec<f32>> = executable
        .outputs()
        .iter()
        .map(|leaf| vec![f32::NAN; leaf.byte_size() / 4])
        .collect();
    let sources: Vec<*const u8> = inputs.iter().map(|v| v.as_ptr().cast()).collect();
    let targets: Vec<*mut u8> = outputs.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
    // SAFETY: every address holds an array of its leaf's size.
    unsafe { executable.run(&sources, &targets, &Default::default()) }
        .unwrap_or_else(|error| panic!("{error}"));
    outputs
}

/// Thunks of the only loop's body.
fn body(executable: &Executable) -> &ThunkSequence {
    fn find(thunks: &ThunkSequence) -> Option<&ThunkSequence> {
        thunks.iter().find_map(|thunk| match &thunk.kind {
            ThunkKind::While(body) => Some(&body.body),
            _ => None,
        })
    }
    find(executable.thunks()).expect("no loop")
}

fn count(thunks: &[Thunk], wanted: fn(&ThunkKind) -> bool) -> usize {
    thunks.iter().filter(|thunk| wanted(&thunk.kind)).count()
}

fn is_gemm(kind: &ThunkKind) -> bool {
    matches!(kind, ThunkKind::Gemm(_))
}

fn is_copy(kind: &ThunkKind) -> bool {
    matches!(kind, ThunkKind::Copy(_))
}

fn assert_close(a: &[Vec<f32>], b: &[Vec<f32>]) {
    assert_eq!(a.len(), b.len());
    for (k, (x, y)) in a.iter().zip(b).enumerate() {
        let scale = y.iter().fold(1.0f32, |m, v| m.max(v.abs()));
        for (i, (p, q)) in x.iter().zip(y).enumerate() {
            assert!(
                (p - q).abs() <= 2e-5 * scale,
                "output {k}[{i}]: {p} and {q}"
            );
        }
    }
}

/// A recurrent cell over eight steps: rows of `xs` and the state times weights, rows of two outputs.
const CELL: &str = "HloModule cell

body {
  p = (s32[], f32[8,4,16], f32[48,64], f32[4,32], f32[8,4,32]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  xs = f32[8,4,16] get-tuple-element(p), index=1
  w = f32[48,64] get-tuple-element(p), index=2
  h = f32[4,32] get-tuple-element(p), index=3
  hs = f32[8,4,32] get-tuple-element(p), index=4
  zero = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4,16] dynamic-slice(xs, t, zero, zero), dynamic_slice_sizes={1,4,16}
  x = f32[4,16] reshape(row)
  both = f32[4,48] concatenate(x, h), dimensions={1}
  z = f32[4,64] dot(both, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[4,32] slice(z), slice={[0:4], [0:32]}
  b = f32[4,32] slice(z), slice={[0:4], [32:64]}
  ta = f32[4,32] tanh(a)
  lb = f32[4,32] logistic(b)
  next = f32[4,32] multiply(ta, lb)
  next3 = f32[1,4,32] reshape(next)
  stored = f32[8,4,32] dynamic-update-slice(hs, next3, t, zero, zero)
  t1 = s32[] add(t, one)
  ROOT r = (s32[], f32[8,4,16], f32[48,64], f32[4,32], f32[8,4,32]) tuple(t1, xs, w, next, stored)
}

cond {
  p = (s32[], f32[8,4,16], f32[48,64], f32[4,32], f32[8,4,32]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT lt = pred[] compare(t, n), direction=LT
}

ENTRY main {
  xs = f32[8,4,16] parameter(0)
  w = f32[48,64] parameter(1)
  h = f32[4,32] parameter(2)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  hs = f32[8,4,32] broadcast(none), dimensions={}
  init = (s32[], f32[8,4,16], f32[48,64], f32[4,32], f32[8,4,32]) tuple(zero, xs, w, h, hs)
  loop = (s32[], f32[8,4,16], f32[48,64], f32[4,32], f32[8,4,32]) while(init), condition=cond, body=body
  last = f32[4,32] get-tuple-element(loop), index=3
  all = f32[8,4,32] get-tuple-element(loop), index=4
  ROOT r = (f32[4,32], f32[8,4,32]) tuple(last, all)
}
";

const ALL: &[&str] = &hlorun::plan::hlo::PASSES;

#[test]
fn a_loop_copies_none_of_its_state() {
    for disable in [ALL, &[][..]] {
        let executable = build(CELL, disable);
        let copied: Vec<&Thunk> = body(&executable)
            .iter()
            .filter(|thunk| is_copy(&thunk.kind))
            .filter(|thunk| {
                let id = thunk.instruction;
                executable.module().instruction(id).opcode() == HloOpcode::While
            })
            .collect();
        assert!(copied.is_empty(), "{disable:?} {copied:?}");
    }
}

#[test]
fn the_part_of_a_product_that_does_not_wait_is_hoisted() {
    let plain = build(CELL, ALL);
    let hoisted = build(CELL, &["loop-pack"]);
    assert_eq!(count(plain.thunks(), is_gemm), 0);
    assert_eq!(
        count(hoisted.thunks(), is_gemm),
        1,
        "one product before the loop"
    );
    assert_eq!(count(body(&hoisted), is_gemm), 1, "one product left in it");
    assert_close(&run(&hoisted), &run(&plain));
}

#[test]
fn rows_that_are_not_all_rows_are_not_hoisted() {
    // Every second trip reads row 0.
    let text = CELL
        .replace("dynamic-slice(xs, t, zero", "dynamic-slice(xs, u, zero")
        .replace("  row = ", "  half = s32[] shift-right-logical(t, one)\n  u = s32[] multiply(half, half)\n  row = ");
    let plain = build(&text, ALL);
    let tried = build(&text, &[]);
    assert_eq!(count(tried.thunks(), is_gemm), 0);
    assert_close(&run(&tried), &run(&plain));
}

#[test]
fn weights_that_change_are_not_hoisted() {
    let text = CELL.replace(
        "tuple(t1, xs, w, next, stored)",
        "tuple(t1, xs, w2, next, stored)",
    );
    let text = text.replace("  t1 = ", "  w2 = f32[48,64] add(w, w)\n  t1 = ");
    let plain = build(&text, ALL);
    let tried = build(&text, &[]);
    assert_eq!(count(tried.thunks(), is_gemm), 0);
    assert_close(&run(&tried), &run(&plain));
}

/// The gradient of a layer over eight steps, read backwards: a product whose one half is only an
/// output, and a sum of outer products.
const GRADIENT: &str = "HloModule gradient

body {
  p = (s32[], f32[8,4,48], f32[8,4,32], f32[32,48], f32[4,32], f32[48,32], f32[8,4,16]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  xs = f32[8,4,48] get-tuple-element(p), index=1
  gs = f32[8,4,32] get-tuple-element(p), index=2
  w = f32[32,48] get-tuple-element(p), index=3
  dh = f32[4,32] get-tuple-element(p), index=4
  dw = f32[48,32] get-tuple-element(p), index=5
  dxs = f32[8,4,16] get-tuple-element(p), index=6
  zero = s32[] constant(0)
  one = s32[] constant(1)
  seven = s32[] constant(7)
  i = s32[] subtract(seven, t)
  xrow = f32[1,4,48] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,4,48}
  x = f32[4,48] reshape(xrow)
  grow = f32[1,4,32] dynamic-slice(gs, i, zero, zero), dynamic_slice_sizes={1,4,32}
  g = f32[4,32] reshape(grow)
  sum = f32[4,32] add(dh, g)
  dz = f32[4,32] tanh(sum)
  d = f32[4,48] dot(dz, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dx = f32[4,16] slice(d), slice={[0:4], [0:16]}
  next = f32[4,32] slice(d), slice={[0:4], [16:48]}
  dx3 = f32[1,4,16] reshape(dx)
  stored = f32[8,4,16] dynamic-update-slice(dxs, dx3, i, zero, zero)
  outer = f32[48,32] dot(x, dz), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dw2 = f32[48,32] add(dw, outer)
  t1 = s32[] add(t, one)
  ROOT r = (s32[], f32[8,4,48], f32[8,4,32], f32[32,48], f32[4,32], f32[48,32], f32[8,4,16]) tuple(t1, xs, gs, w, next, dw2, stored)
}

cond {
  p = (s32[], f32[8,4,48], f32[8,4,32], f32[32,48], f32[4,32], f32[48,32], f32[8,4,16]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT lt = pred[] compare(t, n), direction=LT
}

ENTRY main {
  xs = f32[8,4,48] parameter(0)
  gs = f32[8,4,32] parameter(1)
  w = f32[32,48] parameter(2)
  dh = f32[4,32] parameter(3)
  dw = f32[48,32] parameter(4)
  dxs = f32[8,4,16] parameter(5)
  zero = s32[] constant(0)
  init = (s32[], f32[8,4,48], f32[8,4,32], f32[32,48], f32[4,32], f32[48,32], f32[8,4,16]) tuple(zero, xs, gs, w, dh, dw, dxs)
  ROOT loop = (s32[], f32[8,4,48], f32[8,4,32], f32[32,48], f32[4,32], f32[48,32], f32[8,4,16]) while(init), condition=cond, body=body
}
";

/// Without the counter, which is no float.
fn floats(mut outputs: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    outputs.remove(0);
    outputs
}

#[test]
fn sums_of_products_are_computed_after_the_loop() {
    let plain = build(GRADIENT, ALL);
    let accumulated = build(GRADIENT, &["loop-defer", "loop-pack"]);
    assert_eq!(count(body(&plain), is_gemm), 2);
    assert_eq!(count(body(&accumulated), is_gemm), 1);
    assert_eq!(count(accumulated.thunks(), is_gemm), 1);
    assert_close(&floats(run(&accumulated)), &floats(run(&plain)));
}

#[test]
fn products_that_only_outputs_need_are_deferred() {
    let plain = build(GRADIENT, ALL);
    let deferred = build(GRADIENT, &["loop-accumulate", "loop-pack"]);
    assert_eq!(count(deferred.thunks(), is_gemm), 1, "the deferred half");
    assert_close(&floats(run(&deferred)), &floats(run(&plain)));
    let both = build(GRADIENT, &[]);
    assert_eq!(count(both.thunks(), is_gemm), 2);
    assert_eq!(count(body(&both), is_gemm), 1);
    assert_close(&floats(run(&both)), &floats(run(&plain)));
}

#[test]
fn a_sum_that_the_loop_reads_stays_in_it() {
    let text = GRADIENT.replace(
        "  t1 = ",
        "  corner = f32[1,1] slice(dw), slice={[0:1], [0:1]}\n  c = f32[] reshape(corner)\n  spread = f32[4,32] broadcast(c), dimensions={}\n  next2 = f32[4,32] add(next, spread)\n  t1 = ",
    );
    let text = text.replace("tuple(t1, xs, gs, w, next,", "tuple(t1, xs, gs, w, next2,");
    let plain = build(&text, ALL);
    let tried = build(&text, &["loop-defer", "loop-pack"]);
    assert_eq!(count(body(&tried), is_gemm), 2);
    assert_close(&floats(run(&tried)), &floats(run(&plain)));
}

#[test]
fn an_output_that_the_loop_reads_is_not_deferred() {
    let text = GRADIENT.replace(
        "  t1 = ",
        "  seen = f32[1,4,16] dynamic-slice(dxs, i, zero, zero), dynamic_slice_sizes={1,4,16}\n  most = f32[1,4,16] maximum(seen, dx3)\n  t1 = ",
    );
    let text = text.replace(
        "dynamic-update-slice(dxs, dx3, i",
        "dynamic-update-slice(dxs, most, i",
    );
    // The maximum has to be defined before it is stored.
    let (head, tail) = text.split_once("  stored = ").expect("the store");
    let (store, rest) = tail.split_once('\n').expect("its line");
    let text = format!(
        "{head}{}",
        rest.replacen("  t1 = ", &format!("  stored = {store}\n  t1 = "), 1)
    );
    let plain = build(&text, ALL);
    let tried = build(&text, &["loop-accumulate", "loop-pack"]);
    assert_eq!(count(tried.thunks(), is_gemm), 0);
    assert_close(&floats(run(&tried)), &floats(run(&plain)));
}

#[test]
fn leaves_that_swap_places_keep_their_values() {
    let text = "HloModule swap
body {
  p = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  a = f32[4] get-tuple-element(p), index=1
  b = f32[4] get-tuple-element(p), index=2
  c = f32[4] get-tuple-element(p), index=3
  one = s32[] constant(1)
  t1 = s32[] add(t, one)
  s = f32[4] add(a, b)
  ROOT r = (s32[], f32[4], f32[4], f32[4]) tuple(t1, b, s, a)
}
cond {
  p = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  t = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(t, n), direction=LT
}
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4], f32[4]) tuple(zero, a, b, a)
  ROOT loop = (s32[], f32[4], f32[4], f32[4]) while(init), condition=cond, body=body
}
";
    let executable = build(text, &[]);
    let given = inputs(&executable);
    let (mut a, mut b, mut c) = (given[0].clone(), given[1].clone(), given[0].clone());
    for _ in 0..5 {
        let sum: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
        (a, b, c) = (b, sum, a);
    }
    assert_eq!(floats(run(&executable)), vec![a, b, c]);
    // The parameters are the caller's and must not change.
    assert_eq!(inputs(&executable), given);
}

#[test]
fn results_do_not_depend_on_threads() {
    for text in [CELL, GRADIENT] {
        let module = hlorun::text::parse(text.as_bytes().into(), &Default::default()).expect("HLO");
        let module = verify(&module).expect("a legal module");
        let one = CompileOptions {
            threads: 1,
            check: Check::Plan,
            ..CompileOptions::default()
        };
        let one = run(&compile(&module, &one).expect("a plan"));
        let all = run(&compile(&module, &CompileOptions::default()).expect("a plan"));
        let bits = |v: &[Vec<f32>]| -> Vec<Vec<u32>> {
            v.iter()
                .map(|x| x.iter().map(|y| y.to_bits()).collect())
                .collect()
        };
        assert_eq!(bits(&one), bits(&all));
    }
}

#[test]
fn a_transposed_product_is_the_product_the_other_way_round() {
    let text = |permutation: &str, more: &str| {
        format!(
            "HloModule turned

ENTRY main {{
  a = f32[2,3,4,5] parameter(0)
  b = f32[2,5,6] parameter(1)
  ab = f32[2,3,4,6] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{1}}
  ROOT t = f32[{permutation}] {more}
}}
"
        )
    };
    let turned = |text: &str| {
        let plain = build(text, ALL);
        let tried = build(text, &[]);
        assert_close(&run(&tried), &run(&plain));
        tried
            .passes()
            .iter()
            .any(|pass| pass.name == "transpose-fold" && pass.changes > 0)
    };
    assert!(turned(&text(
        "2,6,3,4",
        "transpose(ab), dimensions={0,3,1,2}"
    )));
    assert!(!turned(&text(
        "2,6,4,3",
        "transpose(ab), dimensions={0,3,2,1}"
    )));
    let read_twice = text("2,6,3,4", "add(u, v)").replace(
        "  ROOT",
        "  u = f32[2,6,3,4] transpose(ab), dimensions={0,3,1,2}
  v = f32[2,6,3,4] reshape(ab)
  ROOT",
    );
    assert!(!turned(&read_twice));
}

/// A product's dimension numbers come from a backend config, which nobody has verified.
#[test]
fn products_of_odd_dimension_numbers_are_refused() {
    let compiled = |contracting: &str, batch: &str, result: &str| {
        let numbers = |side: &str, dims: &str| format!("\"{side}_dimensions\": [{dims}]");
        let config = [
            numbers("lhs_contracting", contracting),
            numbers("rhs_contracting", "\"0\""),
            numbers("lhs_batch", batch),
            numbers("rhs_batch", batch),
        ]
        .join(", ");
        let text = format!(
            "HloModule m\nENTRY e {{\n p = f32[5,7] parameter(0)\n q = f32[7,3] parameter(1)\n \
             ROOT d = f32[{result}] custom-call(p, q), custom_call_target=\"__cublas$gemm\", \
             backend_config={{\"gemm_backend_config\": {{\"alpha_real\": 1, \"alpha_imag\": 0, \"beta\": 0, \
             \"dot_dimension_numbers\": {{{config}}}}}}}\n}}\n"
        );
        let module = hlorun::text::parse(text.as_bytes().into(), &Default::default())
            .unwrap_or_else(|error| panic!("{error}"));
        compile(&verify(&module)?, &CompileOptions::default()).map(drop)
    };
    assert!(compiled("\"1\"", "", "5,3").is_ok());
    for (contracting, batch, result) in [
        ("\"2\"", "", "5,3"),
        ("\"-1\"", "", "5,3"),
        ("\"9223372036854775807\"", "", "5,3"),
        ("\"1\", \"1\"", "", "5,3"),
        ("\"0\"", "", "7,3"),
        ("\"1\"", "\"1\"", "5,3"),
        ("\"1\"", "\"0\"", "5,3"),
        ("\"1\"", "", "3,3"),
    ] {
        assert!(
            compiled(contracting, batch, result).is_err(),
            "{contracting} {batch} {result}"
        );
    }
}

#[test]
fn loops_of_few_elements_are_made_ready() {
    for text in [
        include_str!("hlo/execute/while-scalars.hlo"),
        include_str!("hlo/execute/while-elements.hlo"),
    ] {
        let executable = build(text, &[]);
        let mut loops = executable.thunks().iter().filter_map(|t| match &t.kind {
            ThunkKind::While(body) => Some(body),
            _ => None,
        });
        let body = loops.next().expect("no loop");
        assert!(body.is_brief);
        for thunk in body.condition.iter().chain(&body.body) {
            if let ThunkKind::Loop(fused) = &thunk.kind {
                assert!(fused.small.is_some(), "{:?}", thunk.instruction);
            }
        }
    }
    let large = "HloModule m\n\nENTRY e {\n  x = f32[100000] parameter(0)\n  \
                 ROOT r = f32[100000] negate(x)\n}\n";
    let ThunkKind::Loop(fused) = &build(large, &[]).thunks()[0].kind.clone() else {
        panic!("no fused loop");
    };
    assert!(fused.small.is_none());
}

#[test]
fn a_scatter_writes_into_an_operand_that_nobody_needs() {
    let scatter = |operand: &str| {
        format!(
            "f32[6,3] scatter({operand}, i, u), update_window_dims={{1}}, \
             inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, \
             index_vector_dim=1, to_apply=set"
        )
    };
    let text = format!(
        "HloModule m\n\nset {{\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}}\n\n\
         ENTRY e {{\n  x = f32[6,3] parameter(0)\n  u = f32[4,3] parameter(1)\n  \
         i = s32[4,1] constant({{{{1}},{{5}},{{1}},{{9}}}})\n  y = f32[6,3] negate(x)\n  \
         z = {}\n  ROOT r = {}\n}}\n",
        scatter("y"),
        scatter("z")
    );
    let executable = build(&text, &[]);
    assert_eq!(count(executable.thunks(), is_copy), 0);
    let of_parameter = build(&text.replace("scatter(y,", "scatter(x,"), &[]);
    assert_eq!(count(of_parameter.thunks(), is_copy), 1);
}

/// What is expensive is computed once, through equal operands and equal called computations.
#[test]
fn twins_are_computed_once() {
    let text = |second: &str, sum: &str| {
        format!(
            "HloModule m\n\
             add {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}}\n\
             plus {{\n c = f32[] parameter(0)\n d = f32[] parameter(1)\n ROOT t = f32[] add(c, d)\n}}\n\
             max {{\n e = f32[] parameter(0)\n f = f32[] parameter(1)\n ROOT u = f32[] maximum(e, f)\n}}\n\
             ENTRY main {{\n\
               p = f32[8,8] parameter(0)\n q = f32[8,8] parameter(1)\n\
               x = f32[8,8] tanh(p)\n y = f32[8,8] tanh(p)\n\
               one = f32[8,8] dot(x, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name=\"a\"}}\n\
               two = f32[8,8] dot({second}\n\
               zero = f32[] constant(0)\n nought = f32[] constant(0)\n\
               r = f32[8] reduce(one, zero), dimensions={{1}}, to_apply=add\n\
               s = f32[8] reduce(two, nought), dimensions={{1}}, to_apply={sum}\n\
               ROOT t = (f32[8,8], f32[8,8], f32[8], f32[8]) tuple(one, two, r, s)\n\
             }}\n"
        )
    };
    let same = "y, q), rhs_contracting_dims={0}, lhs_contracting_dims={1}";
    let swapped = "q, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let columns = "y, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    // The operand of both products is stored, so it is one in any case.
    for (second, sum, fewer) in [
        (same, "plus", 3),
        (same, "max", 2),
        (swapped, "plus", 1),
        (columns, "plus", 1),
    ] {
        let tried = build(&text(second, sum), &[]);
        let plain = build(&text(second, sum), &["common-subexpressions"]);
        let found = tried
            .passes()
            .iter()
            .find(|pass| pass.name == "common-subexpressions");
        assert_eq!(
            found.map_or(0, |pass| pass.changes),
            fewer,
            "{second} {sum}"
        );
        assert_close(&run(&tried), &run(&plain));
    }
}

#[test]
fn a_condition_leaves_what_is_read_after_the_loop() {
    let text = "HloModule m\nbody { p = (f32[], f32[]) parameter(0)\n i = f32[] get-tuple-element(p), index=0\n one = f32[] constant(1)\n j = f32[] add(i, one)\n k = f32[] multiply(j, j)\n ROOT r = (f32[], f32[]) tuple(j, k) }\ncondition { p = (f32[], f32[]) parameter(0)\n i = f32[] get-tuple-element(p), index=0\n x = f32[] get-tuple-element(p), index=1\n low = f32[] constant(0.1)\n n = f32[] minimum(x, low)\n ROOT q = pred[] compare(i, n), direction=LT }\nENTRY e { a = f32[] parameter(0)\n nine = f32[] constant(9)\n t = (f32[], f32[]) tuple(a, nine)\n ROOT w = (f32[], f32[]) while(t), condition=condition, body=body }\n";
    let expected = [vec![0.5f32], vec![0.25]];
    for disable in [
        &[][..],
        &["fusion"],
        &["fusion", "scalar-bytecode"],
        &["scalar-bytecode"],
    ] {
        assert_eq!(run(&build(text, disable)), expected, "{disable:?}");
    }
}

#[test]
fn branches_compute_where_the_loop_keeps_its_state() {
    let text = "HloModule branches
first { a = f32[100,100] parameter(0) ROOT r = f32[100,100] add(a, a) }
second { a = f32[100,100] parameter(0) ROOT r = f32[100,100] multiply(a, a) }
body {
  s = (s32[], f32[100,100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100,100] get-tuple-element(s), index=1
  one = s32[] constant(1)  p = s32[] and(i, one)  j = s32[] add(i, one)
  c = f32[100,100] conditional(p, x, x), branch_computations={first, second}
  ROOT t = (s32[], f32[100,100]) tuple(j, c)
}
cond {
  s = (s32[], f32[100,100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(4)
  ROOT lt = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[100,100] parameter(0)  z = s32[] constant(0)
  t = (s32[], f32[100,100]) tuple(z, x)
  w = (s32[], f32[100,100]) while(t), condition=cond, body=body
  ROOT r = f32[100,100] get-tuple-element(w), index=1
}
";
    let executable = build(text, &[]);
    fn copies(thunks: &ThunkSequence) -> usize {
        let nested = |thunk: &Thunk| thunk.nested().into_iter().map(copies).sum::<usize>();
        count(thunks, is_copy) + thunks.iter().map(nested).sum::<usize>()
    }
    assert_eq!(copies(body(&executable)), 0);
    let x = inputs(&executable).remove(0);
    let want: Vec<f32> = x.iter().map(|&x| (8.0 * x * x) * (8.0 * x * x)).collect();
    assert_close(&run(&executable), &[want]);
}
